#include "recorder.h"

#include <algorithm>
#include <cstdarg>
#include <utility>

#include "constants.h"
#include "memory_plan.h"

namespace edgecore::vulkan {

using backend::fail;

namespace {

constexpr uint32_t kMaxGroups = 65535;

// The format of a tensor's view as a texel buffer. Devices have all of these.
VkFormat format_of(const Tensor &tensor) {
  const bool is_half = tensor.dtype == Dtype::kFloat16;
  switch (tensor.texel) {
    case 0:
      return VK_FORMAT_UNDEFINED;
    case 1:
      return is_half ? VK_FORMAT_R16_SFLOAT : VK_FORMAT_R32_SFLOAT;
    default:
      return is_half ? VK_FORMAT_R16G16B16A16_SFLOAT : VK_FORMAT_R32G32B32A32_SFLOAT;
  }
}

}  // namespace

const Buffer &Weights::get(const std::string &key, uint64_t bytes, const std::function<void(uint8_t *memory)> &write) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Buffer> &buffer = buffers_[key];
  if (buffer == nullptr) buffer = std::make_unique<Buffer>(device_.upload(bytes, write));
  return *buffer;
}

// Records one graph. Tensors of values are made when they are first written or, for constants, read.
class Recorder {
 public:
  Recorder(const Graph &graph, ShaderDevice &device, Weights &weights, const StateBuffers &states)
      : graph_(graph),
        device_(device),
        weights_(weights),
        states_(states),
        tensors_(graph.values.size()),
        is_made_(graph.values.size()),
        is_given_(graph.values.size()),
        is_output_(graph.values.size()),
        integers_(graph.values.size()) {
    for (size_t i = 0; i < graph.values.size(); ++i) integers_[i] = graph.values[i].integer;
  }

