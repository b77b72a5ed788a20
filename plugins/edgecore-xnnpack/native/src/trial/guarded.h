// Memory between pages that may not be touched.
#ifndef EDGECORE_XNNPACK_TRIAL_GUARDED_H_
#define EDGECORE_XNNPACK_TRIAL_GUARDED_H_

#include <cstddef>
#include <cstdint>

namespace edgecore::xnnpack::trial {

// Pages with one before and one after them that fault. The memory is kept, and grows.
class Guarded {
 public:
  Guarded() = default;
  Guarded(const Guarded &) = delete;
  Guarded &operator=(const Guarded &) = delete;
  ~Guarded();

  // `bytes` aligned as `alignment` says, which end `padding` bytes before the upper guard, or begin at the lower one.
  // What is around them is filled with ones, which are NaN as floats. NULL without memory.
  uint8_t *allocate(size_t bytes, size_t padding, size_t alignment, bool at_start);

 private:
  uint8_t *pages_ = nullptr;  // the lower guard
  size_t size_ = 0;           // between the guards
};

}  // namespace edgecore::xnnpack::trial

#endif  // EDGECORE_XNNPACK_TRIAL_GUARDED_H_
