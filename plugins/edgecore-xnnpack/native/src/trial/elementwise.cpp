// Functions of one tensor, conversions, softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "trial/families.h"

namespace edgecore::xnnpack::trial {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kAlpha = 0.75, kSlope = 0.125, kLimit = 1.5;

// Kinds of special inputs.
enum Special : unsigned { kNan = 1, kInfinite = 2, kGreatest = 4, kZero = 8, kSubnormal = 16, kNegative = 32 };

struct Function {
  const char *name;
  xnn_unary_operator operation;
  double (*compute)(double x);
  double low, high;  // of inputs
  double error;      // allowed in fp32, relative to the result; in fp16, if it is not 0, four units of the last place,
                     // and 0 for subnormal results
  double absolute;   // allowed beside, where terms cancel each other; in fp16 2^13 times as much
  double steps;      // allowed in int8
  // Where XNNPACK's fastest kernels give something else than IEEE 754: the README has the list for users.
  unsigned unlike_f32 = 0, unlike_f16 = 0;
};

double gelu(double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double elu(double x) { return x < 0 ? kAlpha * std::expm1(x) : x; }
double leaky_relu(double x) { return x < 0 ? kSlope * x : x; }
double hard_swish(double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }
double clamp(double x) { return std::isnan(x) ? x : std::clamp(x, -kLimit, kLimit); }
double square(double x) { return x * x; }
double reciprocal_root(double x) { return 1 / std::sqrt(x); }

// Rounded once or not at all: 0. Series and tables: a few units of the last place.
constexpr double kUlp = 0x1.0p-23;
const Function kFunctions[] = {
    {"abs", xnn_unary_abs, std::fabs, -9, 9, 0, 0, 0.501},
    {"negate", xnn_unary_negate, [](double x) { return -x; }, -9, 9, 0, 0, 0.501},
    {"ceiling", xnn_unary_ceiling, std::ceil, -9, 9, 0, 0, 0.501},
    {"floor", xnn_unary_floor, std::floor, -9, 9, 0, 0, 0.501},
    {"clamp", xnn_unary_clamp, clamp, -3, 3, 0, 0, 0.501, kNan, kNan},
    {"square", xnn_unary_square, square, -9, 9, kUlp / 2, 0, 0.501},
    {"square root", xnn_unary_square_root, std::sqrt, 0, 99, 2 * kUlp, 0, 0.501, kInfinite | kGreatest,
     kInfinite | kNegative},
    {"reciprocal square root", xnn_unary_reciprocal_square_root, reciprocal_root, 0.01, 99, 4 * kUlp, 0, 0.501,
     kInfinite | kGreatest | kZero | kSubnormal | kNegative, 0},
    {"hardswish", xnn_unary_hardswish, hard_swish, -9, 9, 4 * kUlp, kUlp, 0.501},
    {"leaky relu", xnn_unary_leaky_relu, leaky_relu, -9, 9, kUlp, 0, 1.01},
    {"elu", xnn_unary_elu, elu, -9, 9, 8 * kUlp, kUlp, 0.501},
    {"sigmoid", xnn_unary_sigmoid, sigmoid, -20, 20, 8 * kUlp, 0, 0.501},
    {"tanh", xnn_unary_tanh, std::tanh, -9, 9, 8 * kUlp, 0, 0.501},
    {"gelu", xnn_unary_gelu, gelu, -5, 9, 16 * kUlp, 8 * kUlp, 0.501, kInfinite | kGreatest, 0},
    {"exp", xnn_unary_exp, std::exp, -20, 20, 8 * kUlp, 0, 0.501},
    {"log", xnn_unary_log, std::log, 0.01, 99, 8 * kUlp, kUlp, 0.501, kGreatest, 0},
    {"sine", xnn_unary_sine, std::sin, -9, 9, 8 * kUlp, 2 * kUlp, 0.501},
    {"cosine", xnn_unary_cosine, std::cos, -9, 9, 8 * kUlp, 2 * kUlp, 0.501},
};

std::vector<size_t> xnn_dims(Extent extent) {
  if (extent == Extent::kShort) return {67};
  std::vector<size_t> sizes;
  const size_t most = extent == Extent::kFull ? 140 : 20;
  for (size_t size = 1; size <= most; ++size) sizes.push_back(size);
  for (size_t size : {31u, 32u, 33u, 63u, 64u, 65u, 127u, 129u, 1027u}) sizes.push_back(size);
  return sizes;
}

bool is_float(xnn_datatype type) { return type == xnn_datatype_fp32 || type == xnn_datatype_fp16; }

// One node from `input` to `output`, run.
bool run_node(Trial *trial, const std::string &shape, xnn_unary_operator operation, const Tensor &input,
              Tensor *output) {
  xnn_unary_params params = {};
  if (operation == xnn_unary_elu) params.elu.alpha = static_cast<float>(kAlpha);
  if (operation == xnn_unary_leaky_relu) params.leaky_relu.negative_slope = static_cast<float>(kSlope);
  if (operation == xnn_unary_clamp) params.clamp = {static_cast<float>(-kLimit), static_cast<float>(kLimit)};
  Net net;
  const uint32_t x = net.input(input), y = net.output(*output);
  net.node(xnn_define_unary(net.subgraph(), operation, &params, x, y, 0));
  if (net.build() && net.run({&input}, {output}) && net.run({&input}, {output})) return true;
  trial->refused(shape, net.status());
  return false;
}

// Results of fp32 or fp16; where fp16 rounds, one unit of its last place, too.
void compare_floats(Trial *trial, const std::string &shape, const Tensor &output, std::vector<double> expected,
                    double error, double absolute) {
  std::vector<double> allowed;
  for (double &number : expected) {
    double bound = std::fabs(number) * error + absolute;
    if (output.type == xnn_datatype_fp16) {
      bound += error == 0 ? 0 : std::max(std::fabs(number) * 0x1.0p-8, 0x1.0p-14) + absolute * 0x1.0p13;
      number = round_to_half(number);
    }
    if (output.type == xnn_datatype_fp32) {
      if (error != 0) bound += 0x1.0p-149;
      number = static_cast<double>(static_cast<float>(number));
    }
    allowed.push_back(std::isfinite(bound) ? bound : 0);
  }
  trial->compare(shape, output, expected, allowed);
}

// NaN, infinities, zeros, the smallest normal and subnormal numbers, the greatest: one of them beside ordinary ones.
std::vector<double> special_numbers(xnn_datatype type) {
  const bool half = type == xnn_datatype_fp16;
  std::vector<double> numbers = {std::nan(""), kInfinity, 0.0, 1.0};
  for (double number : {half ? 65504.0 : 0x1.FFFFFEp127, half ? 0x1.0p-14 : 0x1.0p-126, half ? 0x1.0p-24 : 0x1.0p-149,
                        half ? 0x1.8p-16 : 0x1.8p-130}) {
    numbers.push_back(number);
  }
  const size_t count = numbers.size();
  for (size_t i = 1; i < count; ++i) numbers.push_back(-numbers[i]);
  return numbers;
}

unsigned kind_of(double number, xnn_datatype type) {
  const bool half = type == xnn_datatype_fp16;
  const double size = std::fabs(number);
  unsigned kind = std::signbit(number) ? kNegative : 0;
  if (std::isnan(number)) kind = kNan;
  if (std::isinf(number)) kind |= kInfinite;
  if (size == 0) kind |= kZero;
  if (size > (half ? 65000.0 : 1e38)) kind |= kGreatest;
  if (size > 0 && size < (half ? 0x1.0p-14 : 0x1.0p-126)) kind |= kSubnormal;
  return kind;
}

void run_float(Trial *trial, const Function &f, xnn_datatype type) {
  for (size_t size : xnn_dims(trial->extent)) {
    Tensor input = float32_tensor({size}), output = input;
    input.type = output.type = type;
    input.set(trial->uniforms(size, f.low, f.high));
    const std::string shape = std::to_string(size) + " elements";
    if (!run_node(trial, shape, f.operation, input, &output)) return;
    std::vector<double> expected = input.numbers();
    for (double &number : expected) number = f.compute(number);
    compare_floats(trial, shape, output, expected, f.error, f.absolute);
  }
  const std::vector<double> specials = special_numbers(type);
  const bool half = type == xnn_datatype_fp16;
  for (size_t at = 0; at < specials.size(); ++at) {
    Tensor input = float32_tensor({at + 9}), output = input;
    input.type = output.type = type;
    std::vector<double> numbers = trial->uniforms(at + 9, f.low, f.high);
    numbers[at] = specials[at];
    input.set(numbers);
    if ((kind_of(specials[at], type) & (half ? f.unlike_f16 : f.unlike_f32)) != 0) continue;
    char shape[60];
    std::snprintf(shape, sizeof(shape), "element %zu is %g", at, specials[at]);
    if (!run_node(trial, shape, f.operation, input, &output)) return;
    // XNNPACK switches subnormal numbers off, and its kernels differ in where they become 0: any for any.
    const double flushed = std::fabs(specials[at]) < 0x1.0p-126 ? f.compute(0) : f.compute(specials[at]);
    const std::vector<double> got = output.numbers();
    std::vector<double> expected = input.numbers();
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = f.compute(expected[i]);
      const bool is_flushed = std::fabs(got[i]) < 0x1.0p-126 && std::fabs(expected[i]) < 0x1.0p-126;
      if (is_flushed || (i == at && got[i] == flushed)) expected[i] = got[i];
    }
    compare_floats(trial, shape, output, expected, f.error, f.absolute);
  }
}

void run_int8(Trial *trial, const Function &f, xnn_datatype type) {
  const int32_t low = type == xnn_datatype_qint8 ? -128 : 0;
  for (int32_t zero : {low, low + 255, low + 128, low + 100}) {
    for (size_t size : {size_t{256}, size_t{5}, size_t{77}}) {
      // All 256 numbers, which lie in the domain of the function as far as the zero point lets them.
      const auto scale = static_cast<float>(std::max(std::fabs(f.low), std::fabs(f.high)) / 255);
      Tensor input = quantized_tensor(type, {size}, scale, zero),
             output = quantized_tensor(type, {size}, scale * 0.75f, zero);
      for (size_t i = 0; i < size; ++i) input.bytes.push_back(static_cast<uint8_t>(i * 3));
      const std::string shape = std::to_string(size) + " elements, zero point " + std::to_string(zero);
      if (!run_node(trial, shape, f.operation, input, &output)) return;
      std::vector<double> expected = input.numbers();
      bool defined = true;
      for (double &number : expected) {
        number = f.compute(number);
        defined = defined && !std::isnan(number);
      }
      if (defined) trial->compare_steps(shape, output, expected, f.steps);
      if (trial->extent == Extent::kShort) return;
    }
  }
}

template <size_t kIndex, int kType>
void elementwise(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  is_float(type) ? run_float(trial, kFunctions[kIndex], type) : run_int8(trial, kFunctions[kIndex], type);
}

// Between types. To 8 bits: half a step, and what the quotient is rounded by.
void run_conversion(Trial *trial, Tensor input, Tensor output, double low, double high, double steps) {
  for (size_t size : xnn_dims(trial->extent)) {
    input.dims = output.dims = {size};
    std::vector<double> numbers = trial->uniforms(size, low, high);
    if (is_float(input.type) && size > 3 && !is_float(output.type)) numbers[1] = kInfinity, numbers[2] = -1e4;
    input.set(numbers);
    const std::string shape = std::to_string(size) + " elements";
    if (!run_node(trial, shape, xnn_unary_convert, input, &output)) return;
    const std::vector<double> expected = input.numbers();
    if (is_float(output.type)) {
      compare_floats(trial, shape, output, expected, is_float(input.type) ? 0 : kUlp, 0);
    } else {
      trial->compare_steps(shape, output, expected, steps);
    }
  }
}

template <int kFrom, int kTo>
void convert(Trial *trial) {
  const auto from = static_cast<xnn_datatype>(kFrom), to = static_cast<xnn_datatype>(kTo);
  const auto at = [](xnn_datatype type, int zero) {
    return std::clamp(zero, -128, 127) + (type == xnn_datatype_quint8 ? 128 : 0);
  };
  for (int zero : {-128, 127, 3}) {
    const float most = from == xnn_datatype_quint8 ? 0x1.FFFCp+6f : 0x1.0p+7f;  // what the delegate accepts
    for (float ratio : {1.0f, 0.7f, 0x1.0p-8f, most}) {
      const bool both = !is_float(from) && !is_float(to);
      const float scale = is_float(from) ? 1.0f : 0.05f;
      const Tensor input = quantized_tensor(from, {}, scale, is_float(from) ? 0 : at(from, zero));
      const Tensor output = quantized_tensor(to, {},
                                             is_float(to) ? 1.0f
                                             : both       ? scale / ratio
                                                          : 0.04f,
                                             is_float(to) ? 0 : at(to, both ? -zero : zero));
      // The ratio of two scales has 8 bits behind the point: times 255 steps, half a step more.
      run_conversion(trial, input, output, -9, 9, both ? 1.01 : 0.501);
      if (!both || trial->extent == Extent::kShort) break;
    }
    if ((is_float(from) && is_float(to)) || trial->extent == Extent::kShort) break;
  }
}

template <int kType>
void softmax(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  for (size_t size : xnn_dims(trial->extent)) {
    const size_t rows = size % 5 + 1;
    Tensor input = float32_tensor({rows, size}), output = input;
    input.type = output.type = type;
    input.set(trial->uniforms(rows * size, -9, 9));
    Net net;
    const uint32_t x = net.input(input), y = net.output(output);
    net.node(xnn_define_softmax(net.subgraph(), x, y, 0));
    const std::string shape = shape_text(input.dims);
    if (!net.build() || !net.run({&input}, {&output})) return trial->refused(shape, net.status());
    std::vector<double> expected = input.numbers();
    for (size_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (size_t i = 0; i < size; ++i) sum += std::exp(expected[row * size + i]);
      for (size_t i = 0; i < size; ++i) expected[row * size + i] = std::exp(expected[row * size + i]) / sum;
    }
    compare_floats(trial, shape, output, expected, 32 * kUlp, 0);
  }
}

constexpr int kF32 = xnn_datatype_fp32, kF16 = xnn_datatype_fp16, kQ8 = xnn_datatype_qint8, kU8 = xnn_datatype_quint8;

template <size_t kIndex>
void add_functions(std::vector<Family> *families) {
  if constexpr (kIndex < std::size(kFunctions)) {
    add_each_type(kFunctions[kIndex].name, elementwise<kIndex, kF32>, elementwise<kIndex, kF16>,
                  elementwise<kIndex, kQ8>, elementwise<kIndex, kU8>, families);
    add_functions<kIndex + 1>(families);
  }
}

}  // namespace

std::vector<Family> elementwise_families() {
  std::vector<Family> families = {
      {"convert f32 -> f16", convert<kF32, kF16>},
      {"convert f16 -> f32", convert<kF16, kF32>},
      {"convert f32 -> int8", convert<kF32, kQ8>},
      {"convert f32 -> uint8", convert<kF32, kU8>},
      {"convert int8 -> f32", convert<kQ8, kF32>},
      {"convert uint8 -> f32", convert<kU8, kF32>},
      {"convert f16 -> int8", convert<kF16, kQ8>},
      {"convert f16 -> uint8", convert<kF16, kU8>},
      {"convert int8 -> f16", convert<kQ8, kF16>},
      {"convert uint8 -> f16", convert<kU8, kF16>},
      {"convert int8 -> int8", convert<kQ8, kQ8>},
      {"convert uint8 -> uint8", convert<kU8, kU8>},
      {"softmax f32", softmax<kF32>},
      {"softmax f16", softmax<kF16>},
  };
  add_functions<0>(&families);
  return families;
}

}  // namespace edgecore::xnnpack::trial
