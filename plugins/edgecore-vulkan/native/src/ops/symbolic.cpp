// Computes symbolic sizes while the graph is recorded; the calls add no dispatches. Only ExecuTorch's partitioner
// writes such calls, because edgecore's compiler passes sizes as arguments of the delegate.
#include "ops/operators.h"

namespace edgecore::vulkan {

// sym_size.int(tensor, dim, out): sets `out` to the size of the dim.
void symbolic_size(Call &call) {
  const Tensor x = call.tensor_as_given(0);
  call.set_integer(call.last(), x.shape[call.dim(1, x.rank())]);
}

// add(a, b, out), and so on: calls of functions of Python's module `operator`.
void symbolic_arithmetic(Call &call) {
  // Maximum number of elements of a tensor; a product of two such numbers fits into 63 bits.
  constexpr int64_t kMax = int64_t{1} << 31;
  const int64_t a = call.integer(0), b = call.integer(1);
  for (const int64_t one : {a, b}) {
    if (one < -kMax || one > kMax) call.damaged("its operand %lld is out of range", static_cast<long long>(one));
  }
  if (call.name() == "add") return call.set_integer(call.last(), a + b);
  if (call.name() == "sub") return call.set_integer(call.last(), a - b);
  if (call.name() == "mul") return call.set_integer(call.last(), a * b);
  if (b == 0) call.damaged("it divides by 0");
  const bool is_rounded = a % b != 0 && (a < 0) != (b < 0);  // floordiv rounds down
  call.set_integer(call.last(), a / b - (is_rounded ? 1 : 0));
}

}  // namespace edgecore::vulkan
