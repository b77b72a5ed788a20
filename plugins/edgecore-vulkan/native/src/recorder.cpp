#include "recorder.h"

#include <algorithm>
#include <cstdarg>
#include <cstring>

namespace edgecore::vulkan {

using backend::fail;

namespace {

constexpr uint64_t kAlignment = 256;  // the largest minStorageBufferOffsetAlignment that Vulkan allows
constexpr uint32_t kMaxGroups = 65535;

// The bytes of a tensor's memory: whole vectors of four elements, so that shaders may read and write the last vector.
uint64_t storage_bytes(Dtype dtype, int64_t elements) {
  return std::max<uint64_t>((static_cast<uint64_t>(elements) * size_of(dtype) + 15) / 16 * 16, 16);
}

float from_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u, mantissa = half & 1023u;
  uint32_t bits = 0;
  float result = 0;
  if (exponent == 0) {
    result = static_cast<float>(mantissa) / 16777216.0f;  // denormals: mantissa * 2^-24
    std::memcpy(&bits, &result, 4);
  } else if (exponent == 31) {
    bits = 0x7f800000u | mantissa << 13;
  } else {
    bits = (exponent + 112) << 23 | mantissa << 13;
  }
  bits |= sign;
  std::memcpy(&result, &bits, 4);
  return result;
}

// Rounds to the nearest fp16, to even in a tie.
uint16_t to_half(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (bits >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (bits < 0x38800000u) {                                               // below the smallest normal number, 2^-14
    float magnitude = 0;
    std::memcpy(&magnitude, &bits, 4);
    const float shifted = magnitude + 0.5f;  // 0.5 has a unit in the last place of 2^-24, fp16's smallest denormal
    uint32_t rounded = 0;
    std::memcpy(&rounded, &shifted, 4);
    return static_cast<uint16_t>(sign | (rounded - 0x3f000000u));
  }
  return static_cast<uint16_t>(sign | ((bits + 0xfffu + (bits >> 13 & 1u)) - 0x38000000u) >> 13);
}

std::vector<float> floats_of(const Value &value, edgecore_bytes bytes) {
  std::vector<float> result(static_cast<size_t>(count(value.shape)));
  for (size_t i = 0; i < result.size(); ++i) {
    if (value.type == DataType::kFloat16) {
      uint16_t half = 0;
      std::memcpy(&half, bytes.data + 2 * i, 2);
      result[i] = from_half(half);
    } else if (value.type == DataType::kFloat64) {
      double number = 0;
      std::memcpy(&number, bytes.data + 8 * i, 8);
      result[i] = static_cast<float>(number);
    } else {
      std::memcpy(&result[i], bytes.data + 4 * i, 4);
    }
  }
  return result;
}

std::vector<uint8_t> stored(const std::vector<float> &numbers, Dtype dtype) {
  std::vector<uint8_t> bytes(storage_bytes(dtype, static_cast<int64_t>(numbers.size())));
  if (dtype == Dtype::kFloat32) {
    if (!numbers.empty()) std::memcpy(bytes.data(), numbers.data(), numbers.size() * 4);
    return bytes;
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint16_t half = to_half(numbers[i]);
    std::memcpy(bytes.data() + 2 * i, &half, 2);
  }
  return bytes;
}

std::vector<uint8_t> stored_integers(const Value &value, edgecore_bytes bytes) {
  const auto elements = static_cast<size_t>(count(value.shape));
  std::vector<uint8_t> result(storage_bytes(Dtype::kInt32, static_cast<int64_t>(elements)));
  for (size_t i = 0; i < elements; ++i) {
    int32_t number = 0;
    switch (value.type) {
      case DataType::kBool:
        number = bytes.data[i] != 0 ? 1 : 0;
        break;
      case DataType::kUint8:
        number = bytes.data[i];
        break;
      case DataType::kInt8:
        number = static_cast<int8_t>(bytes.data[i]);
        break;
      case DataType::kInt64: {
        int64_t wide = 0;
        std::memcpy(&wide, bytes.data + 8 * i, 8);
        number = static_cast<int32_t>(std::clamp<int64_t>(wide, INT32_MIN, INT32_MAX));
        break;
      }
      default:
        std::memcpy(&number, bytes.data + 4 * i, 4);
    }
    std::memcpy(result.data() + 4 * i, &number, 4);
  }
  return result;
}

// Gives each storage of the arena a place that no storage in use at the same time shares: the largest first, each at
// the lowest free offset.
void plan_memory(Recording *recording) {
  std::vector<Storage *> order;
  for (Storage &storage : recording->storages) {
    if (storage.kind == Storage::Kind::kArena && storage.first != SIZE_MAX) order.push_back(&storage);
  }
  std::stable_sort(order.begin(), order.end(), [](const Storage *a, const Storage *b) { return a->bytes > b->bytes; });
  std::vector<const Storage *> placed;  // sorted by offset
  for (Storage *storage : order) {
    uint64_t offset = 0;
    for (const Storage *other : placed) {
      if (other->last < storage->first || other->first > storage->last) continue;
      if (offset + storage->bytes <= other->offset) break;
      offset = std::max(offset, (other->offset + other->bytes + kAlignment - 1) / kAlignment * kAlignment);
    }
    storage->offset = offset;
    recording->arena_bytes = std::max(recording->arena_bytes, offset + storage->bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), storage,
                                   [](const Storage *a, const Storage *b) { return a->offset < b->offset; }),
                  storage);
  }
}

}  // namespace

