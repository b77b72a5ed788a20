#include "state.h"

#include <cstring>

namespace edgecore::vulkan {

using backend::fail;

namespace {

constexpr int32_t kHalf = 5, kFloat = 6;  // the numbers of fp16 and fp32 in the .pte format (ScalarType)

}  // namespace

const Buffer &State::add(const std::string &name, const Value &tensor, edgecore_bytes initial) {
  for (const Entry &entry : entries_) {
    if (entry.name != name) continue;
    if (entry.type == tensor.type && entry.shape == tensor.shape) return *entry.memory;
    fail(EDGECORE_INVALID_PROGRAM, "two delegates give the state '%s' different dtypes or shapes", name.c_str());
  }
  if (tensor.type != DataType::kFloat32 && tensor.type != DataType::kFloat16) {
    fail(EDGECORE_NOT_SUPPORTED, "the state '%s' is no tensor of floats", name.c_str());
  }
  const uint64_t bytes = static_cast<uint64_t>(vulkan::count(tensor.shape)) * size_of(tensor.type);
  if (initial.size != 0 && initial.size != bytes) {
    fail(EDGECORE_INVALID_PROGRAM, "the initial values of the state '%s' have the wrong size", name.c_str());
  }
  const uint64_t whole = bytes == 0 ? 16 : (bytes + 15) / 16 * 16;
  entries_.push_back(
      {name, tensor.type, tensor.shape, bytes, initial, std::make_unique<Buffer>(device_, whole, device_.unified())});
  write(entries_.back(), initial.size == 0 ? nullptr : initial.data);
  return *entries_.back().memory;
}

void State::describe(uint64_t index, edgecore_state_tensor &out) const noexcept {
  const Entry &entry = entries_[index];
  out.name = backend::to_str(entry.name);
  out.scalar_type = entry.type == DataType::kFloat16 ? kHalf : kFloat;
  out.ndim = static_cast<int32_t>(entry.shape.size());
  out.shape = entry.shape.data();
  out.bytes = entry.bytes;
}

void State::reset() {
  for (const Entry &entry : entries_) write(entry, entry.initial.size == 0 ? nullptr : entry.initial.data);
}

void State::import_state(uint64_t index, edgecore_bytes in) { write(entries_[index], in.data); }

// Writes a buffer's elements, or zeros if `from` is null.
void State::write(const Entry &entry, const uint8_t *from) const {
  const Buffer staging = device_.unified() ? Buffer() : Buffer(device_, entry.memory->size(), true);
  const Buffer &target = device_.unified() ? *entry.memory : staging;
  std::memset(target.mapped(), 0, target.size());
  if (from != nullptr && entry.bytes != 0) std::memcpy(target.mapped(), from, entry.bytes);
  target.flush();
  if (!device_.unified()) device_.copy(staging, *entry.memory, 0, staging.size());
}

void State::export_state(uint64_t index, edgecore_memory_block out) const {
  const Entry &entry = entries_[index];
  if (entry.bytes == 0) return;
  const Buffer staging = device_.unified() ? Buffer() : Buffer(device_, entry.memory->size(), true);
  if (!device_.unified()) device_.copy(*entry.memory, staging, 0, staging.size());
  const Buffer &source = device_.unified() ? *entry.memory : staging;
  source.invalidate();
  std::memcpy(out.data, source.mapped(), entry.bytes);
}

}  // namespace edgecore::vulkan
