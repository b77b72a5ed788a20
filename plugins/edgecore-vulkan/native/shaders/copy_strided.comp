// Copies a tensor of up to 6 dims between two memory layouts and dtypes: views, permutations, slices, expansions. One
// thread copies one element, or, with VECTORS, four adjacent elements of the result.
#version 450
#extension GL_EXT_shader_16bit_storage : require
#include "integers.glsl"
#if defined(FROM_f32)
#define S float
#define S4 vec4
#elif defined(FROM_f16)
#define S float16_t
#define S4 f16vec4
#elif defined(FROM_i32)
#define S int
#define S4 ivec4
#else  // i8: a vector of four 8-bit elements is a 32-bit word
#extension GL_EXT_shader_8bit_storage : require
#define S int8_t
#define S4 uint
#endif
#if defined(TO_f32)
#define T float
#define T4 vec4
#elif defined(TO_f16)
#define T float16_t
#define T4 f16vec4
#elif defined(TO_i32)
#define T int
#define T4 ivec4
#else
#extension GL_EXT_shader_8bit_storage : require
#define T int8_t
#define T4 uint
#endif
// V is a type that holds all values of the source's dtype. Conversions between fp16 and integers go through fp32,
// because the Vulkan feature for 16-bit storage includes no other conversions.
#if defined(FROM_i32) || defined(FROM_i8)
#define V int
#define V4 ivec4
#else
#define V float
#define V4 vec4
#endif
#if defined(TO_f16)
#define CONVERT(x) T(float(x))
#define CONVERT4(x) T4(vec4(x))
#elif defined(TO_i8)
#define CONVERT(x) T(x)
#define CONVERT4(x) packed(x)
#else
#define CONVERT(x) T(x)
#define CONVERT4(x) T4(x)
#endif
#if defined(FROM_i8)
#define VALUES(x) unpacked(x)
#else
#define VALUES(x) V4(x)
#endif
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(constant_id = 3) const bool VECTORS = false;       // strides of the innermost dim are in vectors of four
layout(constant_id = 4) const bool FROM_VECTORS = false;  // the vector's elements are adjacent in the source, too

// Strides are in elements; the innermost dim is the last. Negative strides work, because unsigned sums wrap around.
layout(push_constant) uniform Params {
  uint sizes[6];
  uint in_strides[6];
  uint out_strides[6];
  uint in_offset;
  uint out_offset;
  uint in_step;  // distance in the source between the four elements of a vector
  uint outermost;
  uint threads;
};
layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 0) writeonly buffer Output4 { T4 target4[]; };
layout(set = 0, binding = 1) readonly buffer Input { S source[]; };
layout(set = 0, binding = 1) readonly buffer Input4 { S4 source4[]; };

void main() {
  uint rest = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x;
  if (rest >= threads) return;
  uint from = in_offset;
  uint to = out_offset;
  for (uint d = 5; d > outermost; --d) {
    const uint index = rest % sizes[d];
    rest /= sizes[d];
    from += index * in_strides[d];
    to += index * out_strides[d];
  }
  from += rest * in_strides[outermost];
  to += rest * out_strides[outermost];
  if (!VECTORS) {
    target[to] = CONVERT(V(source[from]));
  } else if (FROM_VECTORS) {
    target4[to / 4] = CONVERT4(VALUES(source4[from / 4]));
  } else {
    const V4 values = V4(V(source[from]), V(source[from + in_step]), V(source[from + 2 * in_step]),
                         V(source[from + 3 * in_step]));
    target4[to / 4] = CONVERT4(values);
  }
}