const Buffer &Weights::get(const std::string &key, const std::function<std::vector<uint8_t>()> &make) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Buffer> &buffer = buffers_[key];
  if (buffer == nullptr) {
    const std::vector<uint8_t> bytes = make();
    buffer = std::make_unique<Buffer>(device_.upload(bytes.data(), bytes.size()));
  }
  return *buffer;
}

// Records one graph. Tensors of values are made when they are first written or, for constants, read.
class Recorder {
 public:
  Recorder(const Graph &graph, Device &device, Weights &weights)
      : graph_(graph),
        device_(device),
        weights_(weights),
        tensors_(graph.values.size()),
        is_made_(graph.values.size()),
        is_output_(graph.values.size()),
        integers_(graph.values.size()) {
    for (size_t i = 0; i < graph.values.size(); ++i) integers_[i] = graph.values[i].integer;
  }

  Recording run(const std::vector<ArgumentFormat> &formats, const std::vector<int64_t> &symbolic_sizes) {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) add_input(i, formats[i], symbolic_sizes[i]);
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const uint32_t number = graph_.outputs[i];
      const Value &value = graph_.values[number];
      if (value.kind != Kind::kTensor) fail(EDGECORE_NOT_SUPPORTED, "output %zu of the delegate is no tensor", i);
      is_output_[number] = true;
    }
    for (size_t i = 0; i < graph_.calls.size(); ++i) {
      current_ = static_cast<uint32_t>(i);
      const OperatorCall &call = graph_.calls[i];
      const Operator function = find_operator(call.name);
      if (function == nullptr) {
        fail(EDGECORE_NOT_SUPPORTED, "operator call %zu (%s): edgecore-vulkan does not have this operator", i,
             call.name.substr(0, 100).c_str());
      }
      if (call.args.empty()) backend::damaged("operator call %zu has no arguments", i);
      Call arguments(*this, call);
      function(arguments);
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) add_output(i);
    plan_memory(&recording_);
    return std::move(recording_);
  }

  const Graph &graph() const { return graph_; }
  uint32_t current() const { return current_; }
  int64_t integer(uint32_t number) const { return integers_[number]; }

  Tensor tensor(uint32_t number) {
    if (is_made_[number]) return tensors_[number];
    const Value &value = graph_.values[number];
    if (value.constant < 0) backend::damaged("operator call %u reads value %u before it is written", current_, number);
    const Constant &constant = graph_.constants[static_cast<size_t>(value.constant)];
    Tensor tensor{device_dtype(value.type), Layout::kRowMajor, value.shape, 0};
    tensor.storage = add_constant(key_of(value, "plain"), [&] {
      return is_float(tensor.dtype) ? stored(floats_of(value, constant.bytes), tensor.dtype)
                                    : stored_integers(value, constant.bytes);
    });
    return make(number, tensor);
  }

  Tensor packed(uint32_t number, Dtype dtype, const std::string &form, int64_t elements,
                const std::function<void(const float *, float *)> &pack) {
    const Value &value = graph_.values[number];
    const Constant &constant = graph_.constants[static_cast<size_t>(value.constant)];
    Tensor tensor{dtype, Layout::kRowMajor, {elements}, 0};
    tensor.storage = add_constant(key_of(value, form), [&] {
      const std::vector<float> source = floats_of(value, constant.bytes);
      std::vector<float> result(static_cast<size_t>(elements));
      pack(source.data(), result.data());
      return stored(result, tensor.dtype);
    });
    return tensor;
  }

  Tensor packed_words(uint32_t number, const std::string &form, int64_t words,
                      const std::function<void(const uint8_t *, uint32_t *)> &pack) {
    const Value &value = graph_.values[number];
    const Constant &constant = graph_.constants[static_cast<size_t>(value.constant)];
    Tensor tensor{Dtype::kInt32, Layout::kRowMajor, {words}, 0};
    tensor.storage = add_constant(key_of(value, form), [&] {
      std::vector<uint32_t> result(static_cast<size_t>(words));
      pack(constant.bytes.data, result.data());
      std::vector<uint8_t> bytes(storage_bytes(Dtype::kInt32, words));
      if (words != 0) std::memcpy(bytes.data(), result.data(), result.size() * 4);
      return bytes;
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

  Tensor make(uint32_t number, const Tensor &tensor) {
    tensors_[number] = tensor;
    is_made_[number] = true;
    return tensor;
  }

  bool is_output(uint32_t number) const { return is_output_[number]; }

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

  Device &device() { return device_; }

 private:
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

  uint32_t add_storage(const Tensor &tensor) {
    Storage storage;
    storage.bytes = storage_bytes(tensor.dtype, tensor.count());
    if (storage.bytes > device_.limits().maxStorageBufferRange) {
      fail(EDGECORE_OUT_OF_RESOURCES,
           "operator call %u needs a tensor of %llu bytes, and a tensor on %s has at most %u", current_,
           static_cast<unsigned long long>(storage.bytes), device_.name(), device_.limits().maxStorageBufferRange);
    }
    return add(storage);
  }

  uint32_t add_constant(const std::string &key, const std::function<std::vector<uint8_t>()> &bytes) {
    Storage storage;
    storage.kind = Storage::Kind::kConstant;
    storage.constant = &weights_.get(key, bytes);
    storage.bytes = storage.constant->size();
    return add(storage);
  }

  Tensor add_argument(uint32_t argument, Dtype dtype, Layout layout, const Shape &shape) {
    Storage storage;
    storage.kind = Storage::Kind::kArgument;
    storage.argument = argument;
    storage.bytes = storage_bytes(dtype, count(shape));
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
    if (given.dtype != wanted.dtype || !given.same_order(wanted)) {
      wanted.storage = add_storage(wanted);
      Call(*this, kBorder).copy(given, wanted);
    }
    make(number, wanted);
  }

  void add_output(size_t index) {
    const uint32_t number = graph_.outputs[index];
    const Tensor made = tensor(number);
    const Dtype dtype = device_dtype(graph_.values[number].staging);
    const Tensor target =
        add_argument(static_cast<uint32_t>(graph_.inputs.size() + index), dtype, Layout::kRowMajor, made.shape);
    recording_.outputs.push_back({dtype, Layout::kRowMajor, made.shape});
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
  Device &device_;
  Weights &weights_;
  Recording recording_;
  std::vector<Tensor> tensors_;
  std::vector<bool> is_made_, is_output_;
  std::vector<int64_t> integers_;
  uint32_t current_ = 0;
};

const OperatorCall Recorder::kBorder = {0, "border", {}};

Recording record(const Graph &graph, Device &device, Weights &weights, const std::vector<ArgumentFormat> &formats,
                 const std::vector<int64_t> &symbolic_sizes) {
  return Recorder(graph, device, weights).run(formats, symbolic_sizes);
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

bool Call::is_none(size_t index) const { return value(index).kind == Kind::kNull; }
bool Call::is_tensor(size_t index) const { return value(index).kind == Kind::kTensor; }

Tensor Call::tensor(size_t index) const {
  if (value(index).kind != Kind::kTensor) damaged("argument %zu is no tensor", index);
  return recorder_.tensor(call_.args[index]);
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

size_t Call::dim(size_t index, size_t rank) const {
  const int64_t given = integer(index), signed_rank = static_cast<int64_t>(rank);
  if (given < -signed_rank || given >= signed_rank) {
    damaged("argument %zu is the dim %lld of a tensor with %zu dims", index, static_cast<long long>(given), rank);
  }
  return static_cast<size_t>(given < 0 ? given + signed_rank : given);
}

const Shape &Call::constant_shape(size_t index) const {
  const Value &one = value(index);
  if (one.kind != Kind::kTensor || one.constant < 0) damaged("argument %zu is no constant", index);
  return one.shape;
}

Tensor Call::packed(size_t index, const std::string &form, int64_t elements,
                    const std::function<void(const float *, float *)> &pack) const {
  constant_shape(index);
  const Dtype dtype = device_dtype(value(index).type);
  if (!is_float(dtype)) damaged("argument %zu is no floating-point constant", index);
  return recorder_.packed(call_.args[index], dtype, form, elements, pack);
}

Tensor Call::packed_f32(size_t index, const std::string &form, int64_t elements,
                        const std::function<void(const float *, float *)> &pack) const {
  constant_shape(index);
  if (!is_float(device_dtype(value(index).type))) damaged("argument %zu is no floating-point constant", index);
  return recorder_.packed(call_.args[index], Dtype::kFloat32, form + " f32", elements, pack);
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

void Call::dispatch(const std::string &shader, std::vector<Tensor> written, std::vector<Tensor> read,
                    std::vector<uint32_t> push, std::vector<uint32_t> threads, std::vector<uint32_t> local_size,
                    std::vector<uint32_t> constants) const {
  Dispatch dispatch;
  dispatch.shader = shader;
  dispatch.written = static_cast<uint32_t>(written.size());
  for (const Tensor &tensor : written) dispatch.storages.push_back(tensor.storage);
  for (const Tensor &tensor : read) dispatch.storages.push_back(tensor.storage);
  const uint32_t local[3] = {local_size[0], local_size[1], local_size[2]};
  for (size_t i = 0; i < 3; ++i) {
    dispatch.groups[i] = (threads[i] + local[i] - 1) / local[i];
    if (dispatch.groups[i] == 0) return;
    if (dispatch.groups[i] > kMaxGroups) unsupported("a dispatch of %u workgroups is too large", dispatch.groups[i]);
  }
  dispatch.pipeline =
      &recorder_.device().pipeline(shader, constants, local, static_cast<uint32_t>(dispatch.storages.size()),
                                   static_cast<uint32_t>(push.size() * 4));
  dispatch.push = std::move(push);
  recorder_.dispatch(std::move(dispatch));
}

void Call::dispatch_flat(const std::string &shader, std::vector<Tensor> written, std::vector<Tensor> read,
                         std::vector<uint32_t> push, int64_t threads, std::vector<uint32_t> constants) const {
  constexpr uint32_t kLocal = 64;
  const auto groups = static_cast<uint64_t>((threads + kLocal - 1) / kLocal);
  const auto rows = static_cast<uint32_t>((groups + kMaxGroups - 1) / kMaxGroups);
  const auto columns = static_cast<uint32_t>(rows == 0 ? 0 : (groups + rows - 1) / rows);
  dispatch(shader, std::move(written), std::move(read), std::move(push), {columns * kLocal, rows, 1}, {kLocal, 1, 1},
           std::move(constants));
}

void Call::copy(const Tensor &from, const Tensor &to) const {
  copy_strided(from, from.strides(), 0, to, to.strides(), 0, to.shape);
}

void Call::copy_strided(const Tensor &from, const Shape &from_strides, int64_t from_offset, const Tensor &to,
                        const Shape &to_strides, int64_t to_offset, const Shape &shape) const {
  // The dims in the order of the target's memory, so that neighbouring threads write neighbouring elements.
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return to_strides[a] > to_strides[b]; });
  std::vector<uint32_t> push(kMaxRank * 3 + 3);
  std::fill(push.begin(), push.begin() + kMaxRank, 1);
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t place = kMaxRank - order.size() + i;
    push[place] = static_cast<uint32_t>(shape[order[i]]);
    push[kMaxRank + place] = static_cast<uint32_t>(from_strides[order[i]]);
    push[2 * kMaxRank + place] = static_cast<uint32_t>(to_strides[order[i]]);
  }
  push[3 * kMaxRank] = static_cast<uint32_t>(from_offset);
  push[3 * kMaxRank + 1] = static_cast<uint32_t>(to_offset);
  push[3 * kMaxRank + 2] = static_cast<uint32_t>(vulkan::count(shape));
  const std::string shader = std::string("copy_strided_") + name_of(from.dtype) + "_" + name_of(to.dtype);
  dispatch_flat(shader, {to}, {from}, std::move(push), vulkan::count(shape));
}

}  // namespace edgecore::vulkan
