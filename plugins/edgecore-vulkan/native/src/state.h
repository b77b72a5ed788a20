// The mutable buffers of the model that a session keeps on the device.
#ifndef EDGECORE_VULKAN_STATE_H_
#define EDGECORE_VULKAN_STATE_H_

#include <memory>
#include <string>
#include <vector>

#include "blob.h"
#include "vulkan/device.h"

namespace edgecore::vulkan {

// The state set of a session: one of the five classes of edgecore/backend.hpp. Used by one thread at a time.
class State {
 public:
  explicit State(Device &device) : device_(device) {}

  // Returns the memory of a state buffer, which lives as long as the set. The first call with a name adds the buffer.
  // `tensor` gives the type and shape of the buffer, `initial` its initial values; no bytes mean zeros. `tensor` and
  // `initial` must stay valid as long as the set has instances. Throws a Failure if the set has a buffer of this name
  // with another type or shape.
  const Buffer &add(const std::string &name, const Value &tensor, edgecore_bytes initial);

  uint64_t count() const noexcept { return entries_.size(); }
  void describe(uint64_t index, edgecore_state_tensor &out) const noexcept;
  void reset();
  void export_state(uint64_t index, edgecore_memory_block out) const;
  void import_state(uint64_t index, edgecore_bytes in);

 private:
  struct Entry {
    std::string name;
    DataType type;
    Shape shape;
    uint64_t bytes;
    edgecore_bytes initial;
    std::unique_ptr<Buffer> memory;
  };
  void write(const Entry &entry, const uint8_t *from) const;

  Device &device_;
  std::vector<Entry> entries_;
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_STATE_H_
