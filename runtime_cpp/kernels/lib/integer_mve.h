// Loops over int8 or int16 values and int8 weights for Arm's MVE, the vector instructions of Cortex-M55 and M85. The
// number of elements may be 0. The loops are in assembly, because GCC 12 moves predicates of intrinsics through
// ordinary registers, and does not generate loops with a partial last vector (wlstp and letp). Never mix these loops
// with code that uses MVE intrinsics: they change the predicate register, and no compiler lets assembly declare that.
//
// Some instructions for int8 and int16 differ only in the width of their elements: their names contain the operand
// `bits`, which is 8 or 16. A 32-bit sum holds at most kBlockOfProducts products of int16 values.
#ifndef EDGECORE_KERNELS_INTEGER_MVE_H_
#define EDGECORE_KERNELS_INTEGER_MVE_H_

#include <stddef.h>

#include "lib/fixed_point.h"
#include "lib/vector.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

template <class Value>
constexpr int32_t kBits = 8 * sizeof(Value);
template <class Value>
constexpr int32_t kMveLanes = 16 / sizeof(Value);

// Returns the sum of the products of n values and weights; n is at most kBlockOfProducts for int16 values. Values are
// loaded as bytes even if they are int16, because a predicate has one bit for each byte.
template <class Value>
inline int32_t mve_dot(const Value *values, const int8_t *weights, int32_t n) {
  int32_t sum = 0;
  __asm volatile(
      "wlstp.%c[bits] lr, %[n], 2f\n"
      "1:\n"
      "vldrb.u8 q0, [%[values]], #16\n"
      "vldrb.s%c[bits] q1, [%[weights]], #%c[lanes]\n"
      "vmlava.s%c[bits] %[sum], q0, q1\n"
      "letp lr, 1b\n"
      "2:\n"
      : [sum] "+Te"(sum), [values] "+r"(values), [weights] "+l"(weights)
      : [n] "r"(n), [bits] "i"(kBits<Value>), [lanes] "i"(kMveLanes<Value>)
      : "q0", "q1", "lr", "cc", "memory");
  return sum;
}

