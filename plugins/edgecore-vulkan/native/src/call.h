// The interface of one operator call for the functions in ops/: arguments, results, and dispatches.
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

// One operator call. Arguments are identified by their index. Reading an argument of the wrong kind throws a Failure
// with the call's name.
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
  // Like tensor(), but returns an input of the graph as the caller passed it: in any layout, and in fp32 even where the
  // graph says fp16. Saves a conversion if the operator's shader can read this layout and dtype.
  Tensor tensor_as_given(size_t index) const;
  std::vector<Tensor> tensors(size_t index) const;
  int64_t integer(size_t index) const;
  double number(size_t index) const;
  const std::string &text(size_t index) const;
  // Returns a number, or `otherwise` if the argument is absent.
  double number_or(size_t index, double otherwise) const;
  std::vector<int64_t> integers(size_t index) const;
  // Returns two numbers, for height and width, each at least `min`. If the argument has one number, it applies to both.
  std::array<int64_t, 2> pair(size_t index, int64_t min) const;
  std::vector<double> numbers(size_t index) const;
  // Returns the dim that an argument names; a negative dim counts from the end of a tensor with this rank.
  size_t dim(size_t index, size_t rank) const;

  // Returns the type that the blob declares for a tensor, such as int64, whose dtype on the device is a 32-bit integer.
  DataType data_type(size_t index) const;
  // Returns the shape of a constant, such as weights, in the blob.
  const Shape &constant_shape(size_t index) const;
  // Rearranges a constant, and returns it as a tensor on the device. `pack` computes the tensor's `elements` floats
  // from the constant's floats. `form` names the arrangement: a constant that is packed twice in the same form is
  // stored once. Without `dtype` the result has the constant's dtype.
  Tensor packed(size_t index, const std::string &form, int64_t elements,
                const std::function<void(const float *source, float *packed)> &pack,
                std::optional<Dtype> dtype = std::nullopt) const;
  // Rearranges a constant of 8-bit integers, and returns it as a tensor of `words` 32-bit words, because 8-bit storage
  // is optional in Vulkan. `pack` computes the words from the constant's bytes.
  Tensor packed_words(size_t index, const std::string &form, int64_t words,
                      const std::function<void(const uint8_t *source, uint32_t *packed)> &pack) const;

  // Declares the shape of a result and returns the tensor to write to. If the result is a list of tensors, `item` is an
  // index in the list.
  Tensor output(size_t index, const Shape &shape) const;
  Tensor output_of_list(size_t index, size_t item, const Shape &shape) const;
  // Returns the tensor that the next call adds to result `index`, so that this call's shader can compute the sum, too.
  // Returns nothing if the next call is not such an addition, if another call reads the result, or if tensor, result
  // and sum differ in shape, dtype or order.
  std::optional<Tensor> addend_of(size_t index, const Shape &shape) const;
  // Declares the result of the next call, the addition that addend_of() has found, and returns the tensor to write the
  // sum to. The recorder then skips the next call.
  Tensor output_of_sum(const Shape &shape) const;
  size_t list_size(size_t index) const;
  // Makes a result of another shape, but with the same number of elements, share the memory of `source`. Copies
  // `source` if the result needs the elements in another order.
  void alias(size_t index, const Tensor &source, const Shape &shape) const;
  // Makes a result share the memory of `source`, to which the call has written.
  void share(size_t index, const Tensor &source) const;
  // Sets the value of a symbolic integer, which later calls read.
  void set_integer(size_t index, int64_t value) const;
  // Binds the result of the call to the session's state buffer that the first argument names.
  void bind_state() const;
  bool is_state(size_t index) const;
  Tensor temporary(Dtype dtype, const Shape &shape) const;
  // Returns true if shaders that have a variant for texel buffers should read this float tensor as a texel buffer.
  bool prefers_texels(const Tensor &tensor) const;
  // Returns the number of threads in a subgroup, or 1 if threads of a subgroup cannot read each other's values
  // (shuffle).
  uint32_t subgroup_size() const;
  // Returns a copy of `tensor` that dispatch() binds as a texel buffer with 1 or 4 elements per texel.
  static Tensor texels(Tensor tensor, uint32_t elements);

  // Throws a Failure if the device cannot run this many loop iterations in one thread; iterations of inner loops count.
  void check_iterations(int64_t iterations) const;

  // Adds a dispatch of a shader. Binds the tensors `written`, then the tensors `read`. `constants` are the
  // specialization constants from id 3 on; `threads` are the numbers of threads in x, y and z.
  void dispatch(const std::string &shader, std::vector<Tensor> written, std::vector<Tensor> read,
                std::vector<uint32_t> push, std::vector<uint32_t> threads,
                std::vector<uint32_t> local_size = {64, 1, 1}, std::vector<uint32_t> constants = {}) const;
  // Adds a dispatch with one thread for each of `threads` elements, for shaders that use flat_id(), in workgroups of
  // `local_size` threads.
  void dispatch_flat(const std::string &shader, std::vector<Tensor> written, std::vector<Tensor> read,
                     std::vector<uint32_t> push, int64_t threads, std::vector<uint32_t> constants = {},
                     uint32_t local_size = 64) const;
  // Copies all elements; both tensors have the same shape.
  void copy(const Tensor &from, const Tensor &to) const;
  // Copies a block of elements of shape `shape` between two tensors; strides and offsets are in elements.
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
// Returns true if an operator supports tensors of the dtype kInt8, whose elements are stored in 8 bits.
bool reads_int8(Operator function);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_CALL_H_
