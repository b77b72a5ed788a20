// The delegate runs the nodes of a blob one after the other, each on the host's threads. Replace this code by calls of
// your driver or library: open it in Driver, compile or upload the blob in Delegate, run in Instance::execute.
#include <algorithm>
#include <utility>

#include "blob.h"
#include "edgecore/backend.hpp"

#ifndef EDGECORE_HELLO_VERSION
#define EDGECORE_HELLO_VERSION "0"
#endif

namespace edgecore::hello {
namespace {

using edgecore::backend::Arguments;
using edgecore::backend::Event;
using edgecore::backend::fail;
using edgecore::backend::Host;
using edgecore::backend::Memory;
using edgecore::backend::Options;

constexpr uint64_t kMaxElements = uint64_t{1} << 40;
constexpr const char *kNames[] = {"add", "mul", "relu"};

uint64_t elements(const Shape &shape) {
  uint64_t count = 1;
  for (uint32_t d = 0; d < shape.rank; ++d) {
    const auto size = static_cast<uint64_t>(shape.sizes[d]);
    if (size != 0 && count > kMaxElements / size) fail(EDGECORE_NOT_SUPPORTED, "a tensor has too many elements");
    count *= size;
  }
  return count;
}

// Broadcasts two shapes as PyTorch does: dims are aligned at the end, and a dim of size 1 is repeated.
Shape broadcast(const Shape &a, const Shape &b, size_t node) {
  Shape result;
  result.rank = std::max(a.rank, b.rank);
  for (uint32_t d = 0; d < result.rank; ++d) {
    const int64_t left = d + a.rank < result.rank ? 1 : a.sizes[d + a.rank - result.rank];
    const int64_t right = d + b.rank < result.rank ? 1 : b.sizes[d + b.rank - result.rank];
    if (left != right && left != 1 && right != 1) {
      fail(EDGECORE_INVALID_ARGUMENT, "node %zu: sizes %lld and %lld of its operands do not match", node,
           static_cast<long long>(left), static_cast<long long>(right));
    }
    result.sizes[d] = left == 1 ? right : left;
  }
  return result;
}

// Computes the strides of an operand for each dim of the result, in elements; 0 for a dim that is broadcast.
void strides_of(const Shape &operand, const Shape &result, int64_t *out) {
  int64_t stride = 1;
  for (uint32_t d = result.rank; d-- > 0;) {
    const bool has_dim = d + operand.rank >= result.rank;
    const int64_t size = has_dim ? operand.sizes[d + operand.rank - result.rank] : 1;
    out[d] = size == 1 ? 0 : stride;
    stride *= size;
  }
}

struct Operand {
  const float *data;
  int64_t strides[kMaxRank];
};

// Computes the elements [begin, end) of a node's result.
template <typename Function>
void compute(const Shape &shape, const Operand &a, const Operand &b, float *out, uint64_t begin, uint64_t end,
             const Function &function) {
  int64_t index[kMaxRank] = {}, at_a = 0, at_b = 0;
  uint64_t rest = begin;
  for (uint32_t d = shape.rank; d-- > 0;) {
    const auto size = static_cast<uint64_t>(shape.sizes[d]);
    index[d] = static_cast<int64_t>(rest % size);
    rest /= size;
    at_a += index[d] * a.strides[d];
    at_b += index[d] * b.strides[d];
  }
  for (uint64_t i = begin; i < end; ++i) {
    out[i] = function(a.data[at_a], b.data[at_b]);
    for (uint32_t d = shape.rank; d-- > 0;) {
      at_a += a.strides[d];
      at_b += b.strides[d];
      if (++index[d] < shape.sizes[d]) break;
      at_a -= shape.sizes[d] * a.strides[d];
      at_b -= shape.sizes[d] * b.strides[d];
      index[d] = 0;
    }
  }
}

float relu(float x) { return x < 0 ? 0 : x; }  // returns NaN for NaN, as PyTorch does

// --- The four handles ------------------------------------------------------------------------------------------------

// One object per process. Open your driver or device here.
struct Driver {
  explicit Driver(const Host &) {}

  // `compatibility` is the string that lowering.py wrote into the file.
  int32_t check_compatibility(std::string_view compatibility) const {
    const std::string format = "hello-blob " + std::to_string(kVersion);
    return edgecore::backend::check_format(compatibility, format, "edgecore-hello");
  }
};

// One object per loaded file, with its options.
struct Program {
  Program(Driver &, const Host &, const Options &options) : grain(options.integer("grain", 4096)) {
    if (grain < 1) fail(EDGECORE_INVALID_ARGUMENT, "option grain is %lld; it must be at least 1", (long long)grain);
  }
  int64_t grain;
};

// One object per blob.
struct Delegate {
  Delegate(Program &program, const Host &, const edgecore_delegate_info &info)
      : grain(static_cast<uint64_t>(program.grain)), graph(read_blob(info.blob)) {
    info.release_blob(info.scope);  // read_blob has copied all data that the graph needs
  }
  uint64_t argument_count() const noexcept { return graph.input_ranks.size() + graph.outputs.size(); }

