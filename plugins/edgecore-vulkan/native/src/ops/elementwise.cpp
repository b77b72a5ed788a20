#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

uint32_t bits_of(double value) {
  const auto number = static_cast<float>(
      std::clamp<double>(value, -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()));
  uint32_t bits = 0;
  std::memcpy(&bits, &number, 4);
  return bits;
}

Shape broadcast(const Call &call, const Shape &a, const Shape &b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1, from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) call.damaged("the shapes of its inputs do not broadcast");
    result[result.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return result;
}

// The stride of a dim of the result in an operand; 0 where the operand is broadcast.
int64_t stride_in(const Tensor &operand, const Shape &operand_strides, size_t dim, size_t rank) {
  if (dim + operand.rank() < rank) return 0;
  const size_t own = dim + operand.rank() - rank;
  return operand.shape[own] == 1 ? 0 : operand_strides[own];
}

void elementwise(Call &call, const char *operation, const Tensor &a, const Tensor &b, double alpha, double beta) {
  const Tensor out = call.output(call.last(), broadcast(call, a.shape, b.shape));
  if (!is_float(a.dtype) || a.dtype != b.dtype || a.dtype != out.dtype) {
    call.unsupported("it has operands of %s and %s and a result of %s", name_of(a.dtype), name_of(b.dtype),
                     name_of(out.dtype));
  }
  std::vector<uint32_t> push(3 * kMaxRank + 3);
  std::fill(push.begin(), push.begin() + kMaxRank, 1);
  const std::vector<uint32_t> order = dims_in_memory(out.rank(), out.layout);
  const Shape a_strides = a.strides(), b_strides = b.strides();
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t place = kMaxRank - order.size() + i;
    push[place] = static_cast<uint32_t>(out.shape[order[i]]);
    push[kMaxRank + place] = static_cast<uint32_t>(stride_in(a, a_strides, order[i], out.rank()));
    push[2 * kMaxRank + place] = static_cast<uint32_t>(stride_in(b, b_strides, order[i], out.rank()));
  }
  push[3 * kMaxRank] = static_cast<uint32_t>(out.count());
  push[3 * kMaxRank + 1] = bits_of(alpha);
  push[3 * kMaxRank + 2] = bits_of(beta);
  call.dispatch_flat(std::string("elementwise_") + name_of(out.dtype) + "_" + operation, {out}, {a, b}, std::move(push),
                     out.count());
}

void unary(Call &call, const char *operation, double alpha = 0, double beta = 0) {
  const Tensor x = call.tensor(0);
  elementwise(call, operation, x, x, alpha, beta);
}

void binary(Call &call, const char *operation, double alpha = 1) {
  elementwise(call, operation, call.tensor(0), call.tensor(1), alpha, 0);
}

double limit(const Call &call, size_t index, double without) {
  return call.is_none(index) ? without : call.number(index);
}

}  // namespace

void add(Call &call) { binary(call, "add", call.number(2)); }
void subtract(Call &call) { binary(call, "add", -call.number(2)); }
void multiply(Call &call) { binary(call, "mul"); }
void divide(Call &call) { binary(call, "div"); }
void minimum(Call &call) { binary(call, "min"); }
void maximum(Call &call) { binary(call, "max"); }
void relu(Call &call) { unary(call, "clamp", 0, std::numeric_limits<double>::infinity()); }
void clamp(Call &call) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  unary(call, "clamp", limit(call, 1, -kInfinity), limit(call, 2, kInfinity));
}
void sigmoid(Call &call) { unary(call, "sigmoid"); }
void tanh(Call &call) { unary(call, "tanh"); }
void exponential(Call &call) { unary(call, "exp"); }
void hardswish(Call &call) { unary(call, "hardswish"); }

}  // namespace edgecore::vulkan
