// Macros by which shaders of floats read their tensors, by the value of READ:
//  texel    texel buffers, whose format the runtime chooses; writes words of 64 bits. For devices that run on a CPU,
//           where loading a texel is much cheaper than loading from a storage buffer, and a store costs by the word
//  shuffle  like texel, in subgroups of 8 threads that read for each other
//  buffer   storage buffers
//  mixed    storage buffers, with weights in fp32
// READ4 takes an index of vectors of four elements, READ1 an index of elements; a dispatch uses one of the two for x.
#if defined(READ_shuffle)
#extension GL_KHR_shader_subgroup_shuffle : require
#define READ_texel
#endif

#if defined(READ_texel)
#extension GL_ARB_gpu_shader_int64 : require
#define INPUT(number, name) layout(set = 0, binding = number) uniform samplerBuffer name
#define WEIGHTS INPUT
#define BIAS INPUT
#define READ4(name, index) texelFetch(name, index)
#define READ1(name, index) texelFetch(name, index).x
#if defined(DTYPE_f32)
#define WORDS u64vec2
u64vec2 words(vec4 v) {
  const uvec4 bits = floatBitsToUint(v);
  return u64vec2(packUint2x32(bits.xy), packUint2x32(bits.zw));
}
#else
#define WORDS uint64_t
uint64_t words(vec4 v) { return packUint2x32(uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw))); }
#endif
#else
#define INPUT_OF(number, name, type, vector)                                         \
  layout(set = 0, binding = number) readonly buffer name##_4 { vector name##_vectors[]; }; \
  layout(set = 0, binding = number) readonly buffer name##_1 { type name##_elements[]; }
#define INPUT(number, name) INPUT_OF(number, name, T, T4)
#if defined(READ_mixed)
#define WEIGHTS(number, name) INPUT_OF(number, name, float, vec4)
#else
#define WEIGHTS(number, name) INPUT_OF(number, name, T, T4)
#endif
#define BIAS(number, name) INPUT_OF(number, name, float, vec4)
#define READ4(name, index) vec4(name##_vectors[index])
#define READ1(name, index) float(name##_elements[index])
#define WORDS T4
// A macro, because a function with 16-bit types would need a second device feature besides storage.
#define words(v) T4(v)
#endif

// The result of a shader, at binding 0. WRITE4 takes an index of vectors of four elements, WRITE1 an index of elements.
layout(set = 0, binding = 0) writeonly buffer Target1 { T target_elements[]; };
layout(set = 0, binding = 0) writeonly buffer Target4 { WORDS target_vectors[]; };
#define WRITE4(index, v) target_vectors[index] = words(v)
#define WRITE1(index, v) target_elements[index] = T(v)

#include "panels.glsl"

// Returns x clamped to [low, high]; NaN stays NaN, as in PyTorch.
vec4 limited(vec4 x, float low, float high) { return mix(min(max(x, vec4(low)), vec4(high)), x, isnan(x)); }

// Writes a vector of the result, clamped to [low, high]. If ADDS, adds `addend`, a tensor of the same shape.
#define ADDEND(number, name) INPUT(number, name)
#define FINISH4(at, sum) \
  WRITE4(at, ADDS ? limited(sum, low, high) + READ4(addend, at) : limited(sum, low, high))