  uint64_t grain;
  Graph graph;
};

// One object per method: the shapes of the last `prepare`, and the address of each value.
class Instance {
 public:
  Instance(Delegate &delegate, const Host &host) : delegate_(delegate), graph_(delegate.graph), host_(host) {
    output_of_.resize(graph_.nodes.size(), kNone);
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      output_of_[graph_.outputs[i] - graph_.first_node()] = graph_.input_ranks.size() + i;
    }
  }

  std::vector<edgecore_memory_need> prepare(const Arguments &args) {
    prepared_ = false;
    shapes_.clear();
    for (size_t i = 0; i < graph_.input_ranks.size(); ++i) shapes_.push_back(shape_of(args, i, graph_.input_ranks[i]));
    for (const Constant &constant : graph_.constants) shapes_.push_back(constant.shape);
    offsets_.assign(graph_.nodes.size(), 0);
    uint64_t bytes = 0;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node &node = graph_.nodes[i];
      shapes_.push_back(broadcast(shapes_[node.operands[0]], shapes_[node.operands[1]], i));
      const Shape &shape = shapes_.back();
      const uint64_t size = elements(shape) * sizeof(float);
      if (output_of_[i] != kNone) {
        shape_of(args, output_of_[i], shape.rank);
        args.resize(output_of_[i], shape.sizes, static_cast<int32_t>(shape.rank));
        continue;
      }
      offsets_[i] = bytes;
      bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
      if (bytes > kMaxElements) fail(EDGECORE_NOT_SUPPORTED, "the intermediate values need too much memory");
    }
    values_.resize(shapes_.size());
    prepared_ = true;
    if (bytes == 0) return {};
    return {edgecore::backend::memory_need(EDGECORE_MEMORY_SCRATCH, bytes, kAlignment)};
  }

  void execute(const Arguments &args, const Memory &memory) {
    if (!prepared_) fail(EDGECORE_INVALID_STATE, "execute without a successful prepare before");
    for (size_t i = 0; i < graph_.input_ranks.size(); ++i) values_[i] = args.data<const float>(i);
    for (size_t i = 0; i < graph_.constants.size(); ++i) {
      values_[graph_.first_constant() + i] = graph_.constants[i].data.data();
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Event event(host_, kNames[static_cast<size_t>(graph_.nodes[i].op)], static_cast<int64_t>(i));
      const size_t output = output_of_[i];
      float *out = output != kNone ? args.data<float>(output)
                                   : reinterpret_cast<float *>(static_cast<char *>(memory[0]) + offsets_[i]);
      run(graph_.nodes[i], shapes_[graph_.first_node() + i], out);
      values_[graph_.first_node() + i] = out;
    }
  }

 private:
  static constexpr size_t kNone = ~size_t{0};
  static constexpr uint64_t kAlignment = 16;

  static Shape shape_of(const Arguments &args, size_t index, uint32_t rank) {
    const edgecore_tensor &tensor = args.tensor(index, EDGECORE_DL_FLOAT, 32, static_cast<int32_t>(rank));
    Shape shape;
    shape.rank = rank;
    std::copy_n(tensor.dl.shape, rank, shape.sizes);
    return shape;
  }

  void run(const Node &node, const Shape &shape, float *out) const {
    if (elements(shape) == 0) return;
    Operand a{values_[node.operands[0]], {}}, b{values_[node.operands[1]], {}};
    strides_of(shapes_[node.operands[0]], shape, a.strides);
    strides_of(shapes_[node.operands[1]], shape, b.strides);
    const auto parallel = [&](const auto &function) {
      host_.parallel_for(elements(shape), delegate_.grain, [&](uint64_t begin, uint64_t end, uint32_t) {
        compute(shape, a, b, out, begin, end, function);
      });
    };
    const bool clamp = node.clamp;
    switch (node.op) {
      case Op::kAdd:
        return parallel([clamp](float x, float y) { return clamp ? relu(x + y) : x + y; });
      case Op::kMul:
        return parallel([clamp](float x, float y) { return clamp ? relu(x * y) : x * y; });
      case Op::kRelu:
        return parallel([](float x, float) { return relu(x); });
    }
  }

  const Delegate &delegate_;
  const Graph &graph_;
  Host host_;
  std::vector<size_t> output_of_;      // for each node: index of the argument for its result, or kNone
  std::vector<Shape> shapes_;          // for each value
  std::vector<uint64_t> offsets_;      // for each node: offset of its result in the scratch memory, in bytes
  std::vector<const float *> values_;  // for each value: its elements
  bool prepared_ = false;
};

}  // namespace
}  // namespace edgecore::hello

extern "C" EDGECORE_BACKEND(hello) {
  using namespace edgecore::hello;
  static const edgecore_option_spec options[] = {edgecore::backend::option(
      "grain", EDGECORE_OPTION_INT, EDGECORE_OPTION_AT_LOAD, "Min number of elements for a thread at a time.")};
  static const edgecore_backend table = edgecore::backend::make_table<Driver, Program, Delegate, Instance>(
      {"HelloBackend", "edgecore-hello", EDGECORE_HELLO_VERSION, EDGECORE_HOST_THREADS | EDGECORE_VALIDATES_BLOBS},
      options);
  return &table;
}
