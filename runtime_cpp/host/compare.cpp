#include "edgecore/compare.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include "edgecore/make_tensor.h"
#include "host/elements.h"
#include "host/tensor_copy.h"

namespace edgecore {
namespace {

// Returns the absolute difference of two floats: 0 for two equal infinities or two NaNs, infinity if only one is NaN.
double distance(double got, double expected) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return 0;
  const double difference = std::fabs(got - expected);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

// Collects the differences between the elements of two tensors.
class Errors {
 public:
  Errors(const Tolerance &tolerance, Difference &difference) : tolerance_(tolerance), difference_(difference) {}

  template <typename T>
  void add(T got, T expected) {
    const auto a = static_cast<double>(got), b = static_cast<double>(expected);
    double error = distance(a, b);
    const double bound = tolerance_.absolute + tolerance_.relative * std::fabs(b);
    bool passes = error == 0 || (std::isfinite(error) && error <= bound);
    if constexpr (!kIsFloat<T>) {
      passes = got == expected;
      if (!passes && error == 0) error = 1;  // different int64 numbers that are equal as doubles
    }
    const uint64_t index = difference_.count++;
    difference_.max_absolute = std::fmax(difference_.max_absolute, error);
    if (!std::isfinite(error)) {
      difference_.max_relative = error;
    } else if (b != 0 && error != 0) {
      difference_.max_relative = std::fmax(difference_.max_relative, error / std::fabs(b));
    }
    if (passes) return;
    if (difference_.wrong++ != 0 && error <= worst_error_) return;
    worst_ = index;
    worst_error_ = error;
    worst_got_ = a;
    worst_expected_ = b;
  }

  // Returns OK, or an error that names the worst element by its index in a tensor of this shape.
  Status finish(const std::vector<int64_t> &shape, Error &error) const {
    if (difference_.wrong == 0) return {};
    std::vector<int64_t> index(shape.size());
    uint64_t rest = worst_;
    for (size_t d = shape.size(); d-- > 0; rest /= static_cast<uint64_t>(shape[d])) {
      index[d] = static_cast<int64_t>(rest % static_cast<uint64_t>(shape[d]));
    }
    char errors[96], worst[96];
    std::snprintf(errors, sizeof errors, "max abs error %.3g, max rel error %.3g", difference_.max_absolute,
                  difference_.max_relative);
    std::snprintf(worst, sizeof worst, "%.9g, expected %.9g", worst_got_, worst_expected_);
    return fail(error, EDGECORE_INVALID_ARGUMENT, difference_.wrong, " of ", difference_.count, " elements are wrong, ",
                static_cast<const char *>(errors), "; the worst is ", span_of(index), ": ",
                static_cast<const char *>(worst), ".");
  }

 private:
  const Tolerance &tolerance_;
  Difference &difference_;
  uint64_t worst_ = 0;
  double worst_error_ = 0, worst_got_ = 0, worst_expected_ = 0;
};

// Adds the differences of another tensor to the sum over several tensors.
void add(Difference &sum, const Difference &added) {
  sum.count += added.count;
  sum.wrong += added.wrong;
  sum.max_absolute = std::fmax(sum.max_absolute, added.max_absolute);
  sum.max_relative = std::fmax(sum.max_relative, added.max_relative);
}

// Returns true for an entry of a tensor list that has no tensor.
bool is_missing(const Tensor &tensor) { return tensor.empty() && !tensor.is_failed(); }

// Converts a number, bool, string or list of numbers to a tensor.
Tensor tensor_of(const Value &value) {
  Error error;
  if (value.is_int()) return scalar_tensor(*value.to_int(error));
  if (value.is_double()) return scalar_tensor(*value.to_double(error));
  if (value.is_bool()) return make_tensor({}, std::vector<bool>{*value.to_bool(error)});
  if (value.ints() != nullptr) return make_tensor(*value.ints());
  if (value.doubles() != nullptr) return make_tensor(*value.doubles());
  if (value.bools() != nullptr) return make_tensor(*value.bools());
  if (value.string() != nullptr)
    return make_tensor(std::vector<uint8_t>(value.string()->begin(), value.string()->end()));
  return value.tensor();
}

}  // namespace

Status check_close(const Tensor &got, const Tensor &expected, const Tolerance &tolerance, Error &error,
                   Difference *difference) {
  EDGECORE_TRY(got.check(error));
  EDGECORE_TRY(expected.check(error));
  if (got.scalar_type() != expected.scalar_type()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "The type is ", scalar_type_info(got.scalar_type()).name,
                ", expected is ", scalar_type_info(expected.scalar_type()).name, ".");
  }
  if (got.shape() != expected.shape()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "The shape is ", span_of(got.shape()), ", expected is ",
                span_of(expected.shape()), ".");
  }
  Difference own;
  Difference &result = difference == nullptr ? own : *difference;
  result = {};
  Errors errors(tolerance, result);
  const bool known = with_type(got.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const auto *a = static_cast<const T *>(got.data()), *b = static_cast<const T *>(expected.data());
    for_each_element(got.shape(), got.strides(), expected.strides(), got.count(),
                     [&](int64_t i, int64_t j) { errors.add(a[i], b[j]); });
  });
  if (known) return errors.finish(got.shape(), error);
  return fail(error, EDGECORE_NOT_SUPPORTED, "Tensors of type ", scalar_type_info(got.scalar_type()).name,
              " are not compared.");
}

Status check_close(const Value &got, const Value &expected, const Tolerance &tolerance, Error &error,
                   Difference *difference) {
  if (difference != nullptr) *difference = {};
  if (got.tag() != expected.tag()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "The value is ", Value::kind_name(got.tag()), ", expected is ",
                Value::kind_name(expected.tag()), ".");
  }
  if (got.is_none()) return {};
  if (got.tensors() == nullptr) return check_close(tensor_of(got), tensor_of(expected), tolerance, error, difference);
  if (got.tensors()->size() != expected.tensors()->size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "The list has ", got.tensors()->size(), " tensors, expected are ",
                expected.tensors()->size(), ".");
  }
  for (size_t i = 0; i < got.tensors()->size(); ++i) {
    const Tensor &a = (*got.tensors())[i], &b = (*expected.tensors())[i];
    if (is_missing(a) && is_missing(b)) continue;
    Difference of_tensor;
    const Status status = check_close(a, b, tolerance, error, &of_tensor);
    if (difference != nullptr) add(*difference, of_tensor);
    if (status.ok()) continue;
    const Error reason = error;
    return fail(error, status.code(), "Tensor ", i, " of the list: ", reason.sentence());
  }
  return {};
}

}  // namespace edgecore
