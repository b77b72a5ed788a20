// The loop of a shader over a result and its operands (ops/loop.h). Include it after types.glsl, with OPERANDS defined:
//
//   layout(push_constant) uniform Params { LOOP_PARAMS float alpha; };
//   ...
//   const uint id = flat_id();
//   if (id >= threads) return;
//   LOCATE(id);  // sets at[operand], in elements
//
// A thread computes REPEAT adjacent vectors of four elements, and steps by NEXT(); without VECTORS, one element.
layout(constant_id = 3) const bool VECTORS = false;
layout(constant_id = 4) const uint CONTIGUOUS = 0;  // a bit for each operand that varies along the innermost dim
layout(constant_id = 5) const uint REPEAT = 1;

// The push constants of the loop. In sizes and strides, the innermost dim is the last.
#define LOOP_PARAMS           \
  uint sizes[6];              \
  uint strides[OPERANDS * 6]; \
  uint outermost;             \
  uint threads;               \
  uint vectors;

#define LOCATE(id)                                                                       \
  uint at[OPERANDS];                                                                     \
  {                                                                                      \
    uint rest = id;                                                                      \
    for (uint o = 0; o < OPERANDS; ++o) at[o] = 0;                                       \
    for (uint d = 5; d > outermost; --d) {                                               \
      const uint quotient = rest / sizes[d];                                             \
      const uint index = rest - quotient * sizes[d];                                     \
      rest = quotient;                                                                   \
      for (uint o = 0; o < OPERANDS; ++o) at[o] += index * strides[o * 6 + d];           \
    }                                                                                    \
    for (uint o = 0; o < OPERANDS; ++o) at[o] += rest * strides[o * 6 + outermost];      \
  }

// True if operand number `number` is read in whole vectors.
#define IS_VECTOR(number) (VECTORS && (CONTIGUOUS >> number & 1) != 0)

// Moves the positions of all operands to the next vector.
#define NEXT()                                                                           \
  for (uint o = 0; o < OPERANDS; ++o) {                                                  \
    if (IS_VECTOR(o)) at[o] += 4;                                                        \
  }

// Declare a binding twice, as scalars `name` and as vectors `name4`: components of fp16 vectors in memory cannot be
// accessed.
#define RESULT(S, V, name)                                                             \
  layout(set = 0, binding = 0) writeonly buffer name##Scalars { S name[]; };           \
  layout(set = 0, binding = 0) writeonly buffer name##Vectors { V name##4[]; };
#if defined(READ_texel)  // see access.glsl
#define OPERAND(number, S, V, name) layout(set = 0, binding = number + 1) uniform samplerBuffer name;
#define LOAD_AS(V, S, name, number) \
  (IS_VECTOR(number) ? texelFetch(name, int(at[number] / 4)) : texelFetch(name, int(at[number])).xxxx)
#else
#define OPERAND(number, S, V, name)                                                    \
  layout(set = 0, binding = number + 1) readonly buffer name##Scalars { S name[]; };   \
  layout(set = 0, binding = number + 1) readonly buffer name##Vectors { V name##4[]; };
#define LOAD_AS(V, S, name, number) (IS_VECTOR(number) ? V(name##4[at[number] / 4]) : V(S(name[at[number]])))
#endif

// LOAD loads the elements of operand `number` as a vector A4 (types.glsl), LOAD_AS as a vector V of scalars S.
#define LOAD(name, number) LOAD_AS(A4, A, name, number)

// Stores `value` as a vector V, or, without VECTORS, its first component as a scalar S.
#define STORE_AS(V, S, name, id, value) \
  {                                     \
    if (VECTORS) {                      \
      name##4[id] = V(value);           \
    } else {                            \
      name[id] = S((value).x);          \
    }                                   \
  }
#define STORE(name, id, value) STORE_AS(T4, T, name, id, value)
