// Reads the blob of a Vulkan delegate: a header "VH00" and a flatbuffer "VK00" (schema/vulkan.fbs).
#ifndef EDGECORE_VULKAN_BLOB_H_
#define EDGECORE_VULKAN_BLOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "edgecore/backend.hpp"
#include "tensor.h"

namespace edgecore::vulkan {

// Element types of tensors, with their numbers in the blob.
enum class DataType : uint8_t {
  kBool = 0,
  kUint8 = 1,
  kInt8 = 2,
  kInt32 = 3,
  kFloat16 = 4,
  kFloat32 = 5,
  kFloat64 = 6,
  kInt64 = 7,
};

// Returns the dtype on the device of a tensor that has this type in the blob. int8 activations may have kInt8 instead
// of kInt32.
constexpr Dtype device_dtype(DataType type) {
  return type == DataType::kFloat16                                 ? Dtype::kFloat16
         : type == DataType::kFloat32 || type == DataType::kFloat64 ? Dtype::kFloat32
                                                                    : Dtype::kInt32;
}
// Returns the dtype that an argument has when it is copied to the device, or when the device reads it from host memory.
constexpr Dtype staging_dtype(DataType type, bool has_8_bit_storage) {
  return type == DataType::kInt8 && has_8_bit_storage ? Dtype::kInt8 : device_dtype(type);
}
uint64_t size_of(DataType type);

enum class Kind : uint8_t {
  kNull,
  kInt,
  kDouble,
  kBool,
  kTensor,
  kIntList,
  kDoubleList,
  kBoolList,
  kValueList,
  kString,
  kSymInt,
};

// A value of the graph: a tensor, number, text or list. `kind` determines which members are used.
struct Value {
  Kind kind = Kind::kNull;
  int64_t integer = 0;            // kInt, kBool
  double number = 0;              // kDouble
  std::string text;               // kString
  std::vector<int64_t> integers;  // elements of a kIntList or kBoolList; indices of values for a kValueList
  std::vector<double> numbers;    // kDoubleList
  // kTensor: `shape` is the maximum shape. `staging` is the type of an input or output in host memory, as far as the
  // blob's types can express it: an int64 argument has kInt32 as its staging type.
  DataType type = DataType::kFloat32;
  DataType staging = DataType::kFloat32;
  Shape shape;
  Layout layout = Layout::kRowMajor;
  int32_t constant = -1;  // kTensor: index of its constant; -1: the tensor is not a constant
};

struct OperatorCall {
  uint32_t node_id = 0;
  std::string name;
  std::vector<uint32_t> args;  // indices in Graph::values
};

struct Constant {
  edgecore_bytes bytes = {nullptr, 0};
  std::string key;  // key of the constant in the named data; empty: the bytes are in the blob
};

struct Graph {
  std::vector<Value> values;
  std::vector<OperatorCall> calls;
  std::vector<uint32_t> inputs, outputs;  // indices in `values`
  std::vector<Constant> constants;
};

// Returns the graph of a blob. All indices of values and constants are in bounds, shapes have at most kMaxRank dims and
// fewer than 2^31 elements, and constants are as large as their tensors. Throws a Failure if the blob is damaged.
Graph read_blob(edgecore_bytes blob, const backend::Host &host);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_BLOB_H_
