#include "call.h"

#include <cstdarg>
#include <utility>

#include "recorder.h"

namespace edgecore::vulkan {

using backend::fail;

namespace {

constexpr uint32_t kMaxGroups = 65535;

// Returns the texel format in which a shader reads a tensor, or VK_FORMAT_UNDEFINED if it reads the tensor from a
// storage buffer.
VkFormat format_of(const Tensor &tensor) {
  const bool is_half = tensor.dtype == Dtype::kFloat16, is_byte = tensor.dtype == Dtype::kInt8;
  switch (tensor.texel) {
    case 0:
      return VK_FORMAT_UNDEFINED;
    case 1:
      return is_byte ? VK_FORMAT_R8_SINT : is_half ? VK_FORMAT_R16_SFLOAT : VK_FORMAT_R32_SFLOAT;
    default:
      return is_byte   ? VK_FORMAT_R8G8B8A8_SINT
             : is_half ? VK_FORMAT_R16G16B16A16_SFLOAT
                       : VK_FORMAT_R32G32B32A32_SFLOAT;
  }
}

}  // namespace

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
  const Value &argument = value(index);
  if (argument.kind != Kind::kInt && argument.kind != Kind::kBool && argument.kind != Kind::kSymInt) {
    damaged("argument %zu is no integer", index);
  }
  return recorder_.integer(call_.args[index]);
}

double Call::number(size_t index) const {
  const Value &argument = value(index);
  return argument.kind == Kind::kDouble ? argument.number : static_cast<double>(integer(index));
}

const std::string &Call::text(size_t index) const {
  if (value(index).kind != Kind::kString) damaged("argument %zu is no text", index);
  return value(index).text;
}

double Call::number_or(size_t index, double otherwise) const { return is_none(index) ? otherwise : number(index); }

std::array<int64_t, 2> Call::pair(size_t index, int64_t min) const {
  const std::vector<int64_t> values = integers(index);
  if (values.empty() || values.size() > 2) damaged("argument %zu has %zu numbers", index, values.size());
  for (const int64_t number : values) {
    if (number < min || number > INT16_MAX) damaged("argument %zu is out of range", index);
  }
  return {values.front(), values.back()};
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
  const std::vector<int64_t> values = integers(index);
  return {values.begin(), values.end()};
}

size_t Call::dim(size_t index, size_t rank) const {
  const int64_t number = integer(index), signed_rank = static_cast<int64_t>(rank);
  if (number < -signed_rank || number >= signed_rank) {
    damaged("argument %zu is the dim %lld of a tensor with %zu dims", index, static_cast<long long>(number), rank);
  }
  return static_cast<size_t>(number < 0 ? number + signed_rank : number);
}

DataType Call::data_type(size_t index) const {
  if (!is_tensor(index)) damaged("argument %zu is no tensor", index);
  return value(index).type;
}

const Shape &Call::constant_shape(size_t index) const {
  const Value &argument = value(index);
  if (argument.kind != Kind::kTensor || argument.constant < 0) damaged("argument %zu is no constant", index);
  return argument.shape;
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

void Call::check_iterations(int64_t iterations) const {
  // llvmpipe, a software device, silently ends the loops of a thread after 65,535 iterations in total.
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

void Call::set_integer(size_t index, int64_t number) const {
  if (value(index).kind != Kind::kSymInt) damaged("argument %zu is no symbolic integer", index);
  recorder_.set_integer(call_.args[index], number);
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

}  // namespace edgecore::vulkan
