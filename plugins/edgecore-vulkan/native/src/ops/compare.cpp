#include <cmath>

#include "ops/loop.h"
#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

// Records the dispatch of a comparison of `a` with `*number`, or with `b` if `number` is nullptr.
void compare_with(const Call &call, const std::string &operation, const Tensor &a, const Tensor &b, const Tensor &out,
                  const double *number) {
  if (a.dtype != b.dtype || is_float(out.dtype)) {
    call.unsupported("it compares %s and %s to %s", name_of(a.dtype), name_of(b.dtype), name_of(out.dtype));
  }
  Loop loop = make_loop(out, {broadcast_strides(a, out.rank()), broadcast_strides(b, out.rank())});
  loop.push.push_back(number == nullptr ? 0 : bits_of(*number, a.dtype));
  loop.constants.push_back(number == nullptr ? 0 : 1);
  call.dispatch_flat(std::string("compare_") + name_of(a.dtype) + "_" + operation, {out}, {a, b}, std::move(loop.push),
                     loop.threads, std::move(loop.constants));
}

}  // namespace

void compare(Call &call) {
  const Tensor a = call.tensor(0);
  if (call.is_tensor(1)) {
    const Tensor b = call.tensor(1);
    return compare_with(call, base_name(call), a, b, call.output(call.last(), broadcast(call, a.shape, b.shape)),
                        nullptr);
  }
  const double number = call.number(1);
  if (!is_float(a.dtype) && number != std::trunc(number)) call.unsupported("it compares integers with a fraction");
  compare_with(call, base_name(call), a, a, call.output(call.last(), a.shape), &number);
}

void where(Call &call) {
  const Tensor condition = call.tensor(0), a = call.tensor(1), b = call.tensor(2);
  const Shape shape = broadcast(call, broadcast(call, condition.shape, a.shape), b.shape);
  const Tensor out = call.output(call.last(), shape);
  if (is_float(condition.dtype) || a.dtype != b.dtype || a.dtype != out.dtype) {
    call.unsupported("it chooses between %s and %s by %s", name_of(a.dtype), name_of(b.dtype),
                     name_of(condition.dtype));
  }
  Loop loop = make_loop(out, {broadcast_strides(condition, out.rank()), broadcast_strides(a, out.rank()),
                              broadcast_strides(b, out.rank())});
  call.dispatch_flat(std::string("choose_") + name_of(out.dtype), {out}, {condition, a, b}, std::move(loop.push),
                     loop.threads, std::move(loop.constants));
}

// Records the dispatch of a conversion of dtypes. A conversion to booleans is a comparison with 0; any other conversion
// is a copy.
void convert(Call &call) {
  const Tensor x = call.tensor(0);
  const Tensor out = call.output(call.last(), x.shape);
  if (call.data_type(call.last()) != DataType::kBool || call.data_type(0) == DataType::kBool) return call.copy(x, out);
  const double zero = 0;
  compare_with(call, "ne", x, x, out, &zero);
}

}  // namespace edgecore::vulkan
