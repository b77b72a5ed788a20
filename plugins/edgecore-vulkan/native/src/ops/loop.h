// Iterates over the elements of a result and of its operands: the parameters of shaders that include loop.glsl.
#ifndef EDGECORE_VULKAN_OPS_LOOP_H_
#define EDGECORE_VULKAN_OPS_LOOP_H_

#include <string>
#include <vector>

#include "call.h"
#include "ops/push.h"

namespace edgecore::vulkan {

// Returns the bits of a number as a push constant of a shader: as fp32, or as a 32-bit integer for integer tensors.
// Numbers out of range become the nearest one.
uint32_t bits_of(double value, Dtype dtype);

// Returns the operator of a call without its namespace and overload: "add" of "aten.add.Tensor".
std::string base_name(const Call &call);

// Returns the shape of the result of operands with these shapes; damaged if they do not broadcast.
Shape broadcast(const Call &call, const Shape &a, const Shape &b);

// Returns the stride of each dim of a result in an operand that is broadcast to it: 0 where it is repeated.
Shape broadcast_strides(const Tensor &operand, size_t rank);

// Returns the tensor in a layout: itself, or a copy where its elements have another order in memory.
Tensor in_layout(const Call &call, const Tensor &x, Layout layout);
Tensor in_rows(const Call &call, const Tensor &x);

// The dims of a result in the order of its memory, merged where all operands allow it.
struct Loop {
  // One thread computes vectors of four elements that are neighbours in memory; the strides are still in elements.
  bool vectors = false;
  // A bit for each operand that is not repeated in the innermost dim.
  uint32_t contiguous = 0;
  int64_t threads = 0;
  // Sizes, then the strides of each operand, each of kMaxRank numbers; the number of the outermost dim, the numbers of
  // threads and of vectors.
  std::vector<uint32_t> push;
  // The specialization constants 3 to 5.
  std::vector<uint32_t> constants;
};

// Features of a shader with a loop.
struct LoopOptions {
  bool vectors = true;   // read operands in vectors of four
  bool repeats = false;  // compute several vectors in a thread
};

// Returns the loop over `out`. `strides` has the strides of each operand by the dims of `out`.
Loop make_loop(const Tensor &out, const std::vector<Shape> &strides, LoopOptions options = {});

// How many vectors a thread of an elementwise shader computes where it computes several.
constexpr int64_t kRepeat = 4;

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_LOOP_H_