  Recording run(const std::vector<ArgumentFormat> &formats, const std::vector<Layout> &output_layouts,
                const std::vector<int64_t> &symbolic_sizes) {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) add_input(i, formats[i], symbolic_sizes[i]);
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const uint32_t number = graph_.outputs[i];
      const Value &value = graph_.values[number];
      if (value.kind != Kind::kTensor) fail(EDGECORE_NOT_SUPPORTED, "output %zu of the delegate is no tensor", i);
      is_output_[number] = true;
    }
    count_uses();
    for (size_t i = 0; i < graph_.calls.size(); ++i) {
      current_ = static_cast<uint32_t>(i);
      const OperatorCall &call = graph_.calls[i];
      if (std::exchange(is_done_, false)) continue;
      const Operator function = find_operator(call.name);
      if (function == nullptr) {
        fail(EDGECORE_NOT_SUPPORTED, "operator call %zu (%s): edgecore-vulkan does not have this operator", i,
             call.name.substr(0, 100).c_str());
      }
      if (call.args.empty()) backend::damaged("operator call %zu has no arguments", i);
      Call arguments(*this, call);
      function(arguments);
    }
    current_ = kNoCall;
    for (size_t i = 0; i < graph_.outputs.size(); ++i) add_output(i, output_layouts[i]);
    plan_memory(&recording_);
    return std::move(recording_);
  }

  const Graph &graph() const { return graph_; }
  uint32_t current() const { return current_; }
  int64_t integer(uint32_t number) const { return integers_[number]; }

  Tensor tensor(uint32_t number) {
    if (is_given_[number]) convert_input(number);
    if (is_made_[number]) return tensors_[number];
    const Value &value = graph_.values[number];
    if (value.constant < 0) backend::damaged("operator call %u reads value %u before it is written", current_, number);
    const Constant &constant = graph_.constants[static_cast<size_t>(value.constant)];
    Tensor tensor{device_dtype(value.type), Layout::kRowMajor, value.shape, 0};
    tensor.storage = add_constant(key_of(value, "plain"), tensor, [&](uint8_t *memory) {
      if (is_float(tensor.dtype)) {
        store(floats_of(value, constant.bytes), tensor.dtype, memory);
      } else {
        store_integers(value, constant.bytes, memory);
      }
    });
    return make(number, tensor);
  }

  Tensor tensor_as_given(uint32_t number) { return is_given_[number] ? tensors_[number] : tensor(number); }

  Tensor packed(uint32_t number, const std::string &form, int64_t elements,
                const std::function<void(const float *, float *)> &pack, std::optional<Dtype> dtype) {
    const Value &value = graph_.values[number];
    const Constant &constant = graph_.constants[static_cast<size_t>(value.constant)];
    Tensor tensor{dtype.value_or(device_dtype(value.type)), Layout::kRowMajor, {elements}, 0};
    tensor.storage = add_constant(key_of(value, form + " " + name_of(tensor.dtype)), tensor, [&](uint8_t *memory) {
      std::vector<float> copied;
      const float *source = floats_in(value, constant.bytes);
      if (source == nullptr) source = (copied = floats_of(value, constant.bytes)).data();
      if (tensor.dtype == Dtype::kFloat32) return pack(source, reinterpret_cast<float *>(memory));
      std::vector<float> packed(static_cast<size_t>(elements));
      pack(source, packed.data());
      store(packed, tensor.dtype, memory);
    });
    return tensor;
  }

  Tensor packed_words(uint32_t number, const std::string &form, int64_t words,
                      const std::function<void(const uint8_t *, uint32_t *)> &pack) {
    const Value &value = graph_.values[number];
    const Constant &constant = graph_.constants[static_cast<size_t>(value.constant)];
    Tensor tensor{Dtype::kInt32, Layout::kRowMajor, {words}, 0};
    tensor.storage = add_constant(key_of(value, form), tensor, [&](uint8_t *memory) {
      pack(constant.bytes.data, reinterpret_cast<uint32_t *>(memory));
    });
    return tensor;
  }

  Tensor output(uint32_t number, const Shape &shape) {
    const Value &value = graph_.values[number];
    check_output(number, shape);
    Tensor tensor{device_dtype(value.type), value.layout, shape, 0};
    tensor.storage = add_storage(tensor);
    return make(number, tensor);
  }

  void check_output(uint32_t number, const Shape &shape) const {
    const Value &value = graph_.values[number];
    if (value.kind != Kind::kTensor || value.constant >= 0) {
      backend::damaged("operator call %u writes value %u, which is no tensor to write to", current_, number);
    }
    bool fits = shape.size() == value.shape.size() && !is_made_[number];
    for (size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] >= 0 && shape[i] <= value.shape[i];
    if (!fits) {
      backend::damaged("operator call %u computes value %u in a shape that the value does not allow, or again",
                       current_, number);
    }
  }

  std::optional<Tensor> addend_of(uint32_t number, const Shape &shape) {
    const std::optional<Sum> sum = next_sum();
    constexpr uint32_t kWrittenAndRead = 2;
    if (!sum || uses_[number] != kWrittenAndRead || (sum->operands[0] == number) == (sum->operands[1] == number)) {
      return std::nullopt;
    }
    const uint32_t other = sum->operands[sum->operands[0] == number ? 1 : 0];
    const Value &value = graph_.values[number], &result = graph_.values[sum->result];
    if (!is_made_[other] && graph_.values[other].constant < 0) return std::nullopt;
    Tensor addend = tensor(other);
    const Tensor own{device_dtype(value.type), value.layout, shape, 0};
    const Tensor wanted{device_dtype(result.type), result.layout, shape, 0};
    const bool fits =
        addend.dtype == own.dtype && own.dtype == wanted.dtype && addend.same_order(own) && own.same_order(wanted);
    return fits ? std::optional(addend) : std::nullopt;
  }

  Tensor output_of_sum(const Shape &shape) {
    const uint32_t result = next_sum()->result;
    is_done_ = true;
    return output(result, shape);
  }

  Tensor make(uint32_t number, const Tensor &tensor) {
    tensors_[number] = tensor;
    is_made_[number] = true;
    return tensor;
  }

  bool is_output(uint32_t number) const { return is_output_[number]; }

  bool is_state(uint32_t number) const {
    return is_made_[number] && recording_.storages[tensors_[number].storage].kind == Storage::Kind::kState;
  }

  void bind_state(uint32_t number) {
    const Value &value = graph_.values[number];
    check_output(number, value.shape);
    const auto found = states_.find(number);
    if (found == states_.end()) backend::damaged("operator call %u names no state", current_);
    Storage storage;
    storage.kind = Storage::Kind::kState;
    storage.buffer = found->second;
    storage.bytes = found->second->size();
    make(number, {device_dtype(value.type), Layout::kRowMajor, value.shape, add(storage)});
  }

  Tensor temporary(Dtype dtype, const Shape &shape) {
    Tensor tensor{dtype, Layout::kRowMajor, shape, 0};
    tensor.storage = add_storage(tensor);
    return tensor;
  }

  void dispatch(Dispatch dispatch) {
    dispatch.call = current_;
    for (const uint32_t number : dispatch.storages) {
      Storage &storage = recording_.storages[number];
      storage.first = std::min(storage.first, recording_.dispatches.size());
      storage.last = recording_.dispatches.size();
    }
    recording_.dispatches.push_back(std::move(dispatch));
  }

  ShaderDevice &device() { return device_; }

 private:
  struct Sum {
    std::array<uint32_t, 2> operands;
    uint32_t result;
  };

  // Returns the values of the next call if it adds two tensors.
  std::optional<Sum> next_sum() const {
    const size_t next = size_t{current_} + 1;
    if (next >= graph_.calls.size()) return std::nullopt;
    const OperatorCall &call = graph_.calls[next];
    if (call.name != "aten.add.Tensor" || call.args.size() != 4) return std::nullopt;
    const Value &alpha = graph_.values[call.args[2]];
    const bool is_plain =
        (alpha.kind == Kind::kInt && alpha.integer == 1) || (alpha.kind == Kind::kDouble && alpha.number == 1);
    for (const size_t index : {0, 1, 3}) {
      if (graph_.values[call.args[index]].kind != Kind::kTensor) return std::nullopt;
    }
    return is_plain ? std::optional(Sum{{call.args[0], call.args[1]}, call.args[3]}) : std::nullopt;
  }

  // Counts the places that name each value, those that write it included.
  void count_uses() {
    uses_.assign(graph_.values.size(), 0);
    for (const OperatorCall &call : graph_.calls) {
      for (const uint32_t number : call.args) ++uses_[number];
    }
    for (const Value &value : graph_.values) {
      if (value.kind != Kind::kValueList) continue;
      for (const int64_t item : value.integers) ++uses_[static_cast<size_t>(item)];
    }
    for (const uint32_t number : graph_.outputs) ++uses_[number];
  }

  std::string key_of(const Value &value, const std::string &form) const {
    const Constant &constant = graph_.constants[static_cast<size_t>(value.constant)];
    // Constants in the blob have no key: their address, which stays the same as long as the program, identifies them.
    const std::string name =
        constant.key.empty() ? std::to_string(reinterpret_cast<uintptr_t>(constant.bytes.data)) : constant.key;
    std::string key = name + " " + form + " " + std::to_string(static_cast<int>(value.type));
    for (const int64_t size : value.shape) key += " " + std::to_string(size);
    return key;
  }

  uint32_t add(Storage storage) {
    recording_.storages.push_back(storage);
    return static_cast<uint32_t>(recording_.storages.size() - 1);
  }

  // Returns the bytes of a tensor's memory. Throws a Failure if the device has no tensors of this size.
  uint64_t checked_bytes(Dtype dtype, int64_t elements) const {
    const uint64_t bytes = storage_bytes(dtype, elements);
    if (bytes > device_.limits().maxStorageBufferRange) {
      fail(EDGECORE_OUT_OF_RESOURCES, "the delegate needs a tensor of %llu bytes, and a tensor on %s has at most %u",
           static_cast<unsigned long long>(bytes), device_.name(), device_.limits().maxStorageBufferRange);
    }
    return bytes;
  }

  uint32_t add_storage(const Tensor &tensor) {
    Storage storage;
    storage.bytes = checked_bytes(tensor.dtype, tensor.count());
    return add(storage);
  }

  uint32_t add_constant(const std::string &key, const Tensor &tensor,
                        const std::function<void(uint8_t *memory)> &write) {
    Storage storage;
    storage.kind = Storage::Kind::kConstant;
    storage.buffer = &weights_.get(key, storage_bytes(tensor.dtype, tensor.count()), write);
    storage.bytes = storage.buffer->size();
    return add(storage);
  }

  Tensor add_argument(uint32_t argument, Dtype dtype, Layout layout, const Shape &shape) {
    Storage storage;
    storage.kind = Storage::Kind::kArgument;
    storage.argument = argument;
    storage.bytes = checked_bytes(dtype, count(shape));
    return {dtype, layout, shape, add(storage)};
  }

  void add_input(size_t index, const ArgumentFormat &format, int64_t symbolic_size) {
    const uint32_t number = graph_.inputs[index];
    const Value &value = graph_.values[number];
    if (value.kind == Kind::kSymInt) {
      integers_[number] = symbolic_size;
      return;
    }
    const Tensor given = add_argument(static_cast<uint32_t>(index), format.dtype, format.layout, format.shape);
    Tensor wanted{device_dtype(value.type), value.layout, format.shape, given.storage};
    is_given_[number] = given.dtype != wanted.dtype || !given.same_order(wanted);
    make(number, is_given_[number] ? given : wanted);
  }

  // Copies an input to the dtype and layout that the graph says, for the first operator that needs them.
  void convert_input(uint32_t number) {
    const Value &value = graph_.values[number];
    const Tensor given = tensors_[number];
    Tensor wanted{device_dtype(value.type), value.layout, given.shape, 0};
    wanted.storage = add_storage(wanted);
    Call(*this, kBorder).copy(given, wanted);
    tensors_[number] = wanted;
    is_given_[number] = false;
  }

  void add_output(size_t index, Layout layout) {
    const uint32_t number = graph_.outputs[index];
    const Tensor made = tensor(number);
    const Dtype dtype = device_dtype(graph_.values[number].staging);
    const Tensor target = add_argument(static_cast<uint32_t>(graph_.inputs.size() + index), dtype, layout, made.shape);
    recording_.outputs.push_back({dtype, layout, made.shape});
    Storage &storage = recording_.storages[made.storage];
    const bool in_place = storage.kind == Storage::Kind::kArena && made.dtype == dtype && made.same_order(target);
    if (in_place) {
      storage = recording_.storages[target.storage];
    } else {
      Call(*this, kBorder).copy(made, target);
    }
  }

  static const OperatorCall kBorder;  // stands for copies at the border of the delegate

  const Graph &graph_;
  ShaderDevice &device_;
  Weights &weights_;
  const StateBuffers &states_;
  Recording recording_;
  std::vector<Tensor> tensors_;
  std::vector<bool> is_made_;
  std::vector<bool> is_given_;  // inputs that are still as they were given
  std::vector<bool> is_output_;
  std::vector<int64_t> integers_;
  std::vector<uint32_t> uses_;
  uint32_t current_ = 0;
  bool is_done_ = false;  // whether an earlier call has done what the next one says
};

