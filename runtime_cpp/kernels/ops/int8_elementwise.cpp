// Elementwise functions, means and softmax of int8 values.
#include "ops/int8_arguments.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

constexpr int64_t kGrain = 16384;

// Runs f(a, b) for the elements of two int8 tensors, which broadcast, on all threads.
template <class F>
void for_pairs(Call &call, Tensor a, Tensor b, Tensor out, const F &f) {
  const Tensor tensors[2] = {a, b};
  const Shape shape = broadcast(call, tensors, 2);
  if (call.failed() || !call.check(out.type() == Type::kI8, "out must be int8") || !call.resize(out, shape)) return;
  const int8_t *first = int8_elements(call, a);
  const int8_t *second = int8_elements(call, b);
  const BytesOut result(call, out);
  if (call.failed() || shape.numel() == 0) return;
  auto *target = reinterpret_cast<int8_t *>(result.data());
  const bool is_plain = a.numel() == shape.numel() && b.numel() == shape.numel();
  const int64_t width = is_plain || shape.ndim == 0 ? shape.numel() : shape.sizes[shape.ndim - 1];
  // The steps, in elements, from an index of a dim of the result to the next one in a row-major operand.
  int64_t steps[2][kMaxDims] = {};
  for (int operand = 0; operand < 2; ++operand) {
    int64_t step = 1;
    for (int dim = tensors[operand].ndim() - 1, to = shape.ndim - 1; dim >= 0; --dim, --to) {
      steps[operand][to] = tensors[operand].size(dim) == 1 ? 0 : step;
      step *= tensors[operand].size(dim);
    }
  }
  const auto row = [&](const int8_t *x, int64_t x_step, const int8_t *y, int64_t y_step, int64_t n,
                       int8_t *__restrict z) {
    const F compute = f;  // a copy, because a store to int8_t could change the numbers in `f`
    if (x_step == 1 && y_step == 1) {
      for (int64_t i = 0; i < n; ++i) z[i] = compute(x[i], y[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) z[i] = compute(x[i * x_step], y[i * y_step]);
    }
  };
  if (is_plain) {
    call.parallel(width, kGrain, [&](int64_t begin, int64_t end, int64_t) {
      row(first + begin, 1, second + begin, 1, end - begin, target + begin);
    });
  } else {
    const int last = shape.ndim - 1;  // the result has dims, because else it is plain
    call.parallel(shape.numel() / width, kGrain / width + 1, [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t rest = i;
        int64_t offsets[2] = {};
        for (int dim = last - 1; dim >= 0; --dim) {
          for (int operand = 0; operand < 2; ++operand) {
            offsets[operand] += rest % shape.sizes[dim] * steps[operand][dim];
          }
          rest /= shape.sizes[dim];
        }
        row(first + offsets[0], steps[0][last], second + offsets[1], steps[1][last], width, target + i * width);
      }
    });
  }
  result.finish(call);
}

}  // namespace

// out[i] = table[input[i] + 128].
int32_t int8_table_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_table.out");
  const Tensor input = call.tensor(0);
  const Tensor table = call.tensor(1);
  const Tensor out = call.tensor(2);
  if (call.failed() || !call.check(table.ndim() == 1 && table.size(0) == 256, "the table must have 256 entries") ||
      !call.check(out.type() == Type::kI8, "out must be int8") || !call.resize(out, input.shape()))
    return call.status();
  const int8_t *x = int8_elements(call, input);
  const int8_t *entries = int8_elements(call, table);
  const BytesOut result(call, out);
  if (call.failed()) return call.status();
  auto *y = reinterpret_cast<int8_t *>(result.data());
  call.parallel(out.numel(), kGrain, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) y[i] = entries[x[i] + 128];
  });
  result.finish(call);
  return call.status();
}

// out = ((a - a_zero_point) * a_factor + (b - b_zero_point) * b_factor) / 2^shift. With factors of at most 2^21 in
// magnitude, all sums fit into 32 bits.
int32_t int8_add_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_add.out");
  const int32_t zero_a = zero_point_at(call, 2);
  const int32_t zero_b = zero_point_at(call, 3);
  const int32_t factor_a = int_between(call, 4, -(1 << 21), 1 << 21);
  const int32_t factor_b = int_between(call, 5, -(1 << 21), 1 << 21);
  const int32_t shift = int_between(call, 6, 1, 31);
  const Int8Range range = range_at(call, 7);
  if (call.failed()) return call.status();
  for_pairs(call, call.tensor(0), call.tensor(1), call.tensor(10), [=](int32_t a, int32_t b) {
    return range.clamp(shift_right((a - zero_a) * factor_a + (b - zero_b) * factor_b, shift));
  });
  return call.status();
}

