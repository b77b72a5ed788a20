// Builds and runs small XNNPACK graphs whose inputs, outputs and constants are between guard pages.
#ifndef EDGECORE_XNNPACK_TRIAL_TEST_GRAPH_H_
#define EDGECORE_XNNPACK_TRIAL_TEST_GRAPH_H_

#include <xnnpack.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trial/guarded.h"

namespace edgecore::xnnpack::trial {

using Dims = std::vector<size_t>;

size_t element_count(const Dims &dims);
std::string shape_text(const Dims &dims);

// A tensor of a test graph: its type, shape and quantization, and the elements in `bytes`. `bytes` is empty for an
// output before a run, and for an intermediate value.
struct Tensor {
  xnn_datatype type = xnn_datatype_fp32;
  Dims dims;
  float scale = 1;            // scale of qint8, quint8 and qint32
  int32_t zero = 0;           // zero point of qint8, quint8, qint32 and 4-bit weights
  size_t channel_dim = 0;     // index of the dim along which each channel (or each block of a channel) has a scale
  std::vector<float> scales;  // scales of the channels of qcint8, qcint32 and qcint4
  std::vector<uint16_t> block_scales;  // qbint4: scales as bf16, [channels, blocks]
  size_t block = 0;                    // qbint4: number of elements in a block
  size_t nonbatch_dims = 0;            // qdint8: number of trailing dims that share a scale and zero point
  std::vector<uint8_t> bytes;

  // Returns the elements as real numbers, dequantized. Supports fp32, fp16, int32, qint8 and quint8.
  std::vector<double> numbers() const;
  // Stores real numbers: quantizes them for qint8 and quint8, otherwise rounds them to the tensor's type.
  void set(const std::vector<double> &numbers);
};

Tensor fp32_tensor(Dims dims);
Tensor fp16_tensor(Dims dims);
Tensor quantized_tensor(xnn_datatype type, Dims dims, float scale, int32_t zero);

double round_to_fp16(double number);

// An XNNPACK graph for tests. Keeps the first error status of all calls; build() and run() then return false, so that
// callers need not check the calls that define the graph.
class TestGraph {
 public:
  TestGraph();
  TestGraph(const TestGraph &) = delete;
  TestGraph &operator=(const TestGraph &) = delete;
  ~TestGraph();

  uint32_t input(const Tensor &tensor) { return external(tensor, XNN_VALUE_FLAG_EXTERNAL_INPUT, true); }
  // Adds an output of the graph. If `is_read_back`, a kernel reads the output back in whole vectors, so readable bytes
  // follow the output, as in the delegate (kernels_read_past_end).
  uint32_t output(const Tensor &tensor, bool is_read_back = false) {
    return external(tensor, XNN_VALUE_FLAG_EXTERNAL_OUTPUT, is_read_back);
  }
  uint32_t internal(const Tensor &tensor) { return define(tensor, nullptr, XNN_INVALID_VALUE_ID, 0); }
  uint32_t constant(const Tensor &tensor);
  xnn_subgraph_t subgraph() const { return subgraph_; }
  // Records the status of an xnn_define_* call for a node.
  void node(xnn_status status) { note(status); }

  // Creates the XNNPACK runtime of the graph. Returns false if this or an earlier call failed; see status().
  bool build();
  xnn_status status() const { return status_; }

  // Runs the graph. `inputs` and `outputs` are in the order of their definitions. Inputs may have other shapes than in
  // their definitions. Sets the shapes and bytes of outputs. Odd calls place buffers right after a guard page, even
  // calls right before one, so that two runs detect accesses on both sides. Returns false on failure.
  bool run(const std::vector<const Tensor *> &inputs, const std::vector<Tensor *> &outputs);

 private:
  uint32_t external(const Tensor &tensor, uint32_t flag, bool is_padded);
  uint32_t define(const Tensor &tensor, const void *data, uint32_t external, uint32_t flags);
  void note(xnn_status status);

  struct Argument {
    bool is_input;
    bool is_padded;
    std::unique_ptr<GuardedMemory> memory;
  };

  xnn_subgraph_t subgraph_ = nullptr;
  xnn_runtime_t runtime_ = nullptr;
  xnn_status status_ = xnn_status_success;
  std::vector<Argument> arguments_;
  std::vector<std::unique_ptr<GuardedMemory>> constants_;
  bool at_start_ = false;  // true if the last run placed buffers right after a guard page
};

}  // namespace edgecore::xnnpack::trial

#endif  // EDGECORE_XNNPACK_TRIAL_TEST_GRAPH_H_