const OperatorCall Recorder::kBorder = {0, "border", {}};

Recording record(const Graph &graph, ShaderDevice &device, Weights &weights, const StateBuffers &states,
                 const std::vector<ArgumentFormat> &formats, const std::vector<Layout> &output_layouts,
                 const std::vector<int64_t> &symbolic_sizes) {
  return Recorder(graph, device, weights, states).run(formats, output_layouts, symbolic_sizes);
}

void Call::damaged(const char *format, ...) const {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = backend::format_text(format, arguments);
  va_end(arguments);
  backend::damaged("operator call %u (%s): %s", recorder_.current(), call_.name.substr(0, 100).c_str(), text.c_str());
}

void Call::unsupported(const char *format, ...) const {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = backend::format_text(format, arguments);
  va_end(arguments);
  fail(EDGECORE_NOT_SUPPORTED, "operator call %u (%s): %s", recorder_.current(), call_.name.substr(0, 100).c_str(),
       text.c_str());
}

const Value &Call::value(size_t index) const {
  if (index >= call_.args.size()) damaged("it has %zu arguments, and argument %zu is read", call_.args.size(), index);
  return recorder_.graph().values[call_.args[index]];
}

const ShaderDevice &Call::device() const { return recorder_.device(); }

bool Call::is_none(size_t index) const { return value(index).kind == Kind::kNull; }
bool Call::is_tensor(size_t index) const { return value(index).kind == Kind::kTensor; }
bool Call::is_constant(size_t index) const { return is_tensor(index) && value(index).constant >= 0; }

