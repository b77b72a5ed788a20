// A value of any kind that a method takes or returns.
#ifndef EDGECORE_VALUE_H_
#define EDGECORE_VALUE_H_

#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "edgecore/abi.h"
#include "edgecore/status.h"
#include "edgecore/tensor.h"

namespace edgecore {

// Nothing (None), a number, a bool, a tensor, a string or a list: the kinds of edgecore_value. Converts implicitly from
// the C++ types, so that a list of values can be written {tensor, 3, 0.5, true}.
class Value {
 public:
  Value() = default;  // None
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Value(T number) {
    if constexpr (std::is_same_v<T, bool>) {
      data_ = number;
    } else if constexpr (std::is_integral_v<T>) {
      data_ = static_cast<int64_t>(number);
    } else {
      data_ = static_cast<double>(number);
    }
  }
  Value(Tensor tensor) : data_(std::move(tensor)) {}
  Value(const char *text) : data_(std::string(text)) {}
  Value(std::string text) : data_(std::move(text)) {}
  Value(std::vector<int64_t> numbers) : data_(std::move(numbers)) {}
  Value(std::vector<double> numbers) : data_(std::move(numbers)) {}
  Value(std::vector<bool> bools) : data_(std::move(bools)) {}
  Value(std::vector<Tensor> tensors) : data_(std::move(tensors)) {}

  // Copies a value of the C interface, which must be in host memory. In a list of tensors, a missing entry becomes
  // Tensor().
  static Value copy_of(const edgecore_value &value);

  uint32_t tag() const { return static_cast<uint32_t>(data_.index()); }  // EDGECORE_TAG_*
  bool is_none() const { return tag() == EDGECORE_TAG_NONE; }
  bool is_int() const { return tag() == EDGECORE_TAG_INT; }
  bool is_double() const { return tag() == EDGECORE_TAG_DOUBLE; }
  bool is_bool() const { return tag() == EDGECORE_TAG_BOOL; }
  bool is_tensor() const { return tag() == EDGECORE_TAG_TENSOR; }

  // Return the number that the value holds; to_double also accepts an int. Errors: INVALID_TYPE for another kind.
  Result<int64_t> to_int(Error &error) const;
  Result<double> to_double(Error &error) const;
  Result<bool> to_bool(Error &error) const;
  // Returns the tensor that the value holds. For another kind, returns an empty tensor whose check() names the kind.
  Tensor tensor() const;
  // Return the string or list that the value holds; NULL if the value is of another kind.
  const std::string *string() const { return std::get_if<std::string>(&data_); }
  const std::vector<int64_t> *ints() const { return std::get_if<std::vector<int64_t>>(&data_); }
  const std::vector<double> *doubles() const { return std::get_if<std::vector<double>>(&data_); }
  const std::vector<bool> *bools() const { return std::get_if<std::vector<bool>>(&data_); }
  const std::vector<Tensor> *tensors() const { return std::get_if<std::vector<Tensor>>(&data_); }

  // Returns the name of a tag for messages: "an int", "a tensor".
  static StringView kind_name(uint32_t tag);

 private:
  // The index of a type in the variant is the type's EDGECORE_TAG_*, so that tag() can return index().
  std::variant<std::monostate, int64_t, double, bool, Tensor, std::string, std::vector<int64_t>, std::vector<double>,
               std::vector<bool>, std::vector<Tensor>>
      data_;
};

}  // namespace edgecore

#endif  // EDGECORE_VALUE_H_
