// Loops over int8 values for Arm's MVE, the vectors of a Cortex-M55 or M85; a count may be 0. They are written in
// assembly: GCC 12 moves predicates of intrinsics through ordinary registers, and makes no loops that end with a
// partial vector, as wlstp and letp do. No compiler knows the predicate register as one that assembly changes, so code
// with MVE intrinsics must not be mixed with these functions.
#ifndef EDGECORE_KERNELS_INT8_MVE_H_
#define EDGECORE_KERNELS_INT8_MVE_H_

#include <stddef.h>

#include "lib/fixed_point.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Returns the sum of the products of n elements.
inline int32_t mve_dot(const int8_t *a, const int8_t *b, int32_t n) {
  int32_t sum = 0;
  __asm volatile(
      "wlstp.8 lr, %[n], 2f\n"
      "1:\n"
      "vldrb.u8 q0, [%[a]], #16\n"
      "vldrb.u8 q1, [%[b]], #16\n"
      "vmlava.s8 %[sum], q0, q1\n"
      "letp lr, 1b\n"
      "2:\n"
      : [sum] "+Te"(sum), [a] "+r"(a), [b] "+r"(b)
      : [n] "r"(n)
      : "q0", "q1", "lr", "cc", "memory");
  return sum;
}

// Computes for i in [0, 4) sums[i * step] = the product of row i and a column, which have n elements.
inline void mve_dot4(const int8_t *const (&rows)[4], const int8_t *column, int32_t n, int32_t *sums, int32_t step) {
  const int8_t *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
  int32_t w = 0, x = 0, y = 0, z = 0;
  __asm volatile(
      "wlstp.8 lr, %[n], 2f\n"
      "1:\n"
      "vldrb.u8 q0, [%[column]], #16\n"
      "vldrb.u8 q1, [%[a]], #16\n"
      "vmlava.s8 %[w], q0, q1\n"
      "vldrb.u8 q2, [%[b]], #16\n"
      "vmlava.s8 %[x], q0, q2\n"
      "vldrb.u8 q1, [%[c]], #16\n"
      "vmlava.s8 %[y], q0, q1\n"
      "vldrb.u8 q2, [%[d]], #16\n"
      "vmlava.s8 %[z], q0, q2\n"
      "letp lr, 1b\n"
      "2:\n"
      : [w] "+Te"(w), [x] "+Te"(x), [y] "+Te"(y), [z] "+Te"(z), [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d),
        [column] "+r"(column)
      : [n] "r"(n)
      : "q0", "q1", "q2", "lr", "cc", "memory");
  sums[0] = w;
  sums[step] = x;
  sums[2 * step] = y;
  sums[3 * step] = z;
}

// Copies n bytes.
inline void mve_copy(void *target, const void *source, int32_t n) {
  __asm volatile(
      "wlstp.8 lr, %[n], 2f\n"
      "1:\n"
      "vldrb.u8 q0, [%[source]], #16\n"
      "vstrb.8 q0, [%[target]], #16\n"
      "letp lr, 1b\n"
      "2:\n"
      : [source] "+r"(source), [target] "+r"(target)
      : [n] "r"(n)
      : "q0", "lr", "cc", "memory");
}

// Copies `count` <= 8 elements of each of `rows` rows, `row_step` elements apart, to columns, `column_step` < 2^13
// elements apart.
inline void mve_transpose(const int8_t *source, int32_t row_step, int32_t rows, int32_t count, int8_t *target,
                          int32_t column_step) {
  int32_t first = 0;
  __asm volatile(
      "vidup.u16 q1, %[first], #1\n"
      "vmul.i16 q1, q1, %[column_step]\n"
      "vctp.16 %[count]\n"
      "wls lr, %[rows], 2f\n"
      "1:\n"
      "vpstt\n"
      "vldrbt.u16 q0, [%[source]]\n"
      "vstrbt.16 q0, [%[target], q1]\n"
      "add %[source], %[source], %[row_step]\n"
      "add %[target], %[target], #1\n"
      "le lr, 1b\n"
      "2:\n"
      : [first] "+Te"(first), [source] "+l"(source), [target] "+r"(target)
      : [row_step] "r"(row_step), [rows] "r"(rows), [count] "r"(count), [column_step] "r"(column_step)
      : "q0", "q1", "lr", "cc", "memory");
}

// Computes 12 sums for i in [0, 12): of weights[t] * values[offsets[t] + i] for t in [0, taps).
inline void mve_add_taps(const int8_t *values, const ptrdiff_t *offsets, const int32_t *weights, int32_t taps,
                         int32_t *sums) {
  const int8_t *at;
  int32_t weight;
  __asm volatile(
      "vmov.i32 q0, #0\n"
      "vmov.i32 q1, #0\n"
      "vmov.i32 q2, #0\n"
      "wls lr, %[taps], 2f\n"
      "1:\n"
      "ldr %[at], [%[offsets]], #4\n"
      "ldr %[weight], [%[weights]], #4\n"
      "add %[at], %[at], %[values]\n"
      "vldrb.s32 q3, [%[at]]\n"
      "vmla.s32 q0, q3, %[weight]\n"
      "vldrb.s32 q3, [%[at], #4]\n"
      "vmla.s32 q1, q3, %[weight]\n"
      "vldrb.s32 q3, [%[at], #8]\n"
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

// Requantizes n sums that have one factor. vqrdmulh and vrshl round as multiply_high and shift_right do.
inline void mve_requantize(const int32_t *sums, int32_t n, int32_t bias, Factor factor, Int8Range range, int8_t *out) {
  const int32_t left = factor.shift > 0 ? factor.shift : 0;
  const int32_t right = factor.shift - left;
  const int32_t limits[3] = {range.low - range.zero_point, range.high - range.zero_point, range.zero_point};
  int32_t limit;  // one register for three numbers
  __asm volatile(
      "ldr %[limit], [%[limits]]\n"
      "vdup.32 q1, %[limit]\n"
      "ldr %[limit], [%[limits], #4]\n"
      "vdup.32 q2, %[limit]\n"
      "ldr %[limit], [%[limits], #8]\n"
      "wlstp.32 lr, %[n], 2f\n"
      "1:\n"
      "vldrw.u32 q0, [%[sums]], #16\n"
      "vadd.i32 q0, q0, %[bias]\n"
      "vqshl.s32 q0, %[left]\n"
      "vqrdmulh.s32 q0, q0, %[multiplier]\n"
      "vrshl.s32 q0, %[right]\n"
      "vmax.s32 q0, q0, q1\n"
      "vmin.s32 q0, q0, q2\n"
      "vadd.i32 q0, q0, %[limit]\n"
      "vstrb.32 q0, [%[out]], #4\n"
      "letp lr, 1b\n"
      "2:\n"
      : [sums] "+r"(sums), [out] "+l"(out), [limit] "=&r"(limit)
      : [n] "r"(n), [bias] "r"(bias), [left] "r"(left), [right] "r"(right), [multiplier] "r"(factor.multiplier),
        [limits] "r"(limits)
      : "q0", "q1", "q2", "lr", "cc", "memory");
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_INT8_MVE_H_