Tensor Call::tensor(size_t index) const {
  if (value(index).kind != Kind::kTensor) damaged("argument %zu is no tensor", index);
  return recorder_.tensor(call_.args[index]);
}

Tensor Call::tensor_as_given(size_t index) const {
  if (value(index).kind != Kind::kTensor) damaged("argument %zu is no tensor", index);
  return recorder_.tensor_as_given(call_.args[index]);
}

std::vector<Tensor> Call::tensors(size_t index) const {
  const Value &list = value(index);
  if (list.kind != Kind::kValueList) damaged("argument %zu is no list of tensors", index);
  std::vector<Tensor> result;
  for (const int64_t item : list.integers) {
    const auto number = static_cast<uint32_t>(item);
    if (recorder_.graph().values[number].kind != Kind::kTensor) damaged("a part of argument %zu is no tensor", index);
    result.push_back(recorder_.tensor(number));
  }
  return result;
}

int64_t Call::integer(size_t index) const {
  const Value &one = value(index);
  if (one.kind != Kind::kInt && one.kind != Kind::kBool && one.kind != Kind::kSymInt) {
    damaged("argument %zu is no integer", index);
  }
  return recorder_.integer(call_.args[index]);
}

double Call::number(size_t index) const {
  const Value &one = value(index);
  return one.kind == Kind::kDouble ? one.number : static_cast<double>(integer(index));
}

