// The graph of a blob as plain data: blob.cpp reads the graph, check.cpp checks it, build.cpp defines it in XNNPACK.
// Values and nodes have the same order as in the blob. After check_graph, nodes refer to values by their index in
// Graph::values.
#ifndef EDGECORE_XNNPACK_GRAPH_H_
#define EDGECORE_XNNPACK_GRAPH_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "edgecore/abi.h"
#include "shape.h"

namespace edgecore::xnnpack {

constexpr uint32_t kNone = UINT32_MAX;
// Readable bytes after an array; XNNPACK's kernels read at most 32 bytes past its end.
constexpr uint64_t kOverread = 64;

using Copies = std::vector<std::unique_ptr<uint8_t[]>>;

// Allocates `bytes` bytes, aligned to 64 and followed by kOverread bytes that kernels may read. `copies` owns the
// memory. Throws std::bad_alloc.
uint8_t *allocate_copy(uint64_t bytes, Copies *copies);

constexpr uint32_t kMaxArguments = 4096;

// The data types of values, with their numbers in the blob's flatbuffer, which differ from the numbers of xnn_datatype.
enum class Type : uint8_t {
  kInvalid = 0,
  kFp32 = 1,
  kFp16 = 2,
  kQint8 = 3,
  kQuint8 = 4,
  kQint32 = 5,
  kQcint8 = 6,
  kQcint32 = 7,
  kQcint4 = 8,
  kQdint8 = 9,
  kQbint4 = 10,
  kQpint8 = 11,
  kInt32 = 12,
  kPfp32 = 13,
  kBf16 = 14,
  kInt64 = 15,  // type of the positions to which a CacheUpdate writes; XNNPACK has no such type
};

const char *type_name(Type type);
uint32_t type_bits(Type type);  // bits of one element

inline bool is_quantized8(Type type) { return type == Type::kQint8 || type == Type::kQuint8; }
inline bool is_float(Type type) { return type == Type::kFp32 || type == Type::kFp16; }

struct Quantization {
  float scale = 0;
  int32_t zero_point = 0;
  uint32_t channel_dim = 0;
  uint32_t group_size = 0;                 // qbint4: number of input channels that share a scale
  uint32_t nonbatch_dims = 0;              // qdint8: number of trailing dims that share a scale and a zero point
  const float *scales = nullptr;           // scales of the channels; the graph owns the memory
  const uint16_t *group_scales = nullptr;  // qbint4: bf16 scales of the groups of inputs; the graph owns the memory
};

enum class Role : uint8_t { kInternal, kConstant, kInput, kOutput, kState };

struct Value {
  uint32_t id = 0;  // the value's id in the blob
  Type type = Type::kInvalid;
  Role role = Role::kInternal;
  uint32_t argument = kNone;  // inputs and outputs: index among the arguments of a call; otherwise kNone
  Shape shape;                // the shape in the blob; sizes in memory order, the outermost dim first
  Quantization quantization;
  const void *data = nullptr;  // constants: address of `bytes` bytes, at any alignment; otherwise null
  bool widens = false;         // true for an fp16 constant that is converted to fp32 for XNNPACK
  uint64_t bytes = 0;
  uint32_t last_use = 0;  // index of the last node that reads the value; not for inputs and outputs, which always live

  // For a state: its index in Graph::states. For the output of a CacheUpdate: the index of the updated state, whose
  // memory it shares. For other values: kNone.
  uint32_t state = kNone;
};

// A mutable buffer of the model whose content the delegate keeps between runs.
struct State {
  uint32_t value = kNone;                 // index in Graph::values
  std::string name;                       // qualified name of the buffer in the model, such as "layers.0.cache"
  edgecore_bytes initial = {nullptr, 0};  // initial content of the state; zeros if it is empty
};

// The window of a convolution or pooling.
struct Window {
  uint32_t top = 0, right = 0, bottom = 0, left = 0;  // padding of the input
  uint32_t height = 0, width = 0;                     // kernel size
  uint32_t stride_height = 1, stride_width = 1;
  uint32_t dilation_height = 1, dilation_width = 1;
  uint32_t adjustment_height = 0, adjustment_width = 0;  // transposed convolution: additional output rows and columns
};

struct NodeKind;

struct Node {
  const NodeKind *kind = nullptr;
  uint32_t index = 0;
  uint32_t debug_id = 0;  // the compiler's debug handle
  uint32_t input_count = 0;
  std::array<uint32_t, 5> in = {kNone, kNone, kNone, kNone, kNone};  // indices of input values; kNone: an absent bias
  std::array<uint32_t, 2> out = {kNone, kNone};
  uint32_t flags = 0;
  float min = 0, max = 0;  // output range, to which results are clamped; infinite if the node has none
  float number = 0;        // alpha of an ELU, slope of a leaky ReLU, or padding value
  Window window;
  uint32_t groups = 0, group_inputs = 0, group_outputs = 0;
  uint32_t axis = 0;
  // Numbers whose meaning depends on the kind of node: the permutation of a transpose, the new shape of a reshape, the
  // offsets of a slice, the padding before each dim, or the new image size of a resize.
  Shape first;
  Shape second;  // depends on the kind of node: sizes of a slice, or padding after each dim
};

// Returns true for values whose type XNNPACK supports.
inline bool is_in_xnnpack(const Value &value) { return value.type != Type::kInt64; }

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  // For each argument of a call, the index of its value; kNone: the delegate does not use it.
  std::vector<uint32_t> externals;
  std::vector<State> states;
  Copies owned;  // memory of scales, and of constants converted to fp32
};

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_GRAPH_H_
