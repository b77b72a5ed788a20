// The loops of lib/int8_mve.h over int16 values and weights of int8, under the same names. A sum of 32 bits holds the
// products of a block, kBlockOfProducts of them.
#ifndef EDGECORE_KERNELS_INT16_MVE_H_
#define EDGECORE_KERNELS_INT16_MVE_H_

#include <stddef.h>
#include <stdint.h>

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Returns the sum of the products of n elements, at most a block.
inline int32_t mve_dot(const int16_t *values, const int8_t *weights, int32_t n) {
  int32_t sum = 0;
  __asm volatile(
      "wlstp.16 lr, %[n], 2f\n"
      "1:\n"
      "vldrh.u16 q0, [%[values]], #16\n"
      "vldrb.s16 q1, [%[weights]], #8\n"
      "vmlava.s16 %[sum], q0, q1\n"
      "letp lr, 1b\n"
      "2:\n"
      : [sum] "+Te"(sum), [values] "+r"(values), [weights] "+l"(weights)
      : [n] "r"(n)
      : "q0", "q1", "lr", "cc", "memory");
  return sum;
}

// Computes for i in [0, 4) sums[i * step] = the product of row i of weights and a column of values, which have n
// elements.
inline void mve_dot4(const int8_t *const (&rows)[4], const int16_t *column, int32_t n, int64_t *sums, int32_t step) {
  const int8_t *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
  int64_t totals[4] = {};
  for (; n > 0; n -= kBlockOfProducts) {
    const auto size = static_cast<int32_t>(min_of(n, kBlockOfProducts));
    int32_t w = 0, x = 0, y = 0, z = 0;
    __asm volatile(
        "wlstp.16 lr, %[n], 2f\n"
        "1:\n"
        "vldrh.u16 q0, [%[column]], #16\n"
        "vldrb.s16 q1, [%[a]], #8\n"
        "vmlava.s16 %[w], q0, q1\n"
        "vldrb.s16 q2, [%[b]], #8\n"
        "vmlava.s16 %[x], q0, q2\n"
        "vldrb.s16 q1, [%[c]], #8\n"
        "vmlava.s16 %[y], q0, q1\n"
        "vldrb.s16 q2, [%[d]], #8\n"
        "vmlava.s16 %[z], q0, q2\n"
        "letp lr, 1b\n"
        "2:\n"
        : [w] "+Te"(w), [x] "+Te"(x), [y] "+Te"(y), [z] "+Te"(z), [a] "+l"(a), [b] "+l"(b), [c] "+l"(c), [d] "+l"(d),
          [column] "+r"(column)
        : [n] "r"(size)
        : "q0", "q1", "q2", "lr", "cc", "memory");
    totals[0] += w;
    totals[1] += x;
    totals[2] += y;
    totals[3] += z;
  }
  for (ptrdiff_t i = 0; i < 4; ++i) sums[i * step] = totals[i];
}

// Copies `count` <= 8 elements of each of `rows` rows, `row_step` elements apart, to columns, `column_step` < 2^13
// elements apart.
inline void mve_transpose(const int16_t *source, int32_t row_step, int32_t rows, int32_t count, int16_t *target,
                          int32_t column_step) {
  int32_t first = 0;
  __asm volatile(
      "vidup.u16 q1, %[first], #1\n"
      "vmul.i16 q1, q1, %[column_step]\n"
      "vctp.16 %[count]\n"
      "wls lr, %[rows], 2f\n"
      "1:\n"
      "vpstt\n"
      "vldrht.u16 q0, [%[source]]\n"
      "vstrht.16 q0, [%[target], q1, uxtw #1]\n"
      "add %[source], %[source], %[row_step], lsl #1\n"
      "add %[target], %[target], #2\n"
      "le lr, 1b\n"
      "2:\n"
      : [first] "+Te"(first), [source] "+r"(source), [target] "+r"(target)
      : [row_step] "r"(row_step), [rows] "r"(rows), [count] "r"(count), [column_step] "r"(column_step)
      : "q0", "q1", "lr", "cc", "memory");
}

// Computes 12 sums for i in [0, 12): of weights[t] * values[offsets[t] + i] for t in [0, taps), at most a block.
inline void mve_add_taps(const int16_t *values, const ptrdiff_t *offsets, const int32_t *weights, int32_t taps,
                         int32_t *sums) {
  const int16_t *at;
  int32_t weight;
  __asm volatile(
      "vmov.i32 q0, #0\n"
      "vmov.i32 q1, #0\n"
      "vmov.i32 q2, #0\n"
      "wls lr, %[taps], 2f\n"
      "1:\n"
      "ldr %[at], [%[offsets]], #4\n"
      "ldr %[weight], [%[weights]], #4\n"
      "add %[at], %[values], %[at], lsl #1\n"
      "vldrh.s32 q3, [%[at]]\n"
      "vmla.s32 q0, q3, %[weight]\n"
      "vldrh.s32 q3, [%[at], #8]\n"
      "vmla.s32 q1, q3, %[weight]\n"
      "vldrh.s32 q3, [%[at], #16]\n"
      "vmla.s32 q2, q3, %[weight]\n"
      "le lr, 1b\n"
      "2:\n"
      "vstrw.32 q0, [%[sums]]\n"
      "vstrw.32 q1, [%[sums], #16]\n"
      "vstrw.32 q2, [%[sums], #32]\n"
      : [at] "=&l"(at), [weight] "=&r"(weight), [offsets] "+r"(offsets), [weights] "+r"(weights)
      : [taps] "r"(taps), [values] "r"(values), [sums] "r"(sums)
      : "q0", "q1", "q2", "q3", "lr", "cc", "memory");
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_INT16_MVE_H_
