#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

uint32_t bits_of(double value) {
  const auto number = static_cast<float>(std::clamp(value, -kInfinity, kInfinity));
  uint32_t bits = 0;
  std::memcpy(&bits, &number, 4);
  return bits;
}

}  // namespace

void mean(Call &call) {
  const Tensor x = call.tensor(0);
  if (call.integer(2) == 0) call.unsupported("it drops the dims");
  if (!is_float(x.dtype) || x.rank() > kMaxRank) call.unsupported("its input has integers");
  std::vector<bool> is_summed(x.rank());
  for (const int64_t dim : call.integers(1)) {
    const int64_t own = dim < 0 ? dim + static_cast<int64_t>(x.rank()) : dim;
    if (own < 0 || own >= static_cast<int64_t>(x.rank())) call.damaged("it reduces a dim that its input lacks");
    is_summed[static_cast<size_t>(own)] = true;
  }
  Shape shape = x.shape;
  int64_t terms = 1;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (is_summed[i]) {
      terms *= shape[i];
      shape[i] = 1;
    }
  }
  const Tensor out = call.output(call.last(), shape);
  std::vector<uint32_t> push(4 * kMaxRank + 3);
  std::fill(push.begin(), push.begin() + kMaxRank, 1);
  std::fill(push.begin() + 2 * kMaxRank, push.begin() + 3 * kMaxRank, 1);
  const Shape strides = x.strides();
  const std::vector<uint32_t> order = dims_in_memory(x.rank(), out.layout);
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t place = kMaxRank - order.size() + i, base = is_summed[order[i]] ? 2 * kMaxRank : 0;
    push[base + place] = static_cast<uint32_t>(x.shape[order[i]]);
    push[base + kMaxRank + place] = static_cast<uint32_t>(strides[order[i]]);
  }
  push[4 * kMaxRank] = static_cast<uint32_t>(out.count());
  push[4 * kMaxRank + 1] = static_cast<uint32_t>(terms);
  push[4 * kMaxRank + 2] = bits_of(call.name() == "aten.mean.dim" ? 1.0 / static_cast<double>(terms) : 1.0);
  call.dispatch_flat(std::string("mean_") + name_of(out.dtype), {out}, {x}, std::move(push), out.count());
}

}  // namespace edgecore::vulkan
