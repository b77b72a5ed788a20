// The class HostState: mutable buffers of a model in host memory. edgecore/backend.hpp includes this file.
#ifndef EDGECORE_HOST_STATE_HPP_
#define EDGECORE_HOST_STATE_HPP_

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "edgecore/byte_reader.hpp"

namespace edgecore::backend {

class Host;

// Mutable buffers of the model, such as a KV cache, in host memory of the backend: a fifth class for make_table.
class HostState {
 public:
  template <typename Program>
  HostState(Program &, const Host &) {}

  // Returns the memory of a buffer, aligned to 64 bytes and followed by 128 readable bytes. The memory lives as long as
  // this HostState. The first call with a name adds the buffer and fills it with `initial`, bytes in row-major order;
  // an empty `initial` stands for zeros. `initial` is not copied: it must stay valid as long as instances use the
  // buffer. Throws if a buffer of this name was added with another dtype or shape.
  void *add(std::string_view name, int32_t scalar_type, const std::vector<int64_t> &shape, uint64_t bytes,
            edgecore_bytes initial) {
    for (const Buffer &buffer : buffers_) {
      if (buffer.name != name) continue;
      if (buffer.scalar_type == scalar_type && buffer.shape == shape && buffer.bytes == bytes) return buffer.data.get();
      fail(EDGECORE_INVALID_PROGRAM, "two delegates give the state '%s' different dtypes or shapes",
           buffer.name.c_str());
    }
    if (initial.size != 0 && initial.size != bytes) {
      fail(EDGECORE_INVALID_PROGRAM, "the initial values of the state '%.*s' have the wrong size",
           static_cast<int>(name.size()), name.data());
    }
    if (bytes > SIZE_MAX - kTail) throw std::bad_alloc();
    const size_t size = static_cast<size_t>(bytes);
    std::unique_ptr<void, Free> data(::operator new(size + kTail, std::align_val_t(kAlignment)));
    std::memset(static_cast<char *>(data.get()) + size, 0, kTail);
    buffers_.push_back({std::string(name), scalar_type, shape, bytes, initial, std::move(data)});
    fill(buffers_.back());
    return buffers_.back().data.get();
  }

  uint64_t count() const noexcept { return buffers_.size(); }
  void describe(uint64_t index, edgecore_state_tensor &out) const noexcept {
    const Buffer &buffer = buffers_[static_cast<size_t>(index)];
    out.name = to_str(buffer.name);
    out.scalar_type = buffer.scalar_type;
    out.ndim = static_cast<int32_t>(buffer.shape.size());
    out.shape = buffer.shape.data();
    out.bytes = buffer.bytes;
  }
  void reset() {
    for (Buffer &buffer : buffers_) fill(buffer);
  }
  void export_state(uint64_t index, edgecore_memory_block out) const {
    const Buffer &buffer = buffers_[static_cast<size_t>(index)];
    std::memcpy(out.data, buffer.data.get(), static_cast<size_t>(out.bytes));
  }
  void import_state(uint64_t index, edgecore_bytes in) {
    const Buffer &buffer = buffers_[static_cast<size_t>(index)];
    std::memcpy(buffer.data.get(), in.data, static_cast<size_t>(in.size));
  }

 private:
  static constexpr size_t kAlignment = 64, kTail = 128;
  struct Free {
    void operator()(void *data) const { ::operator delete(data, std::align_val_t(kAlignment)); }
  };
  struct Buffer {
    std::string name;
    int32_t scalar_type;
    std::vector<int64_t> shape;
    uint64_t bytes;
    edgecore_bytes initial;
    std::unique_ptr<void, Free> data;
  };

  static void fill(Buffer &buffer) {
    const size_t size = static_cast<size_t>(buffer.bytes);
    if (buffer.initial.size == 0) {
      std::memset(buffer.data.get(), 0, size);
    } else {
      std::memcpy(buffer.data.get(), buffer.initial.data, size);
    }
  }

  std::vector<Buffer> buffers_;
};

}  // namespace edgecore::backend

#endif  // EDGECORE_HOST_STATE_HPP_
