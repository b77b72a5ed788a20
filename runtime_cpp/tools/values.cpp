#include "values.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "edgecore/scalar_type.h"
#include "edgecore/value.h"

namespace edgecore::tools {
namespace {

bool ends_with(const std::string &text, const char *end) {
  const size_t size = std::strlen(end);
  return text.size() >= size && text.compare(text.size() - size, size, end) == 0;
}

// Copies the elements of a dense tensor from its dim order (outermost dim first) to row-major order, or back.
std::vector<uint8_t> reordered(const uint8_t *data, Span<const int64_t> shape, const uint8_t *dim_order,
                               size_t element_size, bool to_row_major) {
  // for each dim: stride in bytes, and index of the current element
  std::vector<size_t> strides(shape.size()), index(shape.size());
  size_t bytes = element_size;
  for (size_t i = shape.size(); i-- > 0; bytes *= static_cast<size_t>(shape[dim_order[i]]))
    strides[dim_order[i]] = bytes;
  std::vector<uint8_t> copy(bytes);
  size_t at = 0;
  for (size_t row_major = 0; row_major < bytes; row_major += element_size) {
    std::memcpy(&copy[to_row_major ? row_major : at], data + (to_row_major ? at : row_major), element_size);
    for (size_t i = shape.size(); i-- > 0;) {
      at += strides[i];
      if (++index[i] < static_cast<size_t>(shape[i])) break;
      at -= index[i] * strides[i];
      index[i] = 0;
    }
  }
  return copy;
}

// Sets an input that is not a tensor, from a text that is a number, "true", "false" or "none".
Status set_number(Method &method, size_t index, uint32_t tag, const std::string &text, Error &error) {
  if (text == "none") return method.set_input_none(index, error);
  if (text == "true" || text == "false") return method.set_input(index, int64_t{text == "true"}, error);
  char *end = nullptr;
  errno = 0;
  const long long integer = std::strtoll(text.c_str(), &end, 10);
  if (!text.empty() && *end == '\0' && errno == 0) return method.set_input(index, int64_t{integer}, error);
  const double number = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0') return method.set_input(index, number, error);
  return fail(error, EDGECORE_INVALID_ARGUMENT, "Input ", index, " is ", Value::kind_name(tag),
              "; give a number, true, false or none instead of ", text.c_str(), ".");
}

// Sets input `index`. If `path` is NULL, the value is zeros; for a tensor, it is the content of the file `path`; for
// any other input, it is the number, "true", "false" or "none" in the text `path`. `array` receives a tensor's
// elements, and must live until the last run.
Status set_input(Method &method, size_t index, const char *path, Array &array, Error &error) {
  const ValueInfo info = method.info().input(index);
  if (info.tag != EDGECORE_TAG_TENSOR) {
    if (path != nullptr) return set_number(method, index, info.tag, path, error);
    if (info.tag == EDGECORE_TAG_NONE) return method.set_input_none(index, error);
    if (info.tag == EDGECORE_TAG_DOUBLE) return method.set_input(index, 0.0, error);
    return method.set_input(index, int64_t{0}, error);
  }
  if (path != nullptr && ends_with(path, ".npy")) {
    EDGECORE_TRY(read_npy(path, array, error));
  } else {
    array.scalar_type = info.tensor.scalar_type;
    array.shape.assign(info.tensor.sizes.begin(), info.tensor.sizes.end());
    array.bytes.clear();
    if (path == nullptr) {
      array.bytes.resize(static_cast<size_t>(info.tensor.bytes));
    } else {
      EDGECORE_TRY(read_file(path, array.bytes, error));
    }
  }
  uint64_t bytes = scalar_type_info(array.scalar_type).size;
  for (const int64_t size : array.shape) bytes *= static_cast<uint64_t>(size);
  if (bytes != array.bytes.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, path, " has ", array.bytes.size(), " bytes of data; input ", index,
                " needs ", bytes, ".");
  }
  TensorArgument argument;  // without strides, the elements are taken to be in the dim order that the method expects
  const Span<const int64_t> shape(array.shape.data(), array.shape.size());
  if (path != nullptr && ends_with(path, ".npy") && shape.size() == info.tensor.dim_order.size()) {
    const size_t element_size = scalar_type_info(array.scalar_type).size;
    array.bytes = reordered(array.bytes.data(), shape, info.tensor.dim_order.data(), element_size, false);
  }
  argument.data = array.bytes.data();
  argument.scalar_type = array.scalar_type;
  argument.shape = shape;
  argument.writable = true;
  return method.set_input(index, argument, error);
}

Span<const int64_t> shape_of(const edgecore_tensor &tensor) {
  return {tensor.dl.shape, static_cast<size_t>(tensor.dl.ndim)};
}

const uint8_t *data_of(const edgecore_tensor &tensor) {
  return static_cast<const uint8_t *>(tensor.dl.data) + tensor.dl.byte_offset;
}

size_t element_count(Span<const int64_t> shape) {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  return count;
}

}  // namespace

