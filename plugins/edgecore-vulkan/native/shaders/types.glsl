// The types of a shader by its DTYPE, its local size, and the index of its thread. Include it right after #version.
//
// T and T4 are the types in a buffer. A and A4 are the types in which the shader computes: fp32 also for fp16, 32 bits
// for all integers. Convert with A(x), A4(x) after loading and T(x), T4(x) before storing.

#if defined(DTYPE_f32)
#define T float
#define T4 vec4
#elif defined(DTYPE_f16)
#extension GL_EXT_shader_16bit_storage : require
#define T float16_t
#define T4 f16vec4
#elif defined(DTYPE_i32)
#define T int
#define T4 ivec4
#elif defined(DTYPE_i8)
#extension GL_EXT_shader_8bit_storage : require
#define T int8_t
#define T4 i8vec4
#else
#error "variants.toml gives this shader no DTYPE that types.glsl knows"
#endif

#if defined(DTYPE_f32) || defined(DTYPE_f16)
#define A float
#define A4 vec4
#else
#define A int
#define A4 ivec4
#endif

// The runtime sets the specialization constants 0, 1 and 2 to the size of a workgroup.
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

// Returns the index of a thread in a dispatch that is meant to have one dimension. If it has more workgroups than a
// device allows in x (65535 on any device), it continues in the next y.
uint flat_id() {
  return gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x;
}