const std::string &Call::text(size_t index) const {
  if (value(index).kind != Kind::kString) damaged("argument %zu is no text", index);
  return value(index).text;
}

double Call::number_or(size_t index, double otherwise) const { return is_none(index) ? otherwise : number(index); }

std::array<int64_t, 2> Call::pair(size_t index, int64_t min) const {
  const std::vector<int64_t> given = integers(index);
  if (given.empty() || given.size() > 2) damaged("argument %zu has %zu numbers", index, given.size());
  for (const int64_t one : given) {
    if (one < min || one > INT16_MAX) damaged("argument %zu is out of range", index);
  }
  return {given.front(), given.back()};
}

std::vector<int64_t> Call::integers(size_t index) const {
  const Value &list = value(index);
  if (list.kind == Kind::kIntList || list.kind == Kind::kBoolList) return list.integers;
  if (list.kind != Kind::kValueList) damaged("argument %zu is no list of integers", index);
  std::vector<int64_t> result;
  for (const int64_t item : list.integers) {
    const Kind kind = recorder_.graph().values[static_cast<size_t>(item)].kind;
    if (kind != Kind::kInt && kind != Kind::kSymInt) damaged("a part of argument %zu is no integer", index);
    result.push_back(recorder_.integer(static_cast<uint32_t>(item)));
  }
  return result;
}

std::vector<double> Call::numbers(size_t index) const {
  if (value(index).kind == Kind::kDoubleList) return value(index).numbers;
  const std::vector<int64_t> given = integers(index);
  return {given.begin(), given.end()};
}

size_t Call::dim(size_t index, size_t rank) const {
  const int64_t given = integer(index), signed_rank = static_cast<int64_t>(rank);
  if (given < -signed_rank || given >= signed_rank) {
    damaged("argument %zu is the dim %lld of a tensor with %zu dims", index, static_cast<long long>(given), rank);
  }
  return static_cast<size_t>(given < 0 ? given + signed_rank : given);
}

DataType Call::data_type(size_t index) const {
  if (!is_tensor(index)) damaged("argument %zu is no tensor", index);
  return value(index).type;
}

const Shape &Call::constant_shape(size_t index) const {
  const Value &one = value(index);
  if (one.kind != Kind::kTensor || one.constant < 0) damaged("argument %zu is no constant", index);
  return one.shape;
}

Tensor Call::packed(size_t index, const std::string &form, int64_t elements,
                    const std::function<void(const float *, float *)> &pack, std::optional<Dtype> dtype) const {
  constant_shape(index);
  if (!is_float(device_dtype(value(index).type))) damaged("argument %zu is no floating-point constant", index);
  return recorder_.packed(call_.args[index], form, elements, pack, dtype);
}

Tensor Call::packed_words(size_t index, const std::string &form, int64_t words,
                          const std::function<void(const uint8_t *, uint32_t *)> &pack) const {
  constant_shape(index);
  if (size_of(value(index).type) != 1) damaged("argument %zu is no constant of 8-bit integers", index);
  return recorder_.packed_words(call_.args[index], form, words, pack);
}

Tensor Call::output(size_t index, const Shape &shape) const {
  value(index);
  return recorder_.output(call_.args[index], shape);
}

std::optional<Tensor> Call::addend_of(size_t index, const Shape &shape) const {
  value(index);
  return recorder_.addend_of(call_.args[index], shape);
}

Tensor Call::output_of_sum(const Shape &shape) const { return recorder_.output_of_sum(shape); }

size_t Call::list_size(size_t index) const {
  const Value &list = value(index);
  if (list.kind != Kind::kValueList) damaged("argument %zu is no list of results", index);
  return list.integers.size();
}

