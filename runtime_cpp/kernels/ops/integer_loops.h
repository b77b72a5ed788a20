// Loops over quantized int8 or int16 values: elementwise, over pairs of elements with broadcasting, over sums along the
// last dims, and over the rows of a softmax. Also defines the operators that consist only of such a loop. Indices are
// as wide as a pointer, because 64-bit indices are slow on a microcontroller.
#ifndef EDGECORE_KERNELS_INTEGER_LOOPS_H_
#define EDGECORE_KERNELS_INTEGER_LOOPS_H_

#include <type_traits>

#include "ops/integer_arguments.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

constexpr int64_t kGrain = 16384;  // minimum number of elements that a thread computes at a time

// Computes out[i] = f(input[i]) for all elements, on all threads.
template <class Element, class F>
void for_elements(Call &call, Tensor input, Tensor out, const F &f) {
  if (call.failed() || !check_result<Element>(call, out) || !call.resize(out, input.shape())) return;
  const Element *x = elements<Element>(call, input);
  const BytesOut result(call, out);
  if (call.failed()) return;
  auto *y = reinterpret_cast<Element *>(result.data());
  const auto part = [&](const Element *from, ptrdiff_t n, Element *__restrict to) {
    const F compute = f;  // local copy: otherwise the compiler must assume that a store to int8_t changes `f`
    for (ptrdiff_t i = 0; i < n; ++i) to[i] = compute(from[i]);
  };
  call.parallel(out.numel(), kGrain, [&](int64_t begin, int64_t end, int64_t) {
    part(x + begin, static_cast<ptrdiff_t>(end - begin), y + begin);
  });
  result.finish(call);
}

// Computes out[i] = f(a[i], b[i]) for the elements of two tensors, which may broadcast, on all threads.
template <class Element, class F>
void for_pairs(Call &call, Tensor a, Tensor b, Tensor out, const F &f) {
  const Tensor tensors[2] = {a, b};
  const Shape shape = broadcast(call, tensors, 2);
  if (call.failed() || !check_result<Element>(call, out) || !call.resize(out, shape)) return;
  const Element *first = elements<Element>(call, a);
  const Element *second = elements<Element>(call, b);
  const BytesOut result(call, out);
  if (call.failed() || shape.numel() == 0) return;
  auto *target = reinterpret_cast<Element *>(result.data());
  const bool is_plain = a.numel() == shape.numel() && b.numel() == shape.numel();
  const int64_t width = is_plain || shape.ndim == 0 ? shape.numel() : shape.sizes[shape.ndim - 1];
  // steps[operand][dim] is the operand's stride, in elements, along a dim of the result; 0 if the operand broadcasts.
  ptrdiff_t steps[2][kMaxDims] = {};
  for (int operand = 0; operand < 2; ++operand) {
    int64_t step = 1;
    for (int dim = tensors[operand].ndim() - 1, to = shape.ndim - 1; dim >= 0; --dim, --to) {
      steps[operand][to] = tensors[operand].size(dim) == 1 ? 0 : static_cast<ptrdiff_t>(step);
      step *= tensors[operand].size(dim);
    }
  }
  const auto row = [&](const Element *x, ptrdiff_t x_step, const Element *y, ptrdiff_t y_step, ptrdiff_t n,
                       Element *__restrict z) {
    const F compute = f;  // local copy: otherwise the compiler must assume that a store to int8_t changes `f`
    if (x_step == 1 && y_step == 1) {
      for (ptrdiff_t i = 0; i < n; ++i) z[i] = compute(x[i], y[i]);
    } else {
      for (ptrdiff_t i = 0; i < n; ++i) z[i] = compute(x[i * x_step], y[i * y_step]);
    }
  };
  if (is_plain) {
    call.parallel(width, kGrain, [&](int64_t begin, int64_t end, int64_t) {
      row(first + begin, 1, second + begin, 1, static_cast<ptrdiff_t>(end - begin), target + begin);
    });
  } else {
    const int last = shape.ndim - 1;  // at least 0: is_plain is true for a result without dims
    call.parallel(shape.numel() / width, kGrain / width + 1, [&](int64_t begin, int64_t end, int64_t) {
      for (auto i = static_cast<ptrdiff_t>(begin); i < static_cast<ptrdiff_t>(end); ++i) {
        ptrdiff_t rest = i;
        ptrdiff_t offsets[2] = {};
        for (int dim = last - 1; dim >= 0; --dim) {
          const auto size = static_cast<ptrdiff_t>(shape.sizes[dim]);
          for (int operand = 0; operand < 2; ++operand) offsets[operand] += rest % size * steps[operand][dim];
          rest /= size;
        }
        row(first + offsets[0], steps[0][last], second + offsets[1], steps[1][last], static_cast<ptrdiff_t>(width),
            target + i * static_cast<ptrdiff_t>(width));
      }
    });
  }
  result.finish(call);
}

