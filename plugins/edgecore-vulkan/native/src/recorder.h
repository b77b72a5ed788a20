// Converts the operator calls of a graph to dispatches of shaders (a recording), for the sizes of one prepare().
#ifndef EDGECORE_VULKAN_RECORDER_H_
#define EDGECORE_VULKAN_RECORDER_H_

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "blob.h"
#include "recording.h"
#include "shader_device.h"
#include "tensor.h"

namespace edgecore::vulkan {

// The constants of a loaded file on the device, each in the arrangements that operators need. Thread-safe.
class Weights {
 public:
  explicit Weights(Device &device) : device_(device) {}
  // Returns the buffer with this key. If the buffer is new, it is filled with zeros, and `write` then sets its bytes.
  const Buffer &get(const std::string &key, uint64_t bytes, const std::function<void(uint8_t *memory)> &write);

 private:
  Device &device_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Buffer>> buffers_;
};

// The memory of the session's state buffers, by the index of the value in the graph.
using StateBuffers = std::map<uint32_t, const Buffer *>;

// Records the dispatches of one graph. The tensor of a value is created at the first write to the value, or at the
// first read of a constant. Most members implement the member of Call with the same name; they name a value by its
// index in the graph.
class Recorder {
 public:
  Recorder(const Graph &graph, ShaderDevice &device, Weights &weights, const StateBuffers &states);
  Recording run(const std::vector<ArgumentFormat> &formats, const std::vector<Layout> &output_layouts,
                const std::vector<int64_t> &symbolic_sizes);
  const Graph &graph() const { return graph_; }
  uint32_t current() const { return current_; }
  int64_t integer(uint32_t number) const { return integers_[number]; }
  void set_integer(uint32_t number, int64_t value) { integers_[number] = value; }
  // Returns the dtype on the device of the tensor with this index.
  Dtype dtype_of(uint32_t number) const {
    return is_int8_[number] ? Dtype::kInt8 : device_dtype(graph_.values[number].type);
  }
  Tensor tensor(uint32_t number);
  Tensor tensor_as_given(uint32_t number) { return is_given_[number] ? tensors_[number] : tensor(number); }
  Tensor packed(uint32_t number, const std::string &form, int64_t elements,
                const std::function<void(const float *, float *)> &pack, std::optional<Dtype> dtype);
  Tensor packed_words(uint32_t number, const std::string &form, int64_t words,
                      const std::function<void(const uint8_t *, uint32_t *)> &pack);
  Tensor output(uint32_t number, const Shape &shape);
  void check_output(uint32_t number, const Shape &shape) const;
  std::optional<Tensor> addend_of(uint32_t number, const Shape &shape);
  Tensor output_of_sum(const Shape &shape);
  Tensor make(uint32_t number, const Tensor &tensor);
  bool is_output(uint32_t number) const { return is_output_[number]; }
  bool is_state(uint32_t number) const;
  void bind_state(uint32_t number);
  Tensor temporary(Dtype dtype, const Shape &shape);
  void dispatch(Dispatch dispatch);
  ShaderDevice &device() { return device_; }

 private:
  struct Sum {
    std::array<uint32_t, 2> operands;
    uint32_t result;
  };

  // Finds tensors of 8-bit integers that can be stored in 8 bits, because all calls that use them support this.
  void find_int8();

  // Returns the operands and the result of the next call if that call is an addition of two tensors.
  std::optional<Sum> next_sum() const;

  // Counts, for each value, the calls, lists and outputs that refer to it, including the call that writes it.
  void count_uses();
  std::string key_of(const Value &value, const std::string &form) const;
  uint32_t add(Storage storage);

  // Returns the size of a tensor's memory. Throws a Failure if the device does not support tensors of this size.
  uint64_t checked_bytes(Dtype dtype, int64_t elements) const;
  uint32_t add_storage(const Tensor &tensor);
  uint32_t add_constant(const std::string &key, const Tensor &tensor,
                        const std::function<void(uint8_t *memory)> &write);
  Tensor add_argument(uint32_t argument, Dtype dtype, Layout layout, const Shape &shape);
  void add_input(size_t index, const ArgumentFormat &format, int64_t symbolic_size);

  // Converts an input to the dtype and layout that the graph declares, when the first operator needs this.
  void convert_input(uint32_t number);
  void add_output(size_t index, Layout layout);

  static const OperatorCall kBorder;  // a call without arguments, for copies of the delegate's arguments

  const Graph &graph_;
  ShaderDevice &device_;
  Weights &weights_;
  const StateBuffers &states_;
  Recording recording_;
  std::vector<Tensor> tensors_;
  std::vector<bool> is_made_;
  std::vector<bool> is_given_;  // true for an input that still has the caller's dtype and layout
  std::vector<bool> is_output_;
  std::vector<bool> is_int8_;  // true for a tensor that is stored in 8 bits
  std::vector<int64_t> integers_;
  std::vector<uint32_t> uses_;
  uint32_t current_ = 0;
  bool is_done_ = false;  // true if the previous call has also computed the next call's result
};

// Returns the dispatches that compute a graph for the shapes of its inputs. `formats` are the dtypes, layouts and
// shapes of the inputs, `output_layouts` are the layouts in which the caller expects the outputs. `symbolic_sizes` has
// a number for each input, which is read only if the input is a symbolic integer.
Recording record(const Graph &graph, ShaderDevice &device, Weights &weights, const StateBuffers &states,
                 const std::vector<ArgumentFormat> &formats, const std::vector<Layout> &output_layouts,
                 const std::vector<int64_t> &symbolic_sizes);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_RECORDER_H_