Tensor Call::output_of_list(size_t index, size_t item, const Shape &shape) const {
  if (item >= list_size(index)) damaged("argument %zu has too few results", index);
  return recorder_.output(static_cast<uint32_t>(value(index).integers[item]), shape);
}

Tensor Call::temporary(Dtype dtype, const Shape &shape) const { return recorder_.temporary(dtype, shape); }

void Call::alias(size_t index, const Tensor &source, const Shape &shape) const {
  value(index);
  const uint32_t number = call_.args[index];
  recorder_.check_output(number, shape);
  const Value &result = recorder_.graph().values[number];
  if (vulkan::count(shape) != source.count()) damaged("the result has another number of elements than the input");
  const Tensor reshaped{source.dtype, result.layout, shape, source.storage};
  const bool rows = Tensor{source.dtype, Layout::kRowMajor, source.shape, 0}.same_order(source) &&
                    Tensor{source.dtype, Layout::kRowMajor, shape, 0}.same_order(reshaped);
  const bool same = (rows || (shape == source.shape && reshaped.same_order(source)));
  if (same && device_dtype(result.type) == source.dtype && !recorder_.is_output(number)) {
    recorder_.make(number, reshaped);
    return;
  }
  // The elements in row-major order of the input are those of the result.
  const Tensor target = recorder_.output(number, shape);
  if (shape == source.shape) return copy(source, target);
  if (Tensor{source.dtype, Layout::kRowMajor, source.shape, 0}.same_order(source)) {
    return copy({source.dtype, Layout::kRowMajor, shape, source.storage}, target);
  }
  const Tensor ordered = temporary(source.dtype, source.shape);
  copy(source, ordered);
  copy({source.dtype, Layout::kRowMajor, shape, ordered.storage}, target);
}

void Call::check_iterations(int64_t iterations) const {
  // llvmpipe ends the loops of a thread without a word after 65,535 iterations in total.
  constexpr int64_t kMaxIterations = 65'535;
  if (iterations <= kMaxIterations || !recorder_.device().is_software()) return;
  unsupported("a thread of it computes %lld steps, and a software device ends after %lld",
              static_cast<long long>(iterations), static_cast<long long>(kMaxIterations));
}

void Call::share(size_t index, const Tensor &source) const {
  const uint32_t number = call_.args[index];
  recorder_.check_output(number, source.shape);
  recorder_.make(number, source);
}

void Call::bind_state() const { recorder_.bind_state(call_.args[last()]); }

bool Call::is_state(size_t index) const { return is_tensor(index) && recorder_.is_state(call_.args[index]); }

bool Call::prefers_texels(const Tensor &tensor) const {
  const ShaderDevice &device = recorder_.device();
  return device.prefers_texels() && tensor.count() <= static_cast<int64_t>(device.limits().maxTexelBufferElements);
}

uint32_t Call::subgroup_size() const { return recorder_.device().subgroup_size(); }

Tensor Call::texels(Tensor tensor, uint32_t elements) {
  tensor.texel = elements;
  return tensor;
}

void Call::dispatch(const std::string &shader, std::vector<Tensor> written, std::vector<Tensor> read,
                    std::vector<uint32_t> push, std::vector<uint32_t> threads, std::vector<uint32_t> local_size,
                    std::vector<uint32_t> constants) const {
  Dispatch dispatch;
  dispatch.shader = shader;
  dispatch.written = static_cast<uint32_t>(written.size());
  uint32_t texel_bindings = 0;
  for (const std::vector<Tensor> *tensors : {&written, &read}) {
    for (const Tensor &tensor : *tensors) {
      if (tensor.texel != 0) texel_bindings |= 1u << dispatch.storages.size();
      dispatch.storages.push_back(tensor.storage);
      dispatch.formats.push_back(format_of(tensor));
    }
  }
  const uint32_t local[3] = {local_size[0], local_size[1], local_size[2]};
  for (size_t i = 0; i < 3; ++i) {
    dispatch.groups[i] = (threads[i] + local[i] - 1) / local[i];
    if (dispatch.groups[i] == 0) return;
    if (dispatch.groups[i] > kMaxGroups) unsupported("a dispatch of %u workgroups is too large", dispatch.groups[i]);
  }
  dispatch.pipeline =
      &recorder_.device().pipeline(shader, constants, local, static_cast<uint32_t>(dispatch.storages.size()),
                                   texel_bindings, static_cast<uint32_t>(push.size() * 4));
  dispatch.push = std::move(push);
  recorder_.dispatch(std::move(dispatch));
}