// Computes sums[i * step] for i in [0, 4): the dot product of row i of the weights and `column`, n elements each.
template <class Value>
inline void mve_dot4(const int8_t *const (&rows)[4], const Value *column, int32_t n, SumOf<Value> *sums, int32_t step) {
  const int8_t *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
  bool is_first = true;
  do {
    const int32_t size = sizeof(Value) == 1 ? n : static_cast<int32_t>(min_of(n, kBlockOfProducts));
    int32_t w = 0, x = 0, y = 0, z = 0;
    __asm volatile(
        "wlstp.%c[bits] lr, %[n], 2f\n"
        "1:\n"
        "vldrb.u8 q0, [%[column]], #16\n"
        "vldrb.s%c[bits] q1, [%[a]], #%c[lanes]\n"
        "vmlava.s%c[bits] %[w], q0, q1\n"
        "vldrb.s%c[bits] q2, [%[b]], #%c[lanes]\n"
        "vmlava.s%c[bits] %[x], q0, q2\n"
        "vldrb.s%c[bits] q1, [%[c]], #%c[lanes]\n"
        "vmlava.s%c[bits] %[y], q0, q1\n"
        "vldrb.s%c[bits] q2, [%[d]], #%c[lanes]\n"
        "vmlava.s%c[bits] %[z], q0, q2\n"
        "letp lr, 1b\n"
        "2:\n"
        : [w] "+Te"(w), [x] "+Te"(x), [y] "+Te"(y), [z] "+Te"(z), [a] "+l"(a), [b] "+l"(b), [c] "+l"(c), [d] "+l"(d),
          [column] "+r"(column)
        : [n] "r"(size), [bits] "i"(kBits<Value>), [lanes] "i"(kMveLanes<Value>)
        : "q0", "q1", "q2", "lr", "cc", "memory");
    if (is_first) {
      sums[0] = w;
      sums[step] = x;
      sums[2 * step] = y;
      sums[3 * step] = z;
    } else {
      sums[0] += w;
      sums[step] += x;
      sums[2 * step] += y;
      sums[3 * step] += z;
    }
    is_first = false;
    n -= size;
  } while (n > 0);
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

// Transposes a matrix: copies `count` <= 8 elements of each of `rows` rows, which are `row_step` elements apart, to
// columns that are `column_step` < 2^13 elements apart.
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

// Computes sums[i] for i in [0, 12): the sum over t in [0, taps) of weights[t] * values[offsets[t] + i]. For int16
// values, `taps` is at most kBlockOfProducts.
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

// Requantizes n sums with one factor. The instructions vqrdmulh and vrshl round like multiply_high and shift_right.
inline void mve_requantize(const int32_t *sums, int32_t n, int32_t bias, Factor factor, Range<int8_t> range,
                           int8_t *out) {
  const int32_t left = factor.shift > 0 ? factor.shift : 0;
  const int32_t right = factor.shift - left;
  const int32_t limits[3] = {range.low - range.zero_point, range.high - range.zero_point, range.zero_point};
  int32_t limit;  // one register for three numbers, which are needed one after the other
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

// Widens n sums to 64 bits and copies them. Rounds n up to a multiple of 4.
inline void mve_widen(const int32_t *source, int32_t n, int64_t *target) {
  __asm volatile(
      "wls lr, %[vectors], 2f\n"
      "1:\n"
      "vldrw.u32 q0, [%[source]], #16\n"
      "vshr.s32 q1, q0, #31\n"
      "vst20.32 {q0, q1}, [%[target]]\n"
      "vst21.32 {q0, q1}, [%[target]]!\n"
      "le lr, 1b\n"
      "2:\n"
      : [source] "+r"(source), [target] "+r"(target)
      : [vectors] "r"((n + 3) / 4)
      : "q0", "q1", "lr", "cc", "memory");
}

// Computes out[i] = (sums[i] * multiplier + offset) / 2^shift, clamped, for i in [0, n) and a shift of at least 2.
// (With a shift of 1, the bits of the lower half could turn a saturated negative result into -1.) Reads n sums, rounded
// up to a multiple of 4. q0 and q1 hold the lower and upper halves of four products. The carry of the lower half is
// added to the upper half. The upper half saturates when it is shifted to its place in a 32-bit result.
inline void mve_requantize(const int64_t *sums, int32_t n, int64_t offset, WideFactor factor, Range<int16_t> limits,
                           int16_t *out) {
  const int32_t numbers[4] = {factor.multiplier, limits.low, limits.high, -1};
  const auto low = static_cast<int32_t>(offset);
  const auto high_and_carry = static_cast<int32_t>((offset >> 32) + 1);
  int32_t number;  // one register for four numbers, which are needed one after the other
  __asm volatile(
      "ldr %[number], [%[numbers]]\n"
      "vdup.32 q3, %[number]\n"
      "ldr %[number], [%[numbers], #4]\n"
      "vdup.32 q4, %[number]\n"
      "ldr %[number], [%[numbers], #8]\n"
      "vdup.32 q5, %[number]\n"
      "ldr %[number], [%[numbers], #12]\n"
      "wls lr, %[vectors], 2f\n"
      "1:\n"
      "vld20.32 {q0, q1}, [%[sums]]\n"
      "vld21.32 {q0, q1}, [%[sums]]!\n"
      "vmul.i32 q1, q1, q3\n"
      "vmulh.u32 q2, q0, q3\n"
      "vadd.i32 q1, q1, q2\n"
      "vmul.i32 q0, q0, q3\n"
      "vadd.i32 q0, q0, %[low]\n"
      "vadd.i32 q1, q1, %[high_and_carry]\n"
      "vpt.u32 cs, q0, %[low]\n"  // execute the next instruction only in lanes where the lower halves' sum has no carry
      "vaddt.i32 q1, q1, %[number]\n"
      "vshl.u32 q0, %[right]\n"
      "vqshl.s32 q1, %[left]\n"
      "vorr q0, q0, q1\n"
      "vmax.s32 q0, q0, q4\n"
      "vmin.s32 q0, q0, q5\n"
      "vctp.32 %[n]\n"
      "vpst\n"
      "vstrht.32 q0, [%[out]], #8\n"
      "sub %[n], %[n], #4\n"
      "le lr, 1b\n"
      "2:\n"
      : [sums] "+r"(sums), [out] "+l"(out), [n] "+r"(n), [number] "=&r"(number)
      : [vectors] "r"((n + 3) / 4), [low] "r"(low), [high_and_carry] "r"(high_and_carry), [right] "r"(-factor.shift),
        [left] "r"(32 - factor.shift), [numbers] "r"(numbers)
      : "q0", "q1", "q2", "q3", "q4", "q5", "lr", "cc", "memory");
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_INTEGER_MVE_H_
