#include <cmath>
#include <limits>

#include "ops/loop.h"
#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Records the dispatch of an elementwise operator of one tensor; the shader reads and writes the elements in memory
// order.
void map(const Call &call, const std::string &operation, std::vector<double> numbers = {}) {
  Tensor x = call.tensor(0);
  const Tensor out = call.output(call.last(), x.shape);
  if (x.dtype != out.dtype) call.unsupported("it makes %s of %s", name_of(out.dtype), name_of(x.dtype));
  if (!x.same_order(out)) x = in_layout(call, x, out.layout);
  const int64_t vectors = (out.count() + 3) / 4;
  std::vector<uint32_t> push = {static_cast<uint32_t>(vectors)};
  numbers.resize(is_float(x.dtype) ? 3 : 2);
  for (const double number : numbers) push.push_back(bits_of(number, x.dtype));
  const std::string dtype = name_of(x.dtype);
  if (!is_float(x.dtype)) {
    return call.dispatch_flat("unary_integer_" + dtype + "_" + operation, {out}, {x}, std::move(push), vectors);
  }
  const bool texels = call.prefers_texels(x);
  const int64_t repeat = texels ? kRepeat : 1;
  call.dispatch_flat("unary_" + dtype + (texels ? "_texel_" : "_buffer_") + operation, {out},
                     {texels ? Call::texels(x, 4) : x}, std::move(push), (vectors + repeat - 1) / repeat,
                     {static_cast<uint32_t>(repeat)});
}

void map_floats(const Call &call, const std::string &operation, std::vector<double> numbers = {}) {
  if (!is_float(call.tensor(0).dtype)) call.unsupported("its input has integers");
  map(call, operation, std::move(numbers));
}

// Records the dispatch of an elementwise operator `operation` of two tensors, or of a tensor and a number.
void combine(const Call &call, const std::string &operation, double alpha = 1) {
  const Tensor a = call.tensor(0);
  const bool has_number = !call.is_tensor(1);
  const Tensor b = has_number ? a : call.tensor(1);
  const Tensor out = call.output(call.last(), broadcast(call, a.shape, b.shape));
  if (a.dtype != b.dtype || a.dtype != out.dtype) {
    call.unsupported("it has operands of %s and %s and a result of %s", name_of(a.dtype), name_of(b.dtype),
                     name_of(out.dtype));
  }
  const double number = has_number ? call.number(1) : alpha;
  if (!is_float(out.dtype) && number != std::trunc(number)) call.unsupported("it combines integers with a fraction");
  const bool texels = is_float(out.dtype) && call.prefers_texels(a) && call.prefers_texels(b);
  Loop loop = make_loop(out, {broadcast_strides(a, out.rank()), broadcast_strides(b, out.rank())}, {true, texels});
  loop.push.push_back(bits_of(number, out.dtype));
  loop.constants.push_back(has_number ? 1 : 0);
  std::vector<Tensor> operands = {a, b};
  for (uint32_t i = 0; texels && i < 2; ++i) {
    const bool whole = loop.vectors && (loop.contiguous >> i & 1) != 0;
    operands[i] = Call::texels(operands[i], whole ? 4 : 1);
  }
  call.dispatch_flat(std::string("binary_") + name_of(out.dtype) + (texels ? "_texel_" : "_buffer_") + operation, {out},
                     std::move(operands), std::move(loop.push), loop.threads, std::move(loop.constants));
}

}  // namespace

void unary(Call &call) { map_floats(call, base_name(call)); }

void negate_or_abs(Call &call) { map(call, base_name(call)); }

void relu(Call &call) { map(call, "clamp", {0, kInfinity}); }

void clamp(Call &call) { map(call, "clamp", {call.number_or(1, -kInfinity), call.number_or(2, kInfinity)}); }

void gelu(Call &call) {
  const std::string &approximation = call.text(1);
  if (approximation != "none" && approximation != "tanh") call.unsupported("its approximation is unknown");
  map_floats(call, approximation == "tanh" ? "gelu_tanh" : "gelu");
}

void with_slope(Call &call) { map_floats(call, base_name(call), {call.number(1)}); }

void elu(Call &call) { map_floats(call, "elu", {call.number(1), call.number(2), call.number(3)}); }

void add(Call &call) { combine(call, "add", call.number(2)); }

void subtract(Call &call) { combine(call, "add", -call.number(2)); }

void multiply(Call &call) { combine(call, "mul"); }

void divide(Call &call) {
  const bool has_mode = call.name() == "aten.div.Tensor_mode" && !call.is_none(2);
  if (has_mode) {
    const std::string &mode = call.text(2);
    if (mode != "trunc" && mode != "floor") call.unsupported("its rounding mode is unknown");
    return combine(call, "div_" + mode);
  }
  if (!is_float(call.tensor(0).dtype)) call.unsupported("it divides integers without rounding");
  combine(call, "div");
}

void minimum(Call &call) { combine(call, "min"); }

void maximum(Call &call) { combine(call, "max"); }

void power(Call &call) { combine(call, "pow"); }

void remainder(Call &call) { combine(call, "remainder"); }

void logic(Call &call) {
  const std::string name = base_name(call);  // for example bitwise_and
  const bool is_bool = call.data_type(0) == DataType::kBool, is_bitwise = name.rfind("bitwise_", 0) == 0;
  if (is_float(call.tensor(0).dtype) || !(is_bool || is_bitwise)) call.unsupported("its inputs are not boolean");
  const std::string operation = name.substr(name.find('_') + 1);
  if (operation == "not") return map(call, is_bool ? "logical_not" : "bitwise_not");
  combine(call, operation);
}

}  // namespace edgecore::vulkan
