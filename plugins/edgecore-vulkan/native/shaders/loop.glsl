// The loop over a result and its operands that ops/loop.h describes. To be included after types.glsl, with OPERANDS
// defined:
//
//   layout(push_constant) uniform Params { LOOP_PARAMS float alpha; };
//   ...
//   const uint id = flat_id();
//   if (id >= threads) return;
//   LOCATE(id);  // sets at[operand], in elements
//
// A thread computes a vector of four elements or, without VECTORS, one element.
layout(constant_id = 3) const bool VECTORS = false;

// Sizes and strides are those of the innermost dim last.
#define LOOP_PARAMS           \
  uint sizes[6];              \
  uint strides[OPERANDS * 6]; \
  uint outermost;             \
  uint threads;               \
  uint contiguous;

#define LOCATE(id)                                                                       \
  uint at[OPERANDS];                                                                     \
  {                                                                                      \
    uint rest = id;                                                                      \
    for (uint o = 0; o < OPERANDS; ++o) at[o] = 0;                                       \
    for (uint d = 5; d > outermost; --d) {                                               \
      const uint index = rest % sizes[d];                                                \
      rest /= sizes[d];                                                                  \
      for (uint o = 0; o < OPERANDS; ++o) at[o] += index * strides[o * 6 + d];           \
    }                                                                                    \
    for (uint o = 0; o < OPERANDS; ++o) at[o] += rest * strides[o * 6 + outermost];      \
  }

// Whether operand `number` is read in whole vectors.
#define IS_VECTOR(number) (VECTORS && (contiguous >> number & 1) != 0)

// Declare a binding as scalars `name` and as vectors `name4`: fp16 vectors in memory have no components.
#define RESULT(S, V, name)                                                             \
  layout(set = 0, binding = 0) writeonly buffer name##Scalars { S name[]; };           \
  layout(set = 0, binding = 0) writeonly buffer name##Vectors { V name##4[]; };
#define OPERAND(number, S, V, name)                                                    \
  layout(set = 0, binding = number + 1) readonly buffer name##Scalars { S name[]; };   \
  layout(set = 0, binding = number + 1) readonly buffer name##Vectors { V name##4[]; };

// Loads the elements of operand `number` as a vector V of scalars S.
#define LOAD_AS(V, S, name, number) (IS_VECTOR(number) ? V(name##4[at[number] / 4]) : V(S(name[at[number]])))
#define LOAD(name, number) LOAD_AS(A4, A, name, number)

// Stores a vector V, or its first component as S.
#define STORE_AS(V, S, name, id, value) \
  {                                     \
    if (VECTORS) {                      \
      name##4[id] = V(value);           \
    } else {                            \
      name[id] = S((value).x);          \
    }                                   \
  }
#define STORE(name, id, value) STORE_AS(T4, T, name, id, value)