Status set_inputs(Method &method, const std::vector<const char *> &files, bool all, std::vector<Array> &arrays,
                  Error &error) {
  const size_t count = method.info().input_count();
  if (files.size() > count) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", method.info().name(), "' takes ", count,
                count == 1 ? " input; got " : " inputs; got ", files.size(), ".");
  }
  arrays.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (!all && !method.input_is_copied(i)) continue;
    EDGECORE_TRY(set_input(method, i, i < files.size() ? files[i] : nullptr, arrays[i] = Array(), error));
  }
  return {};
}

void print_output(const Method &method, size_t index) {
  const edgecore_value &value = method.output(index);
  if (value.tag == EDGECORE_TAG_INT) std::printf("output %zu: %lld\n", index, static_cast<long long>(value.as.i));
  if (value.tag == EDGECORE_TAG_DOUBLE) std::printf("output %zu: %g\n", index, value.as.d);
  if (value.tag == EDGECORE_TAG_BOOL) std::printf("output %zu: %s\n", index, value.as.b != 0 ? "true" : "false");
  if (value.tag == EDGECORE_TAG_NONE) std::printf("output %zu: none\n", index);
  if (value.tag >= EDGECORE_TAG_STRING) {
    const StringView kind = Value::kind_name(value.tag);
    std::printf("output %zu: %.*s, %llu items\n", index, static_cast<int>(kind.size()), kind.data(),
                static_cast<unsigned long long>(value.as.list->count));
  }
  if (value.tag != EDGECORE_TAG_TENSOR) return;
  const edgecore_tensor &tensor = *value.as.tensor;
  const ScalarTypeInfo type = scalar_type_info(tensor.scalar_type);
  const size_t count = element_count(shape_of(tensor));
  std::string sizes;
  for (const int64_t size : shape_of(tensor)) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  std::printf("output %zu: %.*s [%s]", index, static_cast<int>(type.name.size()), type.name.data(), sizes.c_str());
  if (type.name == StringView("float32") && count > 0) {
    const auto *values = reinterpret_cast<const float *>(data_of(tensor));
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
    std::printf(" min %g max %g mean %g", static_cast<double>(*std::min_element(values, values + count)),
                static_cast<double>(*std::max_element(values, values + count)), sum / static_cast<double>(count));
  }
  std::printf("\n");
}

Status write_output(const Method &method, size_t index, const std::string &prefix, Error &error) {
  const edgecore_value &value = method.output(index);
  const std::string path = prefix + std::to_string(index) + ".npy";
  const auto write = [&](int32_t type, Span<const int64_t> shape, const void *data, size_t bytes) {
    return write_npy(path, type, shape, {static_cast<const uint8_t *>(data), bytes}, error);
  };
  const auto length = static_cast<int64_t>(value.tag >= EDGECORE_TAG_STRING ? value.as.list->count : 0);
  const auto count = static_cast<size_t>(length);
  const uint8_t flag = value.as.b != 0 ? 1 : 0;
  switch (value.tag) {
    case EDGECORE_TAG_INT:
      return write(ScalarType::kInt64, {}, &value.as.i, sizeof value.as.i);
    case EDGECORE_TAG_DOUBLE:
      return write(ScalarType::kFloat64, {}, &value.as.d, sizeof value.as.d);
    case EDGECORE_TAG_BOOL:
      return write(ScalarType::kBool, {}, &flag, 1);
    case EDGECORE_TAG_STRING:
      return write(ScalarType::kUInt8, {&length, 1}, value.as.list->items.chars, count);
    case EDGECORE_TAG_INT_LIST:
      return write(ScalarType::kInt64, {&length, 1}, value.as.list->items.ints, count * sizeof(int64_t));
    case EDGECORE_TAG_DOUBLE_LIST:
      return write(ScalarType::kFloat64, {&length, 1}, value.as.list->items.doubles, count * sizeof(double));
    case EDGECORE_TAG_BOOL_LIST:
      return write(ScalarType::kBool, {&length, 1}, value.as.list->items.bools, count);
    case EDGECORE_TAG_TENSOR:
      break;
    default:
      return {};  // None, or a list of tensors (which no exported program returns), is not written
  }
  const edgecore_tensor &tensor = *value.as.tensor;
  const size_t element_size = scalar_type_info(tensor.scalar_type).size;
  const std::vector<uint8_t> bytes = reordered(data_of(tensor), shape_of(tensor), tensor.dim_order, element_size, true);
  return write(tensor.scalar_type, shape_of(tensor), bytes.data(), bytes.size());
}

}  // namespace edgecore::tools
