#include "blob.h"

#include <cstring>

namespace edgecore_hello {
namespace {

using edgecore::backend::fail;

constexpr char kMagic[8] = {'H', 'E', 'L', 'L', 'O', 0, 0, 0};

[[noreturn]] void refuse(const char *what, uint32_t index) {
  fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the blob is damaged: %s %u", what, index);
}

// Reads little-endian numbers; past the end it throws.
class Reader {
 public:
  explicit Reader(edgecore_bytes bytes) : bytes_(bytes) {}

  const uint8_t *take(uint64_t size) {
    if (size > bytes_.size - position_) {
      fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the blob is damaged: its %llu bytes end too early",
           static_cast<unsigned long long>(bytes_.size));
    }
    const uint8_t *found = bytes_.data + position_;
    position_ += size;
    return found;
  }
  uint32_t u32() {
    const uint8_t *b = take(4);
    return b[0] | uint32_t{b[1]} << 8 | uint32_t{b[2]} << 16 | uint32_t{b[3]} << 24;
  }
  // The number of records of `size` bytes that follow: so many fit into the rest of the blob.
  uint32_t count(const char *what, uint64_t size) {
    const uint32_t found = u32();
    if (found > bytes_.size / size) refuse(what, found);
    return found;
  }
  uint64_t left() const { return bytes_.size - position_; }

 private:
  edgecore_bytes bytes_;
  uint64_t position_ = 0;
};

Constant read_constant(Reader &reader, uint32_t index) {
  Constant constant;
  constant.shape.rank = reader.u32();
  if (constant.shape.rank > kMaxRank) refuse("the rank of constant", index);
  uint64_t elements = 1;
  for (uint32_t d = 0; d < constant.shape.rank; ++d) {
    const uint32_t size = reader.u32();
    constant.shape.sizes[d] = size;
    // More than all that is left means a damaged size, and the product stays within 64 bits.
    if (size != 0 && elements > reader.left() / size) refuse("the shape of constant", index);
    elements *= size;
  }
  const uint8_t *data = reader.take(elements * sizeof(float));
  constant.data.resize(elements);
  if (elements != 0) std::memcpy(constant.data.data(), data, elements * sizeof(float));
  return constant;
}

}  // namespace

Graph read_blob(edgecore_bytes blob) {
  Reader reader(blob);
  if (blob.size < sizeof(kMagic) || std::memcmp(reader.take(sizeof(kMagic)), kMagic, sizeof(kMagic)) != 0) {
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the blob was not written by edgecore-hello");
  }
  const uint32_t version = reader.u32();
  if (version != kVersion) {
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
         "the blob has version %u and this edgecore-hello reads version %u: install the release that compiled it",
         version, kVersion);
  }
  const uint32_t inputs = reader.count("the number of inputs", 4);
  const uint32_t constants = reader.count("the number of constants", 4);
  const uint32_t nodes = reader.count("the number of nodes", 16);
  const uint32_t outputs = reader.count("the number of outputs", 4);

  Graph graph;
  for (uint32_t i = 0; i < inputs; ++i) {
    graph.input_ranks.push_back(reader.u32());
    if (graph.input_ranks.back() > kMaxRank) refuse("the rank of input", i);
  }
  for (uint32_t i = 0; i < constants; ++i) graph.constants.push_back(read_constant(reader, i));
  for (uint32_t i = 0; i < nodes; ++i) {
    const uint32_t op = reader.u32(), clamp = reader.u32(), first = reader.u32(), second = reader.u32();
    const uint32_t known = graph.first_node() + i;
    if (op > static_cast<uint32_t>(Op::kRelu) || clamp > 1) refuse("the operator of node", i);
    if (first >= known || second >= known) refuse("the operands of node", i);
    graph.nodes.push_back({static_cast<Op>(op), clamp == 1, {first, second}});
  }
  std::vector<bool> written(nodes);
  for (uint32_t i = 0; i < outputs; ++i) {
    const uint32_t value = reader.u32();
    if (value < graph.first_node() || value - graph.first_node() >= nodes) refuse("the value of output", i);
    if (written[value - graph.first_node()]) refuse("a value that is output before, too: output", i);
    written[value - graph.first_node()] = true;
    graph.outputs.push_back(value);
  }
  if (reader.left() != 0) {
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the blob is damaged: %llu bytes follow its end",
         static_cast<unsigned long long>(reader.left()));
  }
  return graph;
}

}  // namespace edgecore_hello
