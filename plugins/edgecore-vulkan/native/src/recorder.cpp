#include "recorder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "call.h"
#include "constants.h"
#include "memory_plan.h"

namespace edgecore::vulkan {

using backend::fail;

const Buffer &Weights::get(const std::string &key, uint64_t bytes, const std::function<void(uint8_t *memory)> &write) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Buffer> &buffer = buffers_[key];
  if (buffer == nullptr) buffer = std::make_unique<Buffer>(device_.upload(bytes, write));
  return *buffer;
}

Recorder::Recorder(const Graph &graph, ShaderDevice &device, Weights &weights, const StateBuffers &states)
    : graph_(graph),
      device_(device),
      weights_(weights),
      states_(states),
      tensors_(graph.values.size()),
      is_made_(graph.values.size()),
      is_given_(graph.values.size()),
      is_output_(graph.values.size()),
      is_int8_(graph.values.size()),
      integers_(graph.values.size()) {
  for (size_t i = 0; i < graph.values.size(); ++i) integers_[i] = graph.values[i].integer;
  if (device.has_8_bit_storage()) find_int8();
}

void Recorder::find_int8() {
  for (size_t i = 0; i < graph_.values.size(); ++i) {
    is_int8_[i] = graph_.values[i].kind == Kind::kTensor && graph_.values[i].type == DataType::kInt8;
  }
  for (const OperatorCall &call : graph_.calls) {
    if (reads_int8(find_operator(call.name))) continue;
    for (const uint32_t number : call.args) {
      is_int8_[number] = false;
      if (graph_.values[number].kind != Kind::kValueList) continue;
      for (const int64_t item : graph_.values[number].integers) is_int8_[static_cast<size_t>(item)] = false;
    }
  }
}

