// Kernel tests (trials) of elementwise functions of two tensors with broadcasting, against a reference in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "trial/families.h"

namespace edgecore::xnnpack::trial {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Function {
  const char *name;
  xnn_binary_operator operation;
  double (*compute)(double a, double b);
  double steps;  // allowed error of int8 outputs, in multiples of the output's scale
};

const Function kFunctions[] = {
    {"add", xnn_binary_add, [](double a, double b) { return a + b; }, 0.51},
    {"subtract", xnn_binary_subtract, [](double a, double b) { return a - b; }, 0.51},
    {"multiply", xnn_binary_multiply, [](double a, double b) { return a * b; }, 0.501},
    {"divide", xnn_binary_divide, [](double a, double b) { return a / b; }, 0.501},
    {"minimum", xnn_binary_minimum, [](double a, double b) { return b < a ? b : a; }, 0.501},
    {"maximum", xnn_binary_maximum, [](double a, double b) { return b > a ? b : a; }, 0.501},
    {"prelu", xnn_binary_prelu, [](double a, double b) { return a < 0 ? a * b : a; }, 0.51},
};

struct Shapes {
  Dims a, b;
};

std::vector<Shapes> all_shapes(Extent extent) {
  if (extent == Extent::kShort) return {{{67}, {67}}, {{3, 35}, {35}}};
  std::vector<Shapes> all;
  const size_t max_size = extent == Extent::kFull ? 140 : 20;
  for (size_t n = 1; n <= max_size; ++n) all.push_back({{n}, {n}});
  for (size_t n : {31u, 33u, 63u, 65u, 129u, 1027u}) all.push_back({{n}, {n}});
  for (size_t n : {1u, 4u, 7u, 8u, 16u, 33u, 70u}) {
    all.push_back({{n}, {1}});
    all.push_back({{1}, {n}});
    all.push_back({{3, n}, {n}});
    all.push_back({{n}, {3, n}});
    all.push_back({{3, n}, {3, 1}});
    all.push_back({{3, 1}, {1, n}});
    all.push_back({{2, 1, 5, n}, {3, 1, n}});
  }
  return all;
}

// Broadcasts `numbers` of shape `dims` to `output_dims`.
std::vector<double> broadcast(const std::vector<double> &numbers, const Dims &dims, const Dims &output_dims) {
  std::vector<double> result(element_count(output_dims));
  for (size_t i = 0; i < result.size(); ++i) {
    size_t rest = i, at = 0, stride = 1;
    for (size_t d = 1; d <= output_dims.size(); ++d) {
      const size_t index = rest % output_dims[output_dims.size() - d];
      rest /= output_dims[output_dims.size() - d];
      if (d > dims.size()) continue;
      const size_t size = dims[dims.size() - d];
      at += (size == 1 ? 0 : index) * stride;
      stride *= size;
    }
    result[i] = numbers[at];
  }
  return result;
}

Dims broadcast_dims(const Shapes &shapes) {
  Dims output_dims = shapes.a.size() > shapes.b.size() ? shapes.a : shapes.b;
  for (const Dims &dims : {shapes.a, shapes.b}) {
    for (size_t d = 1; d <= dims.size(); ++d) {
      output_dims[output_dims.size() - d] = std::max(output_dims[output_dims.size() - d], dims[dims.size() - d]);
    }
  }
  return output_dims;
}

// Tests a node with inputs of the shapes `shapes`. Runs it twice: with buffers right after a guard page, to detect
// accesses before a buffer, and with buffers right before a guard page, to detect accesses past a buffer.
void run_shapes(Trial *trial, const Function &f, const Shapes &shapes, const Tensor &a, const Tensor &b, Tensor output,
                double limit) {
  TestGraph graph;
  const uint32_t x = graph.input(a), y = graph.input(b), z = graph.output(output);
  const xnn_binary_params params = {-limit, limit};
  graph.node(xnn_define_binary(graph.subgraph(), f.operation, &params, x, y, z, 0));
  const std::string shape = shape_text(shapes.a) + " and " + shape_text(shapes.b);
  if (!graph.build() || !graph.run({&a, &b}, {&output}) || !graph.run({&a, &b}, {&output})) {
    return trial->add_failure(shape, graph.status());
  }
  const Dims output_dims = broadcast_dims(shapes);
  const std::vector<double> left = broadcast(a.numbers(), shapes.a, output_dims);
  const std::vector<double> right = broadcast(b.numbers(), shapes.b, output_dims);
  std::vector<double> expected(left.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = std::clamp(f.compute(left[i], right[i]), -limit, limit);
    if (output.type == xnn_datatype_fp32) expected[i] = static_cast<double>(static_cast<float>(expected[i]));
    if (output.type == xnn_datatype_fp16) expected[i] = round_to_fp16(expected[i]);
  }
  if (output.type == xnn_datatype_qint8 || output.type == xnn_datatype_quint8) {
    return trial->compare_steps(shape, output, expected, f.steps);
  }
  // All results must equal the rounded reference, except that a division may differ by one ulp.
  const double unit = output.type == xnn_datatype_fp16 ? 0x1.0p-10 : 0x1.0p-23;
  std::vector<double> allowed;
  for (double number : expected) {
    allowed.push_back(f.operation == xnn_binary_divide ? std::fabs(number) * unit : 0);
  }
  trial->compare(shape, output, expected, allowed);
}

void run_float(Trial *trial, const Function &f, xnn_datatype type) {
  size_t index = 0;
  for (const Shapes &shapes : all_shapes(trial->extent)) {
    Tensor a = fp32_tensor(shapes.a), b = fp32_tensor(shapes.b), output = fp32_tensor(broadcast_dims(shapes));
    a.type = b.type = output.type = type;
    a.set(trial->uniforms(element_count(a.dims), -9, 9));
    std::vector<double> right = trial->uniforms(element_count(b.dims), 0.5, 9);
    for (size_t i = 0; i < right.size(); i += 3) right[i] = -right[i];
    b.set(right);
    run_shapes(trial, f, shapes, a, b, output, index++ % 3 == 2 ? 4 : kInfinity);
    if (trial->outcome.unsupported) return;
  }
}

void run_int8(Trial *trial, const Function &f, xnn_datatype type) {
  const int32_t low = type == xnn_datatype_qint8 ? -128 : 0;
  struct Scales {
    float a, b, output;
  };
  // The last two rows of scales are near the limits that the delegate accepts: for sums, input scale / output scale
  // from 2^-10 to 2^8; for products, product of the input scales / output scale from 2^-16 to 2^8.
  const bool multiplies = f.operation == xnn_binary_multiply;
  const Scales scales[] = {{0.05f, 0.03f, 0.06f},
                           {0.05f, 0.05f, 0.05f},
                           {0x1.0p-10f, 0x1.0p-9f, multiplies ? 0.0078125f : 1.0f},
                           {2.0f, 1.0f, multiplies ? 0.0079f : 0.0079f}};
  size_t index = 0;
  for (const Shapes &shapes : all_shapes(trial->extent)) {
    const Scales &s = scales[index % 4];
    const int32_t zeros[] = {low, low + 255, low + 128, low + 77};
    Tensor a = quantized_tensor(type, shapes.a, s.a, zeros[index % 4]),
           b = quantized_tensor(type, shapes.b, s.b, zeros[index / 2 % 4]);
    const Tensor output = quantized_tensor(type, broadcast_dims(shapes), s.output, zeros[(index + 1) % 4]);
    // 0 / 0 is NaN, which int8 cannot represent, so the dividend of a quotient is never 0.
    const auto zero = static_cast<uint8_t>(zeros[index % 4]);
    const bool skips_zero = f.operation == xnn_binary_divide;
    for (size_t i = 0; i < element_count(a.dims); ++i) {
      const auto byte = static_cast<uint8_t>(trial->uniform_int(0, 255));
      a.bytes.push_back(skips_zero && byte == zero ? byte ^ 1 : byte);
    }
    for (size_t i = 0; i < element_count(b.dims); ++i)
      b.bytes.push_back(static_cast<uint8_t>(trial->uniform_int(0, 255)));
    ++index;
    run_shapes(trial, f, shapes, a, b, output, kInfinity);
    if (trial->outcome.unsupported) return;
  }
}

template <size_t kIndex, int kType>
void run(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  const bool is_float = type == xnn_datatype_fp32 || type == xnn_datatype_fp16;
  is_float ? run_float(trial, kFunctions[kIndex], type) : run_int8(trial, kFunctions[kIndex], type);
}

template <size_t kIndex>
void add_functions(std::vector<Family> *families) {
  if constexpr (kIndex < std::size(kFunctions)) {
    add_each_type(kFunctions[kIndex].name, run<kIndex, xnn_datatype_fp32>, run<kIndex, xnn_datatype_fp16>,
                  run<kIndex, xnn_datatype_qint8>, run<kIndex, xnn_datatype_quint8>, families);
    add_functions<kIndex + 1>(families);
  }
}

}  // namespace

std::vector<Family> binary_families() {
  std::vector<Family> families;
  add_functions<0>(&families);
  return families;
}

}  // namespace edgecore::xnnpack::trial
