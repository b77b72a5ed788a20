// Copies a tensor of up to 6 dims between two layouts and dtypes: views, permutations, slices, expansions. One thread
// per element.
#version 450
#extension GL_EXT_shader_16bit_storage : require
#if defined(FROM_f32)
#define S float
#elif defined(FROM_f16)
#define S float16_t
#else
#define S int
#endif
#if defined(TO_f32)
#define T float
#elif defined(TO_f16)
#define T float16_t
#else
#define T int
#endif
// Between fp16 and integers by way of fp32: 16-bit storage has no other conversions.
#if defined(FROM_f16)
#define LOAD(x) float(x)
#else
#define LOAD(x) x
#endif
#if defined(TO_f16)
#define CONVERT(x) T(float(x))
#else
#define CONVERT(x) T(x)
#endif
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

// In elements; the innermost dim is the last, and unused leading sizes are 1. Negative strides wrap around.
layout(push_constant) uniform Params {
  uint sizes[6];
  uint in_strides[6];
  uint out_strides[6];
  uint in_offset;
  uint out_offset;
  uint count;
};
layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 1) readonly buffer Input { S source[]; };

void main() {
  uint rest = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x;
  if (rest >= count) return;
  uint from = in_offset;
  uint to = out_offset;
  for (int d = 5; d >= 0; --d) {
    const uint index = rest % sizes[d];
    rest /= sizes[d];
    from += index * in_strides[d];
    to += index * out_strides[d];
  }
  target[to] = CONVERT(LOAD(source[from]));
}
