// Decides which values of a method stay in device memory during a run. Private to the core.
#ifndef EDGECORE_CORE_DEVICE_USES_H_
#define EDGECORE_CORE_DEVICE_USES_H_

#include "core/method_impl.h"

namespace edgecore {

// The memory in which a tensor value lives during a run.
enum class Home : uint8_t {
  kHost,        // host memory; delegates on a device use copies of the value
  kDevice,      // a device buffer of the method, without host memory
  kState,       // a mutable buffer's device buffer with its current content: DeviceState::content
  kNewContent,  // a mutable buffer's device buffer for its next content: DeviceState::spare
};

// How the instructions of a method use one tensor value.
struct ValueUse {
  const LoadedBackend *backend;  // the backend whose delegates use the value in device memory; NULL: none
  uint32_t memory_kind;          // the kind of device memory that the backend requires
  uint64_t bytes;                // size of a device buffer that suffices for all delegates that use the value
  uint64_t alignment;
  uint32_t last;            // index of the last instruction that uses the value; kNoUse: none
  uint32_t last_on_device;  // index of the last delegate call that uses the value on a device
  uint32_t update;   // index of the aten::copy_ that updates a mutable buffer; set for the buffer and its new content
  uint32_t content;  // for a mutable buffer with an `update`: index of the value with its new content
  uint32_t state;    // index of the mutable buffer; set if `home` is kState or kNewContent, or if has_new_content
  Home home;
  bool on_host;             // true if a user of the value needs host memory: a kernel, the caller, a list or a delegate
  bool several;             // true if several backends or memory kinds use the value, or it updates several buffers
  bool written_first;       // true if the first instruction that uses the value writes it
  bool read;                // true if an instruction reads the value after the first instruction that uses it
  bool twice;               // true if two arguments of one delegate call are this value
  bool is_viewed;           // true if the value is a view, or another value is a view of it
  bool is_fresh;            // used by `find`: true if the device copy is up to date at the current instruction
  bool is_fresh_at_update;  // value of `is_fresh` at the instruction `update`
  bool has_one_copy;        // for Home::kHost: true if all delegate calls that use the value can share a device copy
  bool has_new_content;  // for Home::kHost: true if the device copy is in the spare device buffer of a mutable buffer
};

constexpr uint32_t kNoUse = UINT32_MAX;

// The uses of all values of a method, and the memory chosen for each value. Values stay on a device only in methods
// without branches and moves, because only there the order of execution is known in advance.
class DeviceUses {
 public:
  explicit DeviceUses(MethodImpl &method) : method_(method) {}

  // Finds the uses, chooses each value's memory, and sets Staging::is_fresh of all arguments of delegate calls.
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
  bool is_straight_ = true;  // true if the method has no branches and no moves
  uint64_t steps_ = 0;       // number of values that may still be compared with all others; from Limits::items
};

}  // namespace edgecore

#endif  // EDGECORE_CORE_DEVICE_USES_H_