Recording Recorder::run(const std::vector<ArgumentFormat> &formats, const std::vector<Layout> &output_layouts,
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

Tensor Recorder::tensor(uint32_t number) {
  if (is_given_[number]) convert_input(number);
  if (is_made_[number]) return tensors_[number];
  const Value &value = graph_.values[number];
  if (value.constant < 0) backend::damaged("operator call %u reads value %u before it is written", current_, number);
  const Constant &constant = graph_.constants[static_cast<size_t>(value.constant)];
  Tensor tensor{dtype_of(number), Layout::kRowMajor, value.shape, 0};
  tensor.storage =
      add_constant(key_of(value, std::string("plain ") + name_of(tensor.dtype)), tensor, [&](uint8_t *memory) {
        if (is_float(tensor.dtype)) {
          store(floats_of(value, constant.bytes), tensor.dtype, memory);
        } else if (tensor.dtype == Dtype::kInt8) {
          std::memcpy(memory, constant.bytes.data, static_cast<size_t>(tensor.count()));
        } else {
          store_integers(value, constant.bytes, memory);
        }
      });
  return make(number, tensor);
}

Tensor Recorder::packed(uint32_t number, const std::string &form, int64_t elements,
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

Tensor Recorder::packed_words(uint32_t number, const std::string &form, int64_t words,
                              const std::function<void(const uint8_t *, uint32_t *)> &pack) {
  const Value &value = graph_.values[number];
  const Constant &constant = graph_.constants[static_cast<size_t>(value.constant)];
  Tensor tensor{Dtype::kInt32, Layout::kRowMajor, {words}, 0};
  tensor.storage = add_constant(key_of(value, form), tensor, [&](uint8_t *memory) {
    pack(constant.bytes.data, reinterpret_cast<uint32_t *>(memory));
  });
  return tensor;
}

Tensor Recorder::output(uint32_t number, const Shape &shape) {
  const Value &value = graph_.values[number];
  check_output(number, shape);
  Tensor tensor{dtype_of(number), value.layout, shape, 0};
  tensor.storage = add_storage(tensor);
  return make(number, tensor);
}

void Recorder::check_output(uint32_t number, const Shape &shape) const {
  const Value &value = graph_.values[number];
  if (value.kind != Kind::kTensor || value.constant >= 0) {
    backend::damaged("operator call %u writes value %u, which is no tensor to write to", current_, number);
  }
  bool fits = shape.size() == value.shape.size() && !is_made_[number];
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] >= 0 && shape[i] <= value.shape[i];
  if (!fits) {
    backend::damaged("operator call %u computes value %u in a shape that the value does not allow, or again", current_,
                     number);
  }
}

std::optional<Tensor> Recorder::addend_of(uint32_t number, const Shape &shape) {
  const std::optional<Sum> sum = next_sum();
  constexpr uint32_t kWrittenAndRead = 2;
  if (!sum || uses_[number] != kWrittenAndRead || (sum->operands[0] == number) == (sum->operands[1] == number)) {
    return std::nullopt;
  }
  const uint32_t other = sum->operands[sum->operands[0] == number ? 1 : 0];
  const Value &value = graph_.values[number], &result = graph_.values[sum->result];
  if (!is_made_[other] && graph_.values[other].constant < 0) return std::nullopt;
  Tensor addend = tensor(other);
  const Tensor own{dtype_of(number), value.layout, shape, 0};
  const Tensor wanted{dtype_of(sum->result), result.layout, shape, 0};
  const bool fits =
      addend.dtype == own.dtype && own.dtype == wanted.dtype && addend.same_order(own) && own.same_order(wanted);
  return fits ? std::optional(addend) : std::nullopt;
}

Tensor Recorder::output_of_sum(const Shape &shape) {
  const uint32_t result = next_sum()->result;
  is_done_ = true;
  return output(result, shape);
}

Tensor Recorder::make(uint32_t number, const Tensor &tensor) {
  tensors_[number] = tensor;
  is_made_[number] = true;
  return tensor;
}

bool Recorder::is_state(uint32_t number) const {
  return is_made_[number] && recording_.storages[tensors_[number].storage].kind == Storage::Kind::kState;
}

void Recorder::bind_state(uint32_t number) {
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

Tensor Recorder::temporary(Dtype dtype, const Shape &shape) {
  Tensor tensor{dtype, Layout::kRowMajor, shape, 0};
  tensor.storage = add_storage(tensor);
  return tensor;
}

void Recorder::dispatch(Dispatch dispatch) {
  dispatch.call = current_;
  for (const uint32_t number : dispatch.storages) {
    Storage &storage = recording_.storages[number];
    storage.first = std::min(storage.first, recording_.dispatches.size());
    storage.last = recording_.dispatches.size();
  }
  recording_.dispatches.push_back(std::move(dispatch));
}

std::optional<Recorder::Sum> Recorder::next_sum() const {
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

void Recorder::count_uses() {
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

std::string Recorder::key_of(const Value &value, const std::string &form) const {
  const Constant &constant = graph_.constants[static_cast<size_t>(value.constant)];
  // Identify a constant without a key by its address in the blob, which stays the same as long as the program exists.
  const std::string name =
      constant.key.empty() ? std::to_string(reinterpret_cast<uintptr_t>(constant.bytes.data)) : constant.key;
  std::string key = name + " " + form + " " + std::to_string(static_cast<int>(value.type));
  for (const int64_t size : value.shape) key += " " + std::to_string(size);
  return key;
}

uint32_t Recorder::add(Storage storage) {
  recording_.storages.push_back(storage);
  return static_cast<uint32_t>(recording_.storages.size() - 1);
}

uint64_t Recorder::checked_bytes(Dtype dtype, int64_t elements) const {
  const uint64_t bytes = storage_bytes(dtype, elements);
  if (bytes > device_.limits().maxStorageBufferRange) {
    fail(EDGECORE_OUT_OF_RESOURCES, "the delegate needs a tensor of %llu bytes, and a tensor on %s has at most %u",
         static_cast<unsigned long long>(bytes), device_.name(), device_.limits().maxStorageBufferRange);
  }
  return bytes;
}

uint32_t Recorder::add_storage(const Tensor &tensor) {
  Storage storage;
  storage.bytes = checked_bytes(tensor.dtype, tensor.count());
  return add(storage);
}

uint32_t Recorder::add_constant(const std::string &key, const Tensor &tensor,
                                const std::function<void(uint8_t *memory)> &write) {
  Storage storage;
  storage.kind = Storage::Kind::kConstant;
  storage.buffer = &weights_.get(key, storage_bytes(tensor.dtype, tensor.count()), write);
  storage.bytes = storage.buffer->size();
  return add(storage);
}

Tensor Recorder::add_argument(uint32_t argument, Dtype dtype, Layout layout, const Shape &shape) {
  Storage storage;
  storage.kind = Storage::Kind::kArgument;
  storage.argument = argument;
  storage.bytes = checked_bytes(dtype, count(shape));
  return {dtype, layout, shape, add(storage)};
}

void Recorder::add_input(size_t index, const ArgumentFormat &format, int64_t symbolic_size) {
  const uint32_t number = graph_.inputs[index];
  const Value &value = graph_.values[number];
  if (value.kind == Kind::kSymInt) {
    integers_[number] = symbolic_size;
    return;
  }
  const Tensor given = add_argument(static_cast<uint32_t>(index), format.dtype, format.layout, format.shape);
  Tensor wanted{dtype_of(number), value.layout, format.shape, given.storage};
  is_given_[number] = given.dtype != wanted.dtype || !given.same_order(wanted);
  make(number, is_given_[number] ? given : wanted);
}

void Recorder::convert_input(uint32_t number) {
  const Value &value = graph_.values[number];
  const Tensor given = tensors_[number];
  Tensor wanted{dtype_of(number), value.layout, given.shape, 0};
  wanted.storage = add_storage(wanted);
  Call(*this, kBorder).copy(given, wanted);
  tensors_[number] = wanted;
  is_given_[number] = false;
}

void Recorder::add_output(size_t index, Layout layout) {
  const uint32_t number = graph_.outputs[index];
  const Tensor made = tensor(number);
  const Dtype dtype = staging_dtype(graph_.values[number].staging, device_.has_8_bit_storage());
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

const OperatorCall Recorder::kBorder = {0, "border", {}};

Recording record(const Graph &graph, ShaderDevice &device, Weights &weights, const StateBuffers &states,
                 const std::vector<ArgumentFormat> &formats, const std::vector<Layout> &output_layouts,
                 const std::vector<int64_t> &symbolic_sizes) {
  return Recorder(graph, device, weights, states).run(formats, output_layouts, symbolic_sizes);
}

}  // namespace edgecore::vulkan
