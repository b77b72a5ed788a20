#include "trial/families.h"

#include <cmath>
#include <cstdio>

#include "build.h"

namespace edgecore::xnnpack::trial {

double Trial::uniform(double low, double high) {
  // Draws a random number by splitmix64 (Steele, Lea and Flood); the upper 53 bits become a double in [0, 1).
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t mixed = state_;
  mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
  return low + (high - low) * static_cast<double>((mixed ^ mixed >> 31) >> 11) * 0x1.0p-53;
}

int Trial::uniform_int(int low, int high) { return low + static_cast<int>(uniform(0, high - low + 1)); }

std::vector<double> Trial::uniforms(size_t count, double low, double high) {
  std::vector<double> numbers(count);
  for (double &number : numbers) number = uniform(low, high);
  return numbers;
}

void Trial::compare(const std::string &shape, const Tensor &got, const std::vector<double> &expected,
                    const std::vector<double> &allowed) {
  ++outcome.cases;
  const std::vector<double> numbers = got.numbers();
  if (numbers.size() != expected.size()) {
    return add_error(shape + ": the output is " + shape_text(got.dims) + " instead of " +
                     std::to_string(expected.size()) + " elements");
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const bool same = numbers[i] == expected[i] || (std::isnan(numbers[i]) && std::isnan(expected[i]));
    if (same || std::fabs(numbers[i] - expected[i]) <= allowed[i]) continue;
    std::string index;
    size_t rest = i;
    for (size_t d = got.dims.size(); d-- > 0; rest /= got.dims[d]) {
      index.insert(0, (d == 0 ? "" : ",") + std::to_string(rest % got.dims[d]));
    }
    char text[160];
    std::snprintf(text, sizeof(text), ": element [%s] of %s is %.9g, expected %.9g (allowed %.3g)", index.c_str(),
                  shape_text(got.dims).c_str(), numbers[i], expected[i], allowed[i]);
    return add_error(shape + text);
  }
}

void Trial::compare_steps(const std::string &shape, const Tensor &got, const std::vector<double> &expected,
                          double steps) {
  const double scale = static_cast<double>(got.scale);
  const int32_t low = got.type == xnn_datatype_qint8 ? -128 : 0;
  std::vector<double> limited = expected;
  for (double &number : limited) {
    number = std::fmin(std::fmax(number, scale * (low - got.zero)), scale * (low + 255 - got.zero));
  }
  compare(shape, got, limited, std::vector<double>(expected.size(), steps * scale));
}

void Trial::add_failure(const std::string &shape, xnn_status status) {
  if (status == xnn_status_unsupported_hardware) {
    outcome.unsupported = true;
  } else {
    ++outcome.cases;
    add_error(shape + ": XNNPACK refused the graph: " + status_name(status));
  }
}

void Trial::add_error(const std::string &text) {
  if (outcome.errors++ == 0) outcome.first_error = text;
}

std::vector<Family> families() {
  std::vector<Family> all;
  for (const auto &families : {matrix_families(), convolution_families(), elementwise_families(), binary_families(),
                               movement_families(), pooling_families(), sum_families()}) {
    all.insert(all.end(), families.begin(), families.end());
  }
  return all;
}

void add_each_type(const std::string &name, decltype(Family::run) f32, decltype(Family::run) f16,
                   decltype(Family::run) int8, decltype(Family::run) uint8, std::vector<Family> *families) {
  families->push_back({name + " f32", f32});
  families->push_back({name + " f16", f16});
  families->push_back({name + " int8", int8});
  families->push_back({name + " uint8", uint8});
}

Outcome run(const Family &family, Extent extent) {
  Trial trial(extent);
  trial.outcome.family = family.name;
  family.run(&trial);
  return trial.outcome;
}

std::string run_all(Extent extent) {
  std::string lines;
  for (const Family &family : families()) {
    const Outcome outcome = run(family, extent);
    const char *state = outcome.errors != 0 ? "wrong" : outcome.unsupported ? "none" : "right";
    const std::string detail = outcome.errors != 0 ? outcome.first_error : std::to_string(outcome.cases) + " cases";
    lines += outcome.family + "\t" + state + "\t" + detail + "\n";
  }
  return lines;
}

}  // namespace edgecore::xnnpack::trial