int32_t int8_mul_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_mul.out");
  const int32_t zero_a = zero_point_at(call, 2);
  const int32_t zero_b = zero_point_at(call, 3);
  const Factor factor = factor_at(call, 4);
  const Int8Range range = range_at(call, 6);
  if (call.failed()) return call.status();
  for_pairs(call, call.tensor(0), call.tensor(1), call.tensor(9),
            [=](int32_t a, int32_t b) { return range.clamp(requantize((a - zero_a) * (b - zero_b), factor)); });
  return call.status();
}

// The sum of the last dims [-count, end), requantized: a mean, if the factor contains the number of elements.
int32_t int8_mean_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_mean.out");
  const Tensor input = call.tensor(0);
  const int64_t count = call.integer(1);
  const bool keeps_dims = call.flag(2);
  const int32_t zero_point = zero_point_at(call, 3);
  const Factor factor = factor_at(call, 4);
  const Int8Range range = range_at(call, 6);
  const Tensor out = call.tensor(9);
  if (call.failed() || !call.check(0 < count && count <= input.ndim(), "the number of dims is not that of the input") ||
      !call.check(out.type() == Type::kI8, "out must be int8"))
    return call.status();
  Shape shape;
  int64_t width = 1;
  for (int dim = 0; dim < input.ndim(); ++dim) {
    const bool is_reduced = dim >= input.ndim() - count;
    if (is_reduced) width *= input.size(dim);
    if (!is_reduced || keeps_dims) shape.push(is_reduced ? 1 : input.size(dim));
  }
  if (!call.check(0 < width && width < 1 << 23, "a mean is over 1 to 2^23 - 1 elements") || !call.resize(out, shape))
    return call.status();
  const int8_t *x = int8_elements(call, input);
  const BytesOut result(call, out);
  if (call.failed()) return call.status();
  auto *y = reinterpret_cast<int8_t *>(result.data());
  call.parallel(shape.numel(), kGrain / width + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      int32_t sum = 0;
      for (int64_t j = 0; j < width; ++j) sum += x[i * width + j];
      y[i] = range.clamp(requantize(sum - zero_point * static_cast<int32_t>(width), factor));
    }
  });
  result.finish(call);
  return call.status();
}

// Over the last dim: out = 256 * table[largest input - input] / (the sum of these entries of the table).
int32_t int8_softmax_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_softmax.out");
  constexpr int32_t kOne = 1 << 16;  // with less than 2^15 elements in a row, the sum fits into 32 bits
  const Tensor input = call.tensor(0);
  const Tensor table = call.tensor(1);
  const Int8Range range = range_at(call, 2);
  const Tensor out = call.tensor(5);
  if (call.failed() ||
      !call.check(table.type() == Type::kI32 && table.ndim() == 1 && table.size(0) == 256,
                  "the table must be int32 with 256 entries") ||
      !call.check(out.type() == Type::kI8, "out must be int8"))
    return call.status();
  const int64_t width = input.ndim() == 0 ? 1 : input.size(input.ndim() - 1);
  if (!call.check(0 < width && width < 1 << 15, "a softmax is over 1 to 2^15 - 1 elements") ||
      !call.resize(out, input.shape()))
    return call.status();
  const int8_t *x = int8_elements(call, input);
  const auto *entries = reinterpret_cast<const int32_t *>(dense_bytes(call, table));
  int32_t *memory = call.scratch<int32_t>(width * call.worker_count());
  const BytesOut result(call, out);
  if (call.failed() || !call.check(entries[0] == kOne, "the first entry of the table must be 2^16")) {
    return call.status();
  }
  for (int i = 0; i < 256; ++i) {
    if (!call.check(0 <= entries[i] && entries[i] <= kOne, "entries of the table must be in [0, 2^16]")) {
      return call.status();
    }
  }
  auto *y = reinterpret_cast<int8_t *>(result.data());
  call.parallel(out.numel() / width, kGrain / width + 1, [&](int64_t begin, int64_t end, int64_t worker) {
    int32_t *terms = memory + worker * width;
    for (int64_t i = begin; i < end; ++i) {
      const int8_t *row = x + i * width;
      int8_t largest = -128;
      for (int64_t j = 0; j < width; ++j) largest = row[j] > largest ? row[j] : largest;
      int32_t sum = 0;
      for (int64_t j = 0; j < width; ++j) {
        terms[j] = entries[largest - row[j]];
        sum += terms[j];
      }
      // 2^(bits - 1) <= sum < 2^bits, so the multiplier is in (2^30, 2^31].
      const int32_t bits = 32 - __builtin_clz(static_cast<uint32_t>(sum));
      const uint64_t multiplier = (uint64_t{1} << (bits + 30)) / static_cast<uint32_t>(sum);
      const Factor factor = {static_cast<int32_t>(multiplier > INT32_MAX ? INT32_MAX : multiplier), 9 - bits};
      requantize_row(terms, width, 0, factor, range, y + i * width);
    }
  });
  result.finish(call);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
