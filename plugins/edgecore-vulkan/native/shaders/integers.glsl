// Access to tensors of 8-bit integers, by the value of DTYPE or INTEGERS: i8 stores an integer in 8 bits, which a
// device may not support; i32 stores it in 32 bits. INTEGER4 and PUT4 take an index of vectors of four elements (one
// word of i8), INTEGER1 and PUT1 an index of elements. The result is binding 0.
#if defined(DTYPE_i8) || defined(INTEGERS_i8)
#extension GL_EXT_shader_8bit_storage : require
#define INTEGERS_OF(number, name)                                                    \
  layout(set = 0, binding = number) readonly buffer name##_4 { uint name##_words[]; }; \
  layout(set = 0, binding = number) readonly buffer name##_1 { int8_t name##_elements[]; }
#define INTEGER4(name, index) unpacked(name##_words[index])
#define INTEGER1(name, index) int(name##_elements[index])
#define RESULTS                                                                  \
  layout(set = 0, binding = 0) writeonly buffer Words { uint result_words[]; };  \
  layout(set = 0, binding = 0) writeonly buffer Bytes { int8_t result_elements[]; }
#define PUT4(index, v) result_words[index] = packed(v)
#define PUT1(index, v) result_elements[index] = int8_t(v)
#else
#define INTEGERS_OF(number, name)                                                      \
  layout(set = 0, binding = number) readonly buffer name##_4 { ivec4 name##_vectors[]; }; \
  layout(set = 0, binding = number) readonly buffer name##_1 { int name##_elements[]; }
#define INTEGER4(name, index) name##_vectors[index]
#define INTEGER1(name, index) name##_elements[index]
#define RESULTS                                                                   \
  layout(set = 0, binding = 0) writeonly buffer Vectors { ivec4 result_vectors[]; }; \
  layout(set = 0, binding = 0) writeonly buffer Elements { int result_elements[]; }
#define PUT4(index, v) result_vectors[index] = v
#define PUT1(index, v) result_elements[index] = v
#endif

ivec4 unpacked(uint word) { return ivec4(uvec4(word) << uvec4(24, 16, 8, 0)) >> 24; }

uint packed(ivec4 v) {
  const uvec4 bytes = uvec4(v) & 255u;
  return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}
