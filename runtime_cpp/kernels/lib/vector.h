// SIMD vectors as wide as the instruction set allows (GCC's and clang's extension), and fast copies of few elements.
#ifndef EDGECORE_KERNELS_VECTOR_H_
#define EDGECORE_KERNELS_VECTOR_H_

#include <stdint.h>

#include "edgecore/processor.h"

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
#elif EDGECORE_MICROCONTROLLER
// Without SIMD, a vector has one element, which fits an ordinary register; a wider vector would be in memory.
constexpr int kVectorBytes = 4;
constexpr int kVectorRegisters = 8;
#else
constexpr int kVectorBytes = 16;
constexpr int kVectorRegisters = 16;
#endif

template <class C>
constexpr int kLanes = kVectorBytes > static_cast<int>(sizeof(C)) ? kVectorBytes / static_cast<int>(sizeof(C)) : 1;

template <class C>
struct VectorOf {
  typedef C Type __attribute__((vector_size(kLanes<C> * sizeof(C))));
};
template <class C>
using Vector = typename VectorOf<C>::Type;

// Load and store a vector. The address may have any alignment.
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

// Vector types for copy_block. A vector `Both` has kCount pairs of 32-bit elements, with each pair as one 64-bit
// integer. A vector `First` has the first element of each pair.
template <int kCount>
struct Pairs {
  typedef uint64_t Both __attribute__((vector_size(kCount * 8)));
  typedef uint32_t First __attribute__((vector_size(kCount * 4)));
};

// Copies to[i] = from[i * kStep] for i in [0, kCount). With kStep 2, each pair of 32-bit elements is read as a 64-bit
// integer, whose low half is the first element on a little-endian processor: a narrowing conversion of integers then
// extracts the first elements with few instructions. So even from[2 * kCount - 1] must be readable. Only bits are
// copied: NaN and subnormals do not change.
template <int kStep, int kCount, class C>
inline void copy_block(C *to, const C *from) {
  if constexpr (kStep == 2 && sizeof(C) == 4) {
    typename Pairs<kCount>::Both pairs;
    __builtin_memcpy(&pairs, from, sizeof(pairs));
    const auto low = __builtin_convertvector(pairs, typename Pairs<kCount>::First);
    __builtin_memcpy(to, &low, sizeof(low));
  } else {
    C block[kCount];
    for (int i = 0; i < kCount; ++i) block[i] = from[i * kStep];
    __builtin_memcpy(to, block, sizeof(block));
  }
}

// Copies to[i] = from[i * kStep] for i in [0, n) with n < 2 kCount, without a loop over single elements. If n >=
// kCount, two overlapping blocks of kCount elements cover all n elements; otherwise the function calls itself with half
// of kCount.
template <int kStep, int kCount, class C>
inline void copy_few(C *to, const C *from, int64_t n) {
  if (n >= kCount) {
    copy_block<kStep, kCount>(to, from);
    copy_block<kStep, kCount>(to + n - kCount, from + (n - kCount) * kStep);
  } else if constexpr (kCount > 1) {
    copy_few<kStep, kCount / 2>(to, from, n);
  }
}

// Copies to[i] = from[i * kStep] for i in [0, n). Also fast for a small n, such as a row of a small image.
template <int kStep, class C>
inline void copy_run(C *to, const C *from, int64_t n) {
  if (n <= 0) return;
  // copy the last element separately: copy_block reads pairs, and the last pair would end past the array
  if constexpr (kStep > 1) to[n - 1] = from[(n - 1) * kStep], --n;
  for (; n >= 2 * kLanes<C>; n -= kLanes<C>, to += kLanes<C>, from += kLanes<C> * kStep) {
    copy_block<kStep, kLanes<C>>(to, from);
  }
  copy_few<kStep, kLanes<C>>(to, from, n);
}

// Copies to[i] = from[i * step] for i in [0, n), with fast code for the steps 1 and 2.
template <class C>
inline void copy_steps(C *to, const C *from, int64_t step, int64_t n) {
  if (step == 1) {
    copy_run<1>(to, from, n);
  } else if (step == 2) {
    copy_run<2>(to, from, n);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
  }
}

// Transposes a block of 4x4 elements: to[j * to_step + i] = from[i * step + j].
inline void transpose_block(const float *from, int64_t step, float *to, int64_t to_step) {
#if defined(__clang__) || __GNUC__ >= 12
  typedef float Four __attribute__((vector_size(16)));
  Four rows[4];
  for (int i = 0; i < 4; ++i) __builtin_memcpy(&rows[i], from + i * step, sizeof(Four));
  const Four low01 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const Four low23 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
  const Four high01 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  const Four high23 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
  const Four columns[4] = {
      __builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
      __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (int j = 0; j < 4; ++j) __builtin_memcpy(to + j * to_step, &columns[j], sizeof(Four));
#else
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) to[j * to_step + i] = from[i * step + j];
  }
#endif
}

// Transposes a matrix of `rows` x `columns` elements: to[j * to_step + i] = from[i * step + j].
inline void copy_transposed(const float *from, int64_t step, int64_t rows, int64_t columns, float *to,
                            int64_t to_step) {
  const int64_t full_rows = rows / 4 * 4;
  const int64_t full_columns = columns / 4 * 4;
  for (int64_t i = 0; i < full_rows; i += 4) {
    for (int64_t j = 0; j < full_columns; j += 4)
      transpose_block(from + i * step + j, step, to + j * to_step + i, to_step);
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < full_rows ? full_columns : 0; j < columns; ++j) to[j * to_step + i] = from[i * step + j];
  }
}

constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }
constexpr int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_VECTOR_H_
