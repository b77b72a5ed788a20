#include "edgecore/value.h"

#include "host/tensor_copy.h"

namespace edgecore {
namespace {

Status wrong_kind(const Value &value, const char *wanted, Error &error) {
  return fail(error, EDGECORE_INVALID_TYPE, "The value is ", Value::kind_name(value.tag()), ", not ", wanted, ".");
}

}  // namespace

StringView Value::kind_name(uint32_t tag) {
  static constexpr StringView kNames[] = {
      "None",     "an int",         "a double",          "a bool",          "a tensor",
      "a string", "a list of ints", "a list of doubles", "a list of bools", "a list of tensors"};
  return tag < sizeof(kNames) / sizeof(kNames[0]) ? kNames[tag] : StringView("of unknown kind");
}

Value Value::copy_of(const edgecore_value &value) {
  const auto list_of = [&](auto items) {
    using T = std::decay_t<decltype(*items)>;
    return std::vector<T>(items, items + value.as.list->count);
  };
  switch (value.tag) {
    case EDGECORE_TAG_INT:
      return value.as.i;
    case EDGECORE_TAG_DOUBLE:
      return value.as.d;
    case EDGECORE_TAG_BOOL:
      return value.as.b != 0;
    case EDGECORE_TAG_TENSOR:
      return edgecore::copy_of(*value.as.tensor);
    case EDGECORE_TAG_STRING:
      return std::string(value.as.list->items.chars, static_cast<size_t>(value.as.list->count));
    case EDGECORE_TAG_INT_LIST:
      return list_of(value.as.list->items.ints);
    case EDGECORE_TAG_DOUBLE_LIST:
      return list_of(value.as.list->items.doubles);
    case EDGECORE_TAG_BOOL_LIST: {
      const uint8_t *bools = value.as.list->items.bools;
      return std::vector<bool>(bools, bools + value.as.list->count);
    }
    case EDGECORE_TAG_TENSOR_LIST: {
      std::vector<Tensor> tensors;
      for (const edgecore_tensor *tensor : list_of(value.as.list->items.tensors)) {
        tensors.push_back(tensor == nullptr ? Tensor() : edgecore::copy_of(*tensor));
      }
      return tensors;
    }
    default:
      return {};
  }
}

Result<int64_t> Value::to_int(Error &error) const {
  if (const auto *number = std::get_if<int64_t>(&data_)) return *number;
  return wrong_kind(*this, "an int", error);
}

Result<double> Value::to_double(Error &error) const {
  if (const auto *number = std::get_if<double>(&data_)) return *number;
  if (const auto *number = std::get_if<int64_t>(&data_)) return static_cast<double>(*number);
  return wrong_kind(*this, "a double", error);
}

Result<bool> Value::to_bool(Error &error) const {
  if (const auto *flag = std::get_if<bool>(&data_)) return *flag;
  return wrong_kind(*this, "a bool", error);
}

Tensor Value::tensor() const {
  if (const auto *tensor = std::get_if<Tensor>(&data_)) return *tensor;
  Error error;
  (void)wrong_kind(*this, "a tensor", error);
  return Tensor::failed(error);
}

}  // namespace edgecore
