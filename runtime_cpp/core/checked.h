// Arithmetic on numbers from files. Functions named *_overflows return true if the result does not fit in 64 bits.
#ifndef EDGECORE_CORE_CHECKED_H_
#define EDGECORE_CORE_CHECKED_H_

#include <stdint.h>

namespace edgecore {

inline bool add_overflows(uint64_t a, uint64_t b, uint64_t *sum) { return __builtin_add_overflow(a, b, sum); }
inline bool multiply_overflows(uint64_t a, uint64_t b, uint64_t *product) {
  return __builtin_mul_overflow(a, b, product);
}

// Returns true if the range [offset, offset + size) lies within [0, total).
inline bool contains(uint64_t total, uint64_t offset, uint64_t size) {
  return offset <= total && size <= total - offset;
}

inline bool is_power_of_two(uint64_t x) { return x != 0 && (x & (x - 1)) == 0; }

}  // namespace edgecore

#endif  // EDGECORE_CORE_CHECKED_H_
