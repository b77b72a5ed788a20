// One operator call, for the functions in ops/: its arguments, its results, and the dispatches that it adds.
#ifndef EDGECORE_VULKAN_CALL_H_
#define EDGECORE_VULKAN_CALL_H_

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "blob.h"
#include "shader_device.h"
#include "tensor.h"

namespace edgecore::vulkan {

class Recorder;

// One operator call with its arguments. A member that reads an argument of the wrong kind throws a Failure that names
// the call.
class Call {
 public:
  Call(Recorder &recorder, const OperatorCall &call) : recorder_(recorder), call_(call) {}

  const std::string &name() const { return call_.name; }
  const ShaderDevice &device() const;
  size_t size() const { return call_.args.size(); }
  size_t last() const { return call_.args.size() - 1; }
  bool is_none(size_t index) const;
  bool is_tensor(size_t index) const;
  bool is_constant(size_t index) const;
  Tensor tensor(size_t index) const;
  // Like tensor(), but returns an input of the graph without a conversion: in any layout, and in fp32 where the graph
  // says fp16. Saves a copy if an operator can read it.
  Tensor tensor_as_given(size_t index) const;
  std::vector<Tensor> tensors(size_t index) const;
  int64_t integer(size_t index) const;
  double number(size_t index) const;
  const std::string &text(size_t index) const;
  // Returns `otherwise` if the argument is absent.
  double number_or(size_t index, double otherwise) const;
  std::vector<int64_t> integers(size_t index) const;
  // Returns the numbers for height and width from an argument with one or two numbers, each at least `min`.
  std::array<int64_t, 2> pair(size_t index, int64_t min) const;
  std::vector<double> numbers(size_t index) const;
  // Returns a dim argument; negative dims count from the end of a tensor of this rank.
  size_t dim(size_t index, size_t rank) const;

  // Returns the type of a tensor in the blob, which is more specific than its dtype on the device.
  DataType data_type(size_t index) const;
  // Returns the shape of a constant.
  const Shape &constant_shape(size_t index) const;
  // Returns a constant on the device in another form: `pack` computes `elements` floats from it. `form` identifies the
  // form and its parameters. Without `dtype` the result has the constant's dtype.
  Tensor packed(size_t index, const std::string &form, int64_t elements,
                const std::function<void(const float *source, float *packed)> &pack,
                std::optional<Dtype> dtype = std::nullopt) const;
  // Returns a constant of 8-bit integers on the device as `words` 32-bit words, which `pack` computes from its bytes,
  // because 8-bit storage is optional in Vulkan.
  Tensor packed_words(size_t index, const std::string &form, int64_t words,
                      const std::function<void(const uint8_t *source, uint32_t *packed)> &pack) const;

  // Declares the shape of a result and returns the tensor to write to. `item` is the position in a list of results.
  Tensor output(size_t index, const Shape &shape) const;
  Tensor output_of_list(size_t index, size_t item, const Shape &shape) const;
  // Returns the tensor that the next call adds to result `index`, if this call can compute the sum at once: nothing
  // else reads the result, and the tensor has the shape, the dtype and the order of both the result and the sum.
  std::optional<Tensor> addend_of(size_t index, const Shape &shape) const;
  // Declares the sum of the next call and returns the tensor to write to; the next call then does nothing.
  Tensor output_of_sum(const Shape &shape) const;
  size_t list_size(size_t index) const;
  // Makes a result share the memory of `source`, which has as many elements, in another shape; copies if that is
  // impossible.
  void alias(size_t index, const Tensor &source, const Shape &shape) const;
  // Makes a result share the memory of `source`, which the call has written.
  void share(size_t index, const Tensor &source) const;
  // Sets a symbolic integer for later calls.
  void set_integer(size_t index, int64_t value) const;
  // Makes the session's buffer that the first argument names the result of the call.
  void bind_state() const;
  bool is_state(size_t index) const;
  Tensor temporary(Dtype dtype, const Shape &shape) const;
  // Returns true if shaders with a variant for texel buffers should use it for this tensor of floats.
  bool prefers_texels(const Tensor &tensor) const;
  // Returns the number of threads of a subgroup if they can read each other's values, otherwise 1.
  uint32_t subgroup_size() const;
  // Returns a tensor for dispatch() that is read as a texel buffer with 1 or 4 elements per texel.
  static Tensor texels(Tensor tensor, uint32_t elements);

  // Throws a Failure if a device cannot run this many loop iterations in a thread, inner loops included.
  void check_iterations(int64_t iterations) const;

  // Adds a dispatch. The tensors are bound in the given order, written ones first. `constants` are the specialization
  // constants from id 3 on; `threads` the numbers of threads in x, y and z.
  void dispatch(const std::string &shader, std::vector<Tensor> written, std::vector<Tensor> read,
                std::vector<uint32_t> push, std::vector<uint32_t> threads,
                std::vector<uint32_t> local_size = {64, 1, 1}, std::vector<uint32_t> constants = {}) const;
  // Adds a dispatch with one thread for each of `threads` elements, for shaders that use flat_id(), in workgroups of
  // `local_size` threads.
  void dispatch_flat(const std::string &shader, std::vector<Tensor> written, std::vector<Tensor> read,
                     std::vector<uint32_t> push, int64_t threads, std::vector<uint32_t> constants = {},
                     uint32_t local_size = 64) const;
  // Copies elements; the tensors have equal shapes.
  void copy(const Tensor &from, const Tensor &to) const;
  // Copies `shape` elements between two tensors; strides and offsets are in elements.
  void copy_strided(const Tensor &from, const Shape &from_strides, int64_t from_offset, const Tensor &to,
                    const Shape &to_strides, int64_t to_offset, const Shape &shape) const;

  [[noreturn, gnu::format(printf, 2, 3)]] void damaged(const char *format, ...) const;
  [[noreturn, gnu::format(printf, 2, 3)]] void unsupported(const char *format, ...) const;

 private:
  const Value &value(size_t index) const;

  Recorder &recorder_;
  const OperatorCall &call_;
};

using Operator = void (*)(Call &);
// Returns the function that records an operator, or nullptr if there is none.
Operator find_operator(std::string_view name);
// Returns true if a function can read and write tensors of kInt8.
bool reads_int8(Operator function);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_CALL_H_