void Call::dispatch_flat(const std::string &shader, std::vector<Tensor> written, std::vector<Tensor> read,
                         std::vector<uint32_t> push, int64_t threads, std::vector<uint32_t> constants,
                         uint32_t local_size) const {
  const auto groups = static_cast<uint64_t>((threads + local_size - 1) / local_size);
  const auto rows = static_cast<uint32_t>((groups + kMaxGroups - 1) / kMaxGroups);
  const auto columns = static_cast<uint32_t>(rows == 0 ? 0 : (groups + rows - 1) / rows);
  dispatch(shader, std::move(written), std::move(read), std::move(push), {columns * local_size, rows, 1},
           {local_size, 1, 1}, std::move(constants));
}

void Call::copy(const Tensor &from, const Tensor &to) const {
  copy_strided(from, from.strides(), 0, to, to.strides(), 0, to.shape);
}

void Call::copy_strided(const Tensor &from, const Shape &from_strides, int64_t from_offset, const Tensor &to,
                        const Shape &to_strides, int64_t to_offset, const Shape &shape) const {
  struct Dim {
    int64_t size, from, to;
  };
  std::vector<Dim> all, dims;
  for (size_t i = 0; i < shape.size(); ++i) all.push_back({shape[i], from_strides[i], to_strides[i]});
  // The innermost dim of the target's memory first, so that neighbouring threads write neighbouring elements. Dims that
  // follow each other in both memories become one.
  std::stable_sort(all.begin(), all.end(), [](const Dim &a, const Dim &b) { return a.to < b.to; });
  for (const Dim &dim : all) {
    if (dim.size == 1) continue;
    if (!dims.empty() && dim.from == dims.back().from * dims.back().size &&
        dim.to == dims.back().to * dims.back().size) {
      dims.back().size *= dim.size;
    } else {
      dims.push_back(dim);
    }
  }
  if (dims.empty()) dims.push_back({1, 1, 1});
  const auto is_whole = [](int64_t number) { return number % 4 == 0; };
  bool vectors = dims[0].to == 1 && is_whole(dims[0].size) && is_whole(to_offset);
  bool from_vectors = dims[0].from == 1 && is_whole(from_offset);
  for (size_t i = 1; i < dims.size(); ++i) {
    vectors = vectors && is_whole(dims[i].to);
    from_vectors = from_vectors && is_whole(dims[i].from);
  }
  const int64_t step = dims[0].from, threads = vulkan::count(shape) / (vectors ? 4 : 1);
  if (vectors) dims[0] = {dims[0].size / 4, dims[0].from * 4, 4};
  std::vector<uint32_t> push(kMaxRank * 3);
  for (size_t i = 0; i < kMaxRank; ++i) {
    const Dim dim = i < dims.size() ? dims[i] : Dim{1, 0, 0};
    const size_t place = kMaxRank - 1 - i;
    push[place] = static_cast<uint32_t>(dim.size);
    push[kMaxRank + place] = static_cast<uint32_t>(dim.from);
    push[2 * kMaxRank + place] = static_cast<uint32_t>(dim.to);
  }
  for (const int64_t number : {from_offset, to_offset, step, static_cast<int64_t>(kMaxRank - dims.size()), threads}) {
    push.push_back(static_cast<uint32_t>(number));
  }
  from_vectors = from_vectors && vectors;
  const std::vector<uint32_t> constants = {vectors ? 1u : 0u, from_vectors ? 1u : 0u};
  // A driver may round by truncation where a shader does nothing between a texel and the half of a word.
  const bool rounds = from.dtype == Dtype::kFloat32 && to.dtype == Dtype::kFloat16;
  if (is_float(from.dtype) && is_float(to.dtype) && !rounds && prefers_texels(from)) {
    return dispatch_flat(std::string("copy_texel_") + name_of(to.dtype) + "_texel", {to},
                         {texels(from, from_vectors ? 4 : 1)}, std::move(push), threads, constants);
  }
  const std::string shader = std::string("copy_strided_") + name_of(from.dtype) + "_" + name_of(to.dtype);
  dispatch_flat(shader, {to}, {from}, std::move(push), threads, constants);
}

}  // namespace edgecore::vulkan
