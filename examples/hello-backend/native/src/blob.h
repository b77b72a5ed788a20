// The blob that src/edgecore_hello/blob.py writes, checked: whatever the bytes are, a Graph that comes out can be run.
#ifndef EDGECORE_HELLO_BLOB_H_
#define EDGECORE_HELLO_BLOB_H_

#include <cstdint>
#include <vector>

#include "edgecore/backend.hpp"

namespace edgecore_hello {

constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxRank = 8;

enum class Op : uint32_t { kAdd = 0, kMul = 1, kRelu = 2 };

struct Shape {
  uint32_t rank = 0;
  int64_t sizes[kMaxRank] = {};
};

struct Constant {
  Shape shape;
  std::vector<float> data;
};

// Values are numbered: inputs, constants, then the result of each node. A node reads values with lower numbers only.
struct Node {
  Op op;
  bool clamp;            // a relu follows
  uint32_t operands[2];  // of a unary operator both are the same
};

struct Graph {
  std::vector<uint32_t> input_ranks;
  std::vector<Constant> constants;
  std::vector<Node> nodes;
  std::vector<uint32_t> outputs;  // values; each is the result of another node

  uint32_t first_constant() const { return static_cast<uint32_t>(input_ranks.size()); }
  uint32_t first_node() const { return first_constant() + static_cast<uint32_t>(constants.size()); }
};

// Throws edgecore::backend::Failure with a sentence if the bytes are no blob of this version.
Graph read_blob(edgecore_bytes blob);

}  // namespace edgecore_hello

#endif  // EDGECORE_HELLO_BLOB_H_
