// Small XNNPACK graphs whose inputs, outputs and constants lie between guard pages.
#ifndef EDGECORE_XNNPACK_TRIAL_NET_H_
#define EDGECORE_XNNPACK_TRIAL_NET_H_

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

// A value of a graph. `bytes` is empty for one that is only declared.
struct Tensor {
  xnn_datatype type = xnn_datatype_fp32;
  Dims dims;
  float scale = 1;                     // qint8, quint8, qint32
  int32_t zero = 0;                    // of these, and of 4-bit weights
  size_t channel_dim = 0;              // of the following
  std::vector<float> scales;           // qcint8, qcint32, qcint4
  std::vector<uint16_t> block_scales;  // qbint4: bfloat16, [channels, blocks]
  size_t block = 0;
  size_t nonbatch_dims = 0;  // qdint8
  std::vector<uint8_t> bytes;

  // Elements as numbers that they stand for, not as they are stored: fp32, fp16, int32, qint8, quint8.
  std::vector<double> numbers() const;
  // Stores numbers: rounded to the type, and for quantized types divided by the scale and moved by the zero point.
  void set(const std::vector<double> &numbers);
};

Tensor float32_tensor(Dims dims);
Tensor float16_tensor(Dims dims);
Tensor quantized_tensor(xnn_datatype type, Dims dims, float scale, int32_t zero);

double round_to_half(double number);

class Net {
 public:
  Net();
  Net(const Net &) = delete;
  Net &operator=(const Net &) = delete;
  ~Net();

  uint32_t input(const Tensor &tensor) { return external(tensor, XNN_VALUE_FLAG_EXTERNAL_INPUT, true); }
  // `is_read_back`: memory after it may be read, too, as the delegate asks for where a kernel reads what it wrote.
  uint32_t output(const Tensor &tensor, bool is_read_back = false) {
    return external(tensor, XNN_VALUE_FLAG_EXTERNAL_OUTPUT, is_read_back);
  }
  uint32_t internal(const Tensor &tensor) { return define(tensor, nullptr, XNN_INVALID_VALUE_ID, 0); }
  uint32_t constant(const Tensor &tensor);
  xnn_subgraph_t subgraph() const { return subgraph_; }
  // Notes the status of xnn_define_...
  void node(xnn_status status) { note(status); }

  // Makes a runtime of the graph. False if XNNPACK refused the graph or anything before; status() says how.
  bool build();
  xnn_status status() const { return status_; }

  // Runs it. `inputs` and `outputs` are in the order of their definitions. Inputs may have other dims than at their
  // definition; outputs get theirs, and their bytes. Every other call places buffers at their pages' start.
  bool run(const std::vector<const Tensor *> &inputs, const std::vector<Tensor *> &outputs);

 private:
  uint32_t external(const Tensor &tensor, uint32_t flag, bool is_padded);
  uint32_t define(const Tensor &tensor, const void *data, uint32_t external, uint32_t flags);
  void note(xnn_status status);

  struct Argument {
    bool is_input;
    bool is_padded;
    std::unique_ptr<Guarded> memory;
  };

  xnn_subgraph_t subgraph_ = nullptr;
  xnn_runtime_t runtime_ = nullptr;
  xnn_status status_ = xnn_status_success;
  std::vector<Argument> arguments_;
  std::vector<std::unique_ptr<Guarded>> constants_;
  bool at_start_ = false;
};

}  // namespace edgecore::xnnpack::trial

#endif  // EDGECORE_XNNPACK_TRIAL_NET_H_
