// Reads and checks the blob that src/edgecore_hello/blob.py writes. Every Graph that read_blob returns can be run.
#ifndef EDGECORE_HELLO_BLOB_H_
#define EDGECORE_HELLO_BLOB_H_

#include <cstdint>
#include <vector>

#include "edgecore/backend.hpp"

namespace edgecore::hello {

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

// Values are numbered: first inputs, then constants, then the result of each node. A node reads only values with lower
// numbers than its result.
struct Node {
  Op op;
  bool clamp;            // apply relu to the result
  uint32_t operands[2];  // a unary operator has its operand twice
};

struct Graph {
  std::vector<uint32_t> input_ranks;
  std::vector<Constant> constants;
  std::vector<Node> nodes;
  std::vector<uint32_t> outputs;  // numbers of values, each the result of another node

  uint32_t first_constant() const { return static_cast<uint32_t>(input_ranks.size()); }
  uint32_t first_node() const { return first_constant() + static_cast<uint32_t>(constants.size()); }
};

// Throws edgecore::backend::Failure if the bytes are not a blob of this version, or damaged.
Graph read_blob(edgecore_bytes blob);

}  // namespace edgecore::hello

#endif  // EDGECORE_HELLO_BLOB_H_
