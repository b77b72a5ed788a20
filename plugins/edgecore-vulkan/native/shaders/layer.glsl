// Macros for the input, sums and result of a convolution or linear layer, by DTYPE: floats (access.glsl), or 8-bit
// integers, stored as i8 or i32 (integers.glsl), with READ texel, shuffle or buffer. Integers are multiplied and added
// as floats, which are exact up to 2^24. If LONG, PARTS splits loops with more products than are exact, and KEEP_PART
// adds the sums of each part to the totals(integers). KEEP does so after the loops. Totals are quantized when stored.
//
// X4 and X1 read the input, W4 reads weights. A shader has an array SUMS(count), whose entries start as FIRST(column).
// STORE4 writes sum i to a vector of the result, with the addend if ADDS; STORE4_IF adds the addend only if `adds`,
// too. STORE1 writes an element of RESULT(column, i).
#if defined(DTYPE_i8) || defined(DTYPE_i32)
#include "integers.glsl"
#include "panels.glsl"
#if defined(READ_shuffle)
#extension GL_KHR_shader_subgroup_shuffle : require
#define READ_texel
#endif
#if defined(READ_texel)
#define TENSORS                                       \
  layout(set = 0, binding = 1) uniform isamplerBuffer x; \
  layout(set = 0, binding = 2) uniform isamplerBuffer w; \
  layout(set = 0, binding = 3) uniform samplerBuffer bias; \
  layout(set = 0, binding = 4) uniform samplerBuffer scales
#define X4(index) vec4(texelFetch(x, index) - in_zero)
#define X1(index) float(texelFetch(x, index).x - in_zero)
#define W4(index) vec4(texelFetch(w, index))
#define FLOATS4(name, index) texelFetch(name, index)
#else
#define TENSORS                                                            \
  INTEGERS_OF(1, x);                                                       \
  layout(set = 0, binding = 2) readonly buffer Weights { uint w_words[]; }; \
  layout(set = 0, binding = 3) readonly buffer Bias { vec4 bias[]; };       \
  layout(set = 0, binding = 4) readonly buffer Scales { vec4 scales[]; }
#define X4(index) vec4(INTEGER4(x, index) - in_zero)
#define X1(index) float(INTEGER1(x, index) - in_zero)
#define W4(index) vec4(unpacked(w_words[index]))
#define FLOATS4(name, index) name[index]
#endif
RESULTS;

const int kExact = 512;  // number of products of 255 and 128 whose sum is exact
#define LONG_CONSTANT(id) layout(constant_id = id) const bool LONG = true;
#define PARAMS_OF_INTEGERS \
  int in_zero, out_zero;   \
  float in_scale, inverse;  // inverse: 1 / the scale of the result
#define SUMS(count) \
  vec4 sums[count]; \
  ivec4 totals[count]; \
  [[unroll]] for (int t = 0; t < count; ++t) totals[t] = ivec4(0)
#define FIRST(column) vec4(0)
#define PART(steps, products) min(steps, LONG ? kExact / (products) : steps)
#define PARTS(from, to, steps, products)                                    \
  for (int from = 0, to = PART(steps, products); from < steps; from = to, to += PART(steps - to, products))
#define KEEP_PART(count) if (LONG) KEEP(count)
#define KEEP(count)                            \
  [[unroll]] for (int t = 0; t < count; ++t) { \
    totals[t] += ivec4(sums[t]);               \
    sums[t] = vec4(0);                         \
  }

ivec4 requantized(ivec4 total, vec4 scale, vec4 bias4, float low_limit, float inverse_scale, int zero) {
  const vec4 result = max(vec4(total) * scale + bias4, vec4(low_limit));
  return ivec4(clamp(roundEven(result * inverse_scale) + float(zero), -128.0, 127.0));
}

#define RESULT4 ivec4
#define RESULT(column, i) \
  requantized(totals[i], FLOATS4(scales, column) * in_scale, FLOATS4(bias, column), low, inverse, out_zero)
#define STORE4(at, column, i) PUT4(at, RESULT(column, i))
#define STORE4_IF(adds, at, column, i) STORE4(at, column, i)
#define STORE1(at, number) PUT1(at, number)
#else
#include "access.glsl"
#define TENSORS  \
  INPUT(1, x);   \
  WEIGHTS(2, w); \
  BIAS(3, bias); \
  ADDEND(4, addend)
#define X4(index) READ4(x, index)
#define X1(index) READ1(x, index)
#define W4(index) READ4(w, index)
#define LONG_CONSTANT(id)
#define PARAMS_OF_INTEGERS
#define SUMS(count) vec4 sums[count]
#define FIRST(column) READ4(bias, column)
#define PARTS(from, to, steps, products) const int from = 0, to = steps;
#define KEEP_PART(count)
#define KEEP(count)
#define RESULT4 vec4
#define RESULT(column, i) limited(sums[i], low, high)
#define STORE4(at, column, i) FINISH4(at, sums[i])
#define STORE4_IF(adds, at, column, i) \
  if (ADDS && adds) FINISH4(at, sums[i]); else WRITE4(at, RESULT(column, i))
#define STORE1(at, number) WRITE1(at, number)
#endif