// The sum_of functions return the sum of n elements; n must be less than 2^23.
inline int32_t sum_of(const int8_t *x, ptrdiff_t n) {
  int32_t sum = 0;
  for (ptrdiff_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}
inline int64_t sum_of(const int16_t *x, ptrdiff_t n) {
  constexpr ptrdiff_t kBlock = 1 << 15;  // number of int16 elements whose sum fits into 32 bits
  int64_t total = 0;
  for (; n > 0; x += kBlock, n -= kBlock) {
    const ptrdiff_t count = n < kBlock ? n : kBlock;
    int32_t sum = 0;
    for (ptrdiff_t i = 0; i < count; ++i) sum += x[i];
    total += sum;
  }
  return total;
}

// Computes out[i] = f(sum, width) for each sum over the last `count` dims, which have `width` elements in total.
template <class Element, class F>
void for_sums(Call &call, Tensor input, int64_t count, bool keeps_dims, Tensor out, const F &f) {
  if (call.failed() || !call.check(0 < count && count <= input.ndim(), "the number of dims is not that of the input") ||
      !check_result<Element>(call, out))
    return;
  Shape shape;
  int64_t width = 1;
  for (int dim = 0; dim < input.ndim(); ++dim) {
    const bool is_reduced = dim >= input.ndim() - count;
    if (is_reduced) width *= input.size(dim);
    if (!is_reduced || keeps_dims) shape.push(is_reduced ? 1 : input.size(dim));
  }
  if (!call.check(0 < width && width < 1 << 23, "a mean is over 1 to 2^23 - 1 elements") || !call.resize(out, shape))
    return;
  const Element *x = elements<Element>(call, input);
  const BytesOut result(call, out);
  if (call.failed()) return;
  auto *y = reinterpret_cast<Element *>(result.data());
  call.parallel(shape.numel(), kGrain / width + 1, [&](int64_t begin, int64_t end, int64_t) {
    const auto n = static_cast<ptrdiff_t>(width);
    for (auto i = static_cast<ptrdiff_t>(begin); i < static_cast<ptrdiff_t>(end); ++i) {
      y[i] = f(sum_of(x + i * n, n), static_cast<int32_t>(n));
    }
  });
  result.finish(call);
}

// Computes a softmax over the last dim. term(table, difference) returns the exponential of an element from its
// difference to the row's maximum; kOne for the maximum itself. finish(terms, width, sum, row) writes a row of the
// result; `sum` is the sum of the row's terms and at least kOne. The table has kParts * 256 entries.
template <class Element, class Term, class Finish>
void for_softmax_rows(Call &call, Tensor input, Tensor table, Tensor out, const Term &term, const Finish &finish) {
  constexpr bool kIsInt8 = sizeof(Element) == 1;
  constexpr int32_t kOne = kIsInt8 ? 1 << 16 : 1 << 30;
  constexpr int kParts = kIsInt8 ? 1 : 2;
  // A row of a softmax has fewer than 2^15 elements, so that the sum of its terms fits into Sum.
  using Sum = std::conditional_t<kIsInt8, uint32_t, uint64_t>;
  if (call.failed() ||
      !call.check(table.type() == Type::kI32 && table.ndim() == 1 && table.size(0) == kParts * 256,
                  kIsInt8 ? "the table must be int32 with 256 entries" : "the table must be int32 with 512 entries") ||
      !check_result<Element>(call, out))
    return;
  const int64_t width = input.ndim() == 0 ? 1 : input.size(input.ndim() - 1);
  if (!call.check(0 < width && width < 1 << 15, "a softmax is over 1 to 2^15 - 1 elements") ||
      !call.resize(out, input.shape()))
    return;
  const Element *x = elements<Element>(call, input);
  const auto *entries = reinterpret_cast<const int32_t *>(dense_bytes(call, table));
  int32_t *memory = call.scratch<int32_t>(width * call.worker_count());
  const BytesOut result(call, out);
  if (call.failed()) return;
  for (int i = 0; i < kParts * 256; ++i) {
    if (!call.check(i % 256 != 0 || entries[i] == kOne, kIsInt8 ? "the exponential of 0 in the table must be 2^16"
                                                                : "the exponential of 0 in the table must be 2^30") ||
        !call.check(0 <= entries[i] && entries[i] <= kOne, kIsInt8 ? "entries of the table must be in [0, 2^16]"
                                                                   : "entries of the table must be in [0, 2^30]"))
      return;
  }
  auto *y = reinterpret_cast<Element *>(result.data());
  call.parallel(out.numel() / width, kGrain / width + 1, [&](int64_t begin, int64_t end, int64_t worker) {
    const auto n = static_cast<ptrdiff_t>(width);
    int32_t *terms = memory + worker * width;
    for (auto i = static_cast<ptrdiff_t>(begin); i < static_cast<ptrdiff_t>(end); ++i) {
      const Element *row = x + i * n;
      Element largest = row[0];
      for (ptrdiff_t j = 0; j < n; ++j) largest = row[j] > largest ? row[j] : largest;
      Sum sum = 0;
      for (ptrdiff_t j = 0; j < n; ++j) {
        terms[j] = term(entries, largest - row[j]);
        sum += static_cast<uint32_t>(terms[j]);
      }
      if (sum < kOne) sum = kOne;  // keep finish() from dividing by 0 if a damaged file overwrites the table
      finish(terms, n, sum, y + i * n);
    }
  });
  result.finish(call);
}

// Computes out = ((a - a_zero_point) * a_factor + (b - b_zero_point) * b_factor) / 2^shift.
template <class Value>
int32_t run_add(Call &call) {
  using Sum = SumOf<Value>;
  constexpr int32_t kMaxFactor = 1 << Arithmetic<Value>::kAddBits;
  Arguments<Value> next(call, 2);
  const auto first = next.zero_point(), second = next.zero_point();
  const int32_t factor_a = next.integer(-kMaxFactor, kMaxFactor);
  const int32_t factor_b = next.integer(-kMaxFactor, kMaxFactor);
  const int32_t shift = next.integer(1, Arithmetic<Value>::kAddShift);
  const Range<Value> range = next.range();
  if (call.failed()) return call.status();
  for_pairs<Value>(call, call.tensor(0), call.tensor(1), next.tensor(), [=](int32_t a, int32_t b) {
    const Sum sum = Sum{a - first.zero_point} * factor_a + Sum{b - second.zero_point} * factor_b;
    return range.clamp(shift_right(sum, shift));
  });
  return call.status();
}

template <class Value>
int32_t run_mul(Call &call) {
  Arguments<Value> next(call, 2);
  const auto first = next.zero_point(), second = next.zero_point();
  const FactorOf<Value> factor = next.factor();
  const Range<Value> range = next.range();
  if (call.failed()) return call.status();
  for_pairs<Value>(call, call.tensor(0), call.tensor(1), next.tensor(), [=](int32_t a, int32_t b) {
    const SumOf<Value> product = (a - first.zero_point) * (b - second.zero_point);
    return range.clamp(requantize(product, factor));
  });
  return call.status();
}

// Sums over the last dims (argument 1 is their number) and requantizes. For a mean, the factor divides by the element
// count.
template <class Value>
int32_t run_mean(Call &call) {
  Arguments<Value> next(call, 3);
  const auto zero = next.zero_point();
  const FactorOf<Value> factor = next.factor();
  const Range<Value> range = next.range();
  for_sums<Value>(
      call, call.tensor(0), call.integer(1), call.flag(2), next.tensor(),
      [=](SumOf<Value> sum, int32_t width) { return range.clamp(requantize(sum - zero.zero_point * width, factor)); });
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_INTEGER_LOOPS_H_
