// Vectors of the instruction set that a variant is compiled for, by the compilers' vector extension.
#ifndef EDGECORE_KERNELS_VECTOR_H_
#define EDGECORE_KERNELS_VECTOR_H_

#include <stdint.h>

namespace edgecore {
inline namespace EDGECORE_VARIANT {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kVectorRegisters = 32;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
constexpr int kVectorRegisters = 16;
#elif defined(__aarch64__)
constexpr int kVectorBytes = 16;
constexpr int kVectorRegisters = 32;
#else
constexpr int kVectorBytes = 16;
constexpr int kVectorRegisters = 16;
#endif

template <class C>
struct VectorOf {
  typedef C type __attribute__((vector_size(kVectorBytes)));
};
template <class C>
using Vector = typename VectorOf<C>::type;

template <class C>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(C));

// Any address will do.
template <class C>
inline Vector<C> load_vector(const C *source) {
  Vector<C> v;
  __builtin_memcpy(&v, source, sizeof(v));
  return v;
}
template <class C>
inline void store_vector(C *target, Vector<C> v) {
  __builtin_memcpy(target, &v, sizeof(v));
}

constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }
constexpr int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_VECTOR_H_
