#include <cmath>

#include "ops/loop.h"
#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

void fill(const Call &call, const Tensor &out, double start, double step) {
  const int64_t vectors = (out.count() + 3) / 4;
  call.dispatch_flat(std::string("fill_") + name_of(out.dtype), {out}, {},
                     {static_cast<uint32_t>(vectors), bits_of(start, out.dtype), bits_of(step, out.dtype)}, vectors);
}

}  // namespace

void full(Call &call) {
  const Shape shape = call.name() == "aten.full_like.default" ? call.tensor(0).shape : call.integers(0);
  const Tensor out = call.output(call.last(), shape);
  const double value = call.number(1);
  fill(call, out, call.data_type(call.last()) == DataType::kBool ? (value != 0 ? 1 : 0) : value, 0);
}

void arange(Call &call) {
  const double start = call.number(0), end = call.number(1), step = call.number(2);
  const double size = std::ceil((end - start) / step);
  if (!(step != 0 && size >= 0 && size < INT32_MAX)) call.damaged("its range is empty or too large");
  fill(call, call.output(call.last(), {static_cast<int64_t>(size)}), start, step);
}

}  // namespace edgecore::vulkan
