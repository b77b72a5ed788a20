// Buffers of floats that a shader reads in vectors of four elements or one by one. READ_texel declares texel buffers,
// whose format the runtime chooses: a buffer is read in one of the two ways in a dispatch. READ_buffer declares storage
// buffers. The index of READ4 counts vectors, and that of READ1 elements.
#if defined(READ_texel)
#define INPUT(number, name) layout(set = 0, binding = number) uniform samplerBuffer name
#define READ4(name, index) texelFetch(name, index)
#define READ1(name, index) texelFetch(name, index).x
#else
#define INPUT(number, name)                                               \
  layout(set = 0, binding = number) readonly buffer name##4 { T4 v[]; } name##_vectors; \
  layout(set = 0, binding = number) readonly buffer name##1 { T v[]; } name##_elements
#define READ4(name, index) vec4(name##_vectors.v[index])
#define READ1(name, index) float(name##_elements.v[index])
#endif

// Weights of [k, columns] lie in panels of 8 vectors of four columns, one panel after the other, each [k, 8]: a workgroup
// reads its part in one piece. Returns the index of a vector of columns in its panel's row 0; row i is 8 * i later.
int in_panel(int column, int k) { return column / 8 * 8 * k + column % 8; }

// Returns x between two limits; NaN stays NaN, as in PyTorch.
vec4 limited(vec4 x, float low, float high) { return mix(min(max(x, vec4(low)), vec4(high)), x, isnan(x)); }
