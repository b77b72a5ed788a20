// Kernel tests (trials) of elementwise functions of one tensor, conversions and softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "trial/families.h"

namespace edgecore::xnnpack::trial {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kAlpha = 0.75, kSlope = 0.125, kLimit = 1.5;

// Kinds of special input numbers, as bits that can be combined.
enum Special : unsigned { kNan = 1, kInfinite = 2, kLargest = 4, kZero = 8, kSubnormal = 16, kNegative = 32 };

struct Function {
  const char *name;
  xnn_unary_operator operation;
  double (*compute)(double x);
  double low, high;  // range of the inputs
  double error;      // allowed relative error in fp32 (fp16: see compare_floats); 0: must equal the rounded reference
  double absolute;   // allowed absolute error in fp32, for functions with cancellation; fp16 allows 2^13 times as much
  double steps;      // allowed error of int8 outputs, in multiples of the output's scale

  // Special inputs for which some of XNNPACK's kernels differ from IEEE 754; the plugin's README lists them for users.
  unsigned nonstandard_fp32 = 0, nonstandard_fp16 = 0;
};

double gelu(double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double elu(double x) { return x < 0 ? kAlpha * std::expm1(x) : x; }
double leaky_relu(double x) { return x < 0 ? kSlope * x : x; }
double hard_swish(double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }
double clamp(double x) { return std::isnan(x) ? x : std::clamp(x, -kLimit, kLimit); }
double square(double x) { return x * x; }
double reciprocal_root(double x) { return 1 / std::sqrt(x); }

// The functions with their allowed errors: 0 for functions that are exact or rounded once (compare_floats rounds the
// reference), a few ulp for functions computed by series or tables.
constexpr double kUlp = 0x1.0p-23;  // relative distance of adjacent fp32 numbers
const Function kFunctions[] = {
    {"abs", xnn_unary_abs, std::fabs, -9, 9, 0, 0, 0.501},
    {"negate", xnn_unary_negate, [](double x) { return -x; }, -9, 9, 0, 0, 0.501},
    {"ceiling", xnn_unary_ceiling, std::ceil, -9, 9, 0, 0, 0.501},
    {"floor", xnn_unary_floor, std::floor, -9, 9, 0, 0, 0.501},
    {"clamp", xnn_unary_clamp, clamp, -3, 3, 0, 0, 0.501, kNan, kNan},
    {"square", xnn_unary_square, square, -9, 9, kUlp / 2, 0, 0.501},
    {"square root", xnn_unary_square_root, std::sqrt, 0, 99, 0, 0, 0.501},
    {"reciprocal square root", xnn_unary_reciprocal_square_root, reciprocal_root, 0.01, 99, 4 * kUlp, 0, 0.501,
     kInfinite | kLargest | kZero | kSubnormal | kNegative, 0},
    {"hardswish", xnn_unary_hardswish, hard_swish, -9, 9, 4 * kUlp, kUlp, 0.501},
    {"leaky relu", xnn_unary_leaky_relu, leaky_relu, -9, 9, kUlp, 0, 1.01},
    {"elu", xnn_unary_elu, elu, -9, 9, 8 * kUlp, kUlp, 0.501},
    {"sigmoid", xnn_unary_sigmoid, sigmoid, -20, 20, 8 * kUlp, 0, 0.501},
    {"tanh", xnn_unary_tanh, std::tanh, -9, 9, 8 * kUlp, 0, 0.501},
    {"gelu", xnn_unary_gelu, gelu, -5, 9, 16 * kUlp, 8 * kUlp, 0.501, kInfinite | kLargest, 0},
    {"exp", xnn_unary_exp, std::exp, -20, 20, 8 * kUlp, 0, 0.501},
    {"log", xnn_unary_log, std::log, 0.01, 99, 8 * kUlp, kUlp, 0.501, kLargest, 0},
    {"sine", xnn_unary_sine, std::sin, -9, 9, 8 * kUlp, 2 * kUlp, 0.501},
    {"cosine", xnn_unary_cosine, std::cos, -9, 9, 8 * kUlp, 2 * kUlp, 0.501},
};

std::vector<size_t> test_sizes(Extent extent) {
  if (extent == Extent::kShort) return {67};
  std::vector<size_t> sizes;
  const size_t max_size = extent == Extent::kFull ? 140 : 20;
  for (size_t size = 1; size <= max_size; ++size) sizes.push_back(size);
  for (size_t size : {31u, 32u, 33u, 63u, 64u, 65u, 127u, 129u, 1027u}) sizes.push_back(size);
  return sizes;
}

bool is_float(xnn_datatype type) { return type == xnn_datatype_fp32 || type == xnn_datatype_fp16; }

// Runs a graph of one node twice: with buffers right after a guard page, to detect accesses before a buffer, and with
// buffers right before a guard page, to detect accesses past a buffer. Returns false on failure.
bool run_node(Trial *trial, const std::string &shape, xnn_unary_operator operation, const Tensor &input,
              Tensor *output) {
  xnn_unary_params params = {};
  if (operation == xnn_unary_elu) params.elu.alpha = static_cast<float>(kAlpha);
  if (operation == xnn_unary_leaky_relu) params.leaky_relu.negative_slope = static_cast<float>(kSlope);
  if (operation == xnn_unary_clamp) params.clamp = {static_cast<float>(-kLimit), static_cast<float>(kLimit)};
  TestGraph graph;
  const uint32_t x = graph.input(input), y = graph.output(*output);
  graph.node(xnn_define_unary(graph.subgraph(), operation, &params, x, y, 0));
  if (graph.build() && graph.run({&input}, {output}) && graph.run({&input}, {output})) return true;
  trial->add_failure(shape, graph.status());
  return false;
}

// Compares an fp32 or fp16 output with `expected`, rounded to the output's type. With `error` != 0, fp32 results may
// differ by that relative error and by the smallest denormal. fp16 results may then differ by four ulp (2^-8 relative),
// and denormal fp16 results by 2^-14, the smallest normal number, because kernels flush denormals to zero.
void compare_floats(Trial *trial, const std::string &shape, const Tensor &output, std::vector<double> expected,
                    double error, double absolute) {
  std::vector<double> allowed;
  for (double &number : expected) {
    double bound = std::fabs(number) * error + absolute;
    if (output.type == xnn_datatype_fp16) {
      bound += error == 0 ? 0 : std::max(std::fabs(number) * 0x1.0p-8, 0x1.0p-14) + absolute * 0x1.0p13;
      number = round_to_fp16(number);
    }
    if (output.type == xnn_datatype_fp32) {
      if (error != 0) bound += 0x1.0p-149;
      number = static_cast<double>(static_cast<float>(number));
    }
    allowed.push_back(std::isfinite(bound) ? bound : 0);
  }
  trial->compare(shape, output, expected, allowed);
}

// Returns special inputs with both signs: NaN, infinity, 0, 1, the largest number, the smallest normal number, and two
// denormals.
std::vector<double> special_numbers(xnn_datatype type) {
  const bool is_fp16 = type == xnn_datatype_fp16;
  std::vector<double> numbers = {std::nan(""), kInfinity, 0.0, 1.0};
  for (double number : {is_fp16 ? 65504.0 : 0x1.FFFFFEp127, is_fp16 ? 0x1.0p-14 : 0x1.0p-126,
                        is_fp16 ? 0x1.0p-24 : 0x1.0p-149, is_fp16 ? 0x1.8p-16 : 0x1.8p-130}) {
    numbers.push_back(number);
  }
  const size_t count = numbers.size();
  for (size_t i = 1; i < count; ++i) numbers.push_back(-numbers[i]);
  return numbers;
}

// Returns the kinds of a special input number, as a combination of bits of Special.
unsigned kind_of(double number, xnn_datatype type) {
  const bool is_fp16 = type == xnn_datatype_fp16;
  const double magnitude = std::fabs(number);
  unsigned kind = std::signbit(number) ? kNegative : 0U;
  if (std::isnan(number)) kind = kNan;
  if (std::isinf(number)) kind |= kInfinite;
  if (magnitude == 0) kind |= kZero;
  if (magnitude > (is_fp16 ? 65000.0 : 1e38)) kind |= kLargest;
  if (magnitude > 0 && magnitude < (is_fp16 ? 0x1.0p-14 : 0x1.0p-126)) kind |= kSubnormal;
  return kind;
}

void run_float(Trial *trial, const Function &f, xnn_datatype type) {
  for (size_t size : test_sizes(trial->extent)) {
    Tensor input = fp32_tensor({size}), output = input;
    input.type = output.type = type;
    input.set(trial->uniforms(size, f.low, f.high));
    const std::string shape = std::to_string(size) + " elements";
    if (!run_node(trial, shape, f.operation, input, &output)) return;
    std::vector<double> expected = input.numbers();
    for (double &number : expected) number = f.compute(number);
    compare_floats(trial, shape, output, expected, f.error, f.absolute);
  }
  const std::vector<double> specials = special_numbers(type);
  const bool is_fp16 = type == xnn_datatype_fp16;
  for (size_t at = 0; at < specials.size(); ++at) {
    Tensor input = fp32_tensor({at + 9}), output = input;
    input.type = output.type = type;
    std::vector<double> numbers = trial->uniforms(at + 9, f.low, f.high);
    numbers[at] = specials[at];
    input.set(numbers);
    if ((kind_of(specials[at], type) & (is_fp16 ? f.nonstandard_fp16 : f.nonstandard_fp32)) != 0) continue;
    char shape[60];
    std::snprintf(shape, sizeof(shape), "element %zu is %g", at, specials[at]);
    if (!run_node(trial, shape, f.operation, input, &output)) return;
    // Accept flushed denormals: XNNPACK runs with denormals flushed to zero, and its kernels differ in whether inputs,
    // intermediate results or outputs are flushed. So for a denormal result, any denormal or 0 is accepted, and for a
    // denormal input, the function's value at 0 is accepted.
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
      // Use all 256 integers at size 256: i * 3 modulo 256 takes each value once, because 3 is odd. Depending on the
      // zero point, some of these inputs are outside of the function's domain.
      const auto scale = static_cast<float>(std::max(std::fabs(f.low), std::fabs(f.high)) / 255);
      Tensor input = quantized_tensor(type, {size}, scale, zero),
             output = quantized_tensor(type, {size}, scale * 0.75f, zero);
      for (size_t i = 0; i < size; ++i) input.bytes.push_back(static_cast<uint8_t>(i * 3));
      const std::string shape = std::to_string(size) + " elements, zero point " + std::to_string(zero);
      if (!run_node(trial, shape, f.operation, input, &output)) return;
      std::vector<double> expected = input.numbers();
      bool is_defined = true;
      for (double &number : expected) {
        number = f.compute(number);
        is_defined = is_defined && !std::isnan(number);
      }
      if (is_defined) trial->compare_steps(shape, output, expected, f.steps);
      if (trial->extent == Extent::kShort) return;
    }
  }
}

template <size_t kIndex, int kType>
void elementwise(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  is_float(type) ? run_float(trial, kFunctions[kIndex], type) : run_int8(trial, kFunctions[kIndex], type);
}

// Tests a conversion between the types of `input` and `output`. `steps` is the allowed error of int8 outputs, in
// multiples of the output's scale: 0.5 for rounding to integers, the rest for rounding the ratio of the scales.
void run_conversion(Trial *trial, Tensor input, Tensor output, double low, double high, double steps) {
  for (size_t size : test_sizes(trial->extent)) {
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
    const float max_ratio = from == xnn_datatype_quint8 ? 0x1.FFFCp+6f : 0x1.0p+7f;  // same limit as in nodes_unary.cpp
    for (float ratio : {1.0f, 0.7f, 0x1.0p-8f, max_ratio}) {
      const bool both = !is_float(from) && !is_float(to);
      const float scale = is_float(from) ? 1.0f : 0.05f;
      const Tensor input = quantized_tensor(from, {}, scale, is_float(from) ? 0 : at(from, zero));
      const Tensor output = quantized_tensor(to, {},
                                             is_float(to) ? 1.0f
                                             : both       ? scale / ratio
                                                          : 0.04f,
                                             is_float(to) ? 0 : at(to, both ? -zero : zero));
      // Allow 0.5 for rounding and 0.5 for the ratio of two scales: kernels represent this ratio with 8 fractional
      // bits, so it has an error of up to 2^-9, which is half a step for a number of 255 steps.
      run_conversion(trial, input, output, -9, 9, both ? 1.01 : 0.501);
      if (!both || trial->extent == Extent::kShort) break;
    }
    if ((is_float(from) && is_float(to)) || trial->extent == Extent::kShort) break;
  }
}

template <int kType>
void softmax(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  for (size_t size : test_sizes(trial->extent)) {
    const size_t rows = size % 5 + 1;
    Tensor input = fp32_tensor({rows, size}), output = input;
    input.type = output.type = type;
    input.set(trial->uniforms(rows * size, -9, 9));
    TestGraph graph;
    const uint32_t x = graph.input(input), y = graph.output(output);
    graph.node(xnn_define_softmax(graph.subgraph(), x, y, 0));
    const std::string shape = shape_text(input.dims);
    if (!graph.build() || !graph.run({&input}, {&output})) return trial->add_failure(shape, graph.status());
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
