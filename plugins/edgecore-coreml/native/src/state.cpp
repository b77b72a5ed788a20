#include "state.h"

#include <cmath>
#include <cstring>

namespace edgecore::coreml {
namespace {

using edgecore::backend::fail;

constexpr int32_t kHalf = 5;  // float16 in the enum ScalarType of the .pte

size_t element_count(const std::vector<int64_t> &shape) {
  size_t elements = 1;
  for (const int64_t size : shape) elements *= static_cast<size_t>(size);
  return elements;
}

size_t scalar_bytes(int32_t scalar_type) { return scalar_type == kHalf ? 2 : 4; }

void to_halves(int32_t scalar_type, const void *from, std::vector<uint16_t> &to) {
  if (scalar_type == kHalf) {
    std::memcpy(to.data(), from, to.size() * sizeof(uint16_t));
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) {
    float value = 0;
    std::memcpy(&value, static_cast<const char *>(from) + i * sizeof(value), sizeof(value));
    to[i] = to_half(value);
  }
}

}  // namespace

float to_float(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float size = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                     : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                     : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (half >> 15) != 0 ? -size : size;
}

uint16_t to_half(float value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float size = std::fabs(value);
  if (std::isnan(size)) return sign | 0x7E00;
  if (size >= 65520.0F) return sign | 0x7C00;  // 65520 is the smallest number that float16 rounds to infinity
  int exponent = 0;
  std::frexp(size, &exponent);  // sets `exponent` so that `size` is in [0.5, 1) * 2^exponent
  const int shift = size == 0 || exponent < -13 ? -24 : exponent - 11;  // the float16's last bit is worth 2^shift
  const auto bits = static_cast<uint16_t>(std::nearbyint(std::ldexp(size, -shift)));
  // The 11 lower bits include the leading 1, so this sum adds 1 to the exponent field, or 2 if rounding has made `bits`
  // 2048.
  return static_cast<uint16_t>(sign + (shift + 24) * 1024 + bits);
}

size_t State::add(const StateInfo &added) {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const StateInfo &known = buffers_[i].info;
    if (known.buffer != added.buffer) continue;
    if (known.scalar_type == added.scalar_type && known.shape == added.shape) return i;
    fail(EDGECORE_INVALID_PROGRAM, "two delegates give the state '%s' different dtypes or shapes",
         added.buffer.c_str());
  }
  const size_t elements = element_count(added.shape);
  if (added.initial.size != 0 && added.initial.size != elements * scalar_bytes(added.scalar_type)) {
    fail(EDGECORE_INVALID_PROGRAM, "the initial values of the state '%s' have the wrong size", added.buffer.c_str());
  }
  buffers_.push_back({added, std::vector<uint16_t>(elements), nullptr, {}});
  fill(buffers_.back());
  return buffers_.size() - 1;
}

void State::fill(Buffer &buffer) {
  buffer.holder = nullptr;
  if (buffer.info.initial.size == 0) {
    buffer.values.assign(buffer.values.size(), 0);
  } else {
    to_halves(buffer.info.scalar_type, buffer.info.initial.data, buffer.values);
  }
}

// If a session holds the latest values of a buffer, copies them from the session's Core ML state back to the buffer.
void State::take(Buffer &buffer) {
  if (buffer.holder == nullptr) return;
  buffer.holder->session->read_state(buffer.state, {Element::kFloat16, buffer.info.shape, buffer.values.data()});
  buffer.holder = nullptr;
}

void State::give(const std::shared_ptr<SharedSession> &session) {
  for (const auto &[index, name] : session->states) {
    Buffer &buffer = buffers_[index];
    if (buffer.holder == session) continue;
    take(buffer);
    session->session->write_state(name, {Element::kFloat16, buffer.info.shape, buffer.values.data()});
    buffer.holder = session;
    buffer.state = name;
  }
}

void State::describe(uint64_t index, edgecore_state_tensor &out) const noexcept {
  const Buffer &buffer = buffers_[index];
  out.name = edgecore::backend::to_str(buffer.info.buffer);
  out.scalar_type = buffer.info.scalar_type;
  out.ndim = static_cast<int32_t>(buffer.info.shape.size());
  out.shape = buffer.info.shape.data();
  out.bytes = buffer.values.size() * scalar_bytes(buffer.info.scalar_type);
}

void State::reset() {
  for (Buffer &buffer : buffers_) fill(buffer);
}

void State::export_state(uint64_t index, edgecore_memory_block out) {
  Buffer &buffer = buffers_[index];
  take(buffer);
  if (buffer.info.scalar_type == kHalf) {
    std::memcpy(out.data, buffer.values.data(), static_cast<size_t>(out.bytes));
    return;
  }
  for (size_t i = 0; i < buffer.values.size(); ++i) {
    const float value = to_float(buffer.values[i]);
    std::memcpy(static_cast<char *>(out.data) + i * sizeof(value), &value, sizeof(value));
  }
}

void State::import_state(uint64_t index, edgecore_bytes in) {
  Buffer &buffer = buffers_[index];
  to_halves(buffer.info.scalar_type, in.data, buffer.values);
  buffer.holder = nullptr;
}

}  // namespace edgecore::coreml
