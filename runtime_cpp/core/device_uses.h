// Finds the values of a method that can stay in device memory. Private to the core.
#ifndef EDGECORE_CORE_DEVICE_USES_H_
#define EDGECORE_CORE_DEVICE_USES_H_

#include "core/method_impl.h"

namespace edgecore {

// The memory of a tensor value.
enum class Home : uint8_t {
  kHost,        // host memory; delegates on a device use copies
  kDevice,      // a device buffer of the method
  kState,       // the device buffer of a mutable buffer: DeviceState::content
  kNewContent,  // the spare device buffer of a mutable buffer: DeviceState::spare
};

// How the instructions of a method use one tensor value.
struct ValueUse {
  const LoadedBackend *backend;  // the backend whose device uses the value; NULL: none
  uint32_t memory_kind;          // memory kind on that device
  uint64_t bytes;                // size that its delegates require of a device buffer
  uint64_t alignment;
  uint32_t last;            // the last instruction that uses the value; kNoUse: none
  uint32_t last_on_device;  // the last delegate call of a device that uses it
  uint32_t update;   // the aten::copy_ between a new content and a mutable buffer; set for both values; kNoUse: none
  uint32_t content;  // for a mutable buffer with an update: the value with the new content
  uint32_t state;    // for kState, kNewContent and has_new_content: the value that is the mutable buffer
  Home home;
  bool on_host;             // a kernel, the caller, a list or a delegate that needs host memory uses the value
  bool several;             // several backends or memory kinds use it, or it is the new content of several buffers
  bool written_first;       // the first use writes it
  bool read;                // an instruction reads it after its first use
  bool twice;               // two arguments of one delegate call are this value
  bool is_viewed;           // another value is a view of it, or it is a view
  bool is_fresh;            // only within `find`: its device copy is up to date
  bool is_fresh_at_update;  // `is_fresh` at the instruction `update`
  bool has_one_copy;        // for kHost: all its delegate calls can share one copy
  bool has_new_content;     // for kHost: its copy is in the spare buffer of a mutable buffer: DeviceState::spare
};

constexpr uint32_t kNoUse = UINT32_MAX;

// The uses and homes of all values of a method. Values stay on a device only in methods without branches and moves,
// because there the execution order is known.
class DeviceUses {
 public:
  explicit DeviceUses(MethodImpl &method) : method_(method) {}

  // Finds the uses, chooses the homes, and sets Staging::is_fresh of all delegate arguments.
  Status find(Error &error);
  const ValueUse &operator[](size_t value) const { return uses_[value]; }

 private:
  ValueUse &note(size_t value, uint32_t pc, bool writes);
  void note_host(size_t value, uint32_t pc, bool writes);
  void note_kernel(const Instruction &instruction, uint32_t pc);
  void note_delegate(const Instruction &instruction, uint32_t pc);
  bool is_update(const Instruction &instruction) const;
  void note_update(const Instruction &instruction, uint32_t pc);

  bool is_planned(size_t value) const;
  bool overlap(size_t a, size_t b) const;
  bool has_alias(size_t value) const;
  bool on_same_device(const ValueUse &use, const ValueUse &other) const;
  bool can_have_one_copy(size_t value) const;
  bool is_on_device(size_t value) const;
  bool can_hold_new_content(size_t value) const;
  bool choose_state(size_t state);
  void choose(size_t value);
  bool spend();

  MethodImpl &method_;
  Span<ValueUse> uses_;
  bool is_straight_ = true;  // the method has no branches and no moves
  uint64_t steps_ = 0;       // number of values that may still be compared with all others
};

}  // namespace edgecore

#endif  // EDGECORE_CORE_DEVICE_USES_H_
