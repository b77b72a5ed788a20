// Parameters of shaders that include loop.glsl, which iterate over the elements of a result and its operands.
#ifndef EDGECORE_VULKAN_OPS_LOOP_H_
#define EDGECORE_VULKAN_OPS_LOOP_H_

#include <string>
#include <vector>

#include "call.h"
#include "ops/push.h"

namespace edgecore::vulkan {

// Returns a number as a push constant: the bits of a float, infinite beyond the range of fp32, or for an integer dtype
// an integer clamped to 32 bits.
uint32_t bits_of(double value, Dtype dtype);

// Returns the name of a call's operator, without namespace and overload: "add" for "aten.add.Tensor".
std::string base_name(const Call &call);

// Returns the shape to which `a` and `b` broadcast. Throws a Failure (damaged blob) if they do not broadcast.
Shape broadcast(const Call &call, const Shape &a, const Shape &b);

// Returns, for each of the `rank` dims of a result, the stride in an operand that broadcasts to the result: 0 where the
// operand is repeated.
Shape broadcast_strides(const Tensor &operand, size_t rank);

// in_layout returns `x` if its elements are in the order of `layout`, otherwise a copy in this order. in_rows does the
// same for row-major order.
Tensor in_layout(const Call &call, const Tensor &x, Layout layout);
Tensor in_rows(const Call &call, const Tensor &x);

// A shader's loop over the dims of a result in memory order; dims are merged where all operands allow it.
struct Loop {
  // True if a thread computes vectors of four elements that are adjacent in memory. Strides count elements, not
  // vectors.
  bool vectors = false;
  // Bit i is 1 if the elements of operand i vary along the innermost dim, that is, if operand i is not broadcast there.
  uint32_t contiguous = 0;
  int64_t threads = 0;
  // Push constants: the sizes, then the strides of each operand (kMaxRank numbers each); the index of the outermost
  // dim; the numbers of threads and of vectors.
  std::vector<uint32_t> push;
  // The specialization constants 3 to 5 of the shader.
  std::vector<uint32_t> constants;
};

// Abilities of a shader that includes loop.glsl.
struct LoopOptions {
  bool vectors = true;   // the shader can read operands in vectors of four
  bool repeats = false;  // the shader can compute several vectors in a thread
};

// Returns the loop over `out`. `strides` has, for each operand, the strides along the dims of `out`.
Loop make_loop(const Tensor &out, const std::vector<Shape> &strides, LoopOptions options = {});

// Number of vectors that a thread of an elementwise shader computes with LoopOptions::repeats.
constexpr int64_t kRepeat = 4;

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_LOOP_H_
