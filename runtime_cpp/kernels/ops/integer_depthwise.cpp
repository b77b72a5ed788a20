// Depthwise convolutions of quantized int8 and int16 values in one and two dims.
#include "lib/integer_vector.h"
#include "ops/integer_convolution.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Returns the number of different remainders that the multiples of `step` leave when divided by `stride`.
int64_t remainders(int64_t step, int64_t stride) {
  int64_t divisor = stride;
  for (int64_t rest = step % stride; rest != 0;) {
    const int64_t next = divisor % rest;
    divisor = rest;
    rest = next;
  }
  return stride / divisor;
}

// An element of a plane of inputs: a pair of int16, as one 32-bit number with the same bytes; with MVE, a single value.
#if defined(EDGECORE_MVE)
template <class Value>
using ElementOf = Value;
constexpr int64_t kTapsOfElement = 1;
#else
template <class Value>
using ElementOf = int32_t;
constexpr int64_t kTapsOfElement = 2;
#endif

// Copies n values; fast for a small n.
template <class Value>
void copy_values(Value *target, const Value *source, int64_t n) {
#if defined(EDGECORE_MVE)
  if (n > 0) mve_copy(target, source, static_cast<int32_t>(n) * static_cast<int32_t>(sizeof(Value)));
#else
  copy_run<1>(target, source, n);
#endif
}

// A convolution whose groups have one input channel. The class computes a block of outputs at a time, and first copies
// the inputs of the block to several planes of elements. Each element has the inputs of one tap, or of two adjacent
// taps of a kernel row: element (row, column) of plane (fy, fx) is the pair of padded positions (y, x) and (y, x +
// dilation), or only the first of them, where y = (top + row) * stride + fy and x = (left + column) * stride + fx for
// the first output (top, left) of the block. So all elements that a tap reads for the outputs of a block are in one
// plane, in the order of the outputs. The sums of a block are computed like one long row, with a few unused sums
// between the rows of the block.
template <class Value>
class Depthwise {
 public:
  explicit Depthwise(const IntegerConvolution<Value> &c)
      : c_(c),
        outputs_of_group_(c.outputs_of_group()),
        elements_((c.x.kernel + kTapsOfElement - 1) / kTapsOfElement),
        planes_y_(min_of(c.y.kernel, remainders(c.y.dilation, c.y.stride))),
        planes_x_(min_of(elements_, remainders(kTapsOfElement * c.x.dilation, c.x.stride))),
        columns_(min_of(c.x.output, kMaxColumns)),
        pitch_(columns_ + kTapsOfElement * (elements_ - 1) * c.x.dilation / c.x.stride),
        halo_((c.y.kernel - 1) * c.y.dilation / c.y.stride),
        rows_(min_of(c.y.output, max_of(kBlock / (planes_y_ * planes_x_ * pitch_) - halo_, 2 * halo_ + 1))),
        line_(has_line() ? 2 * (pitch_ + kSumLanes) + c.x.dilation : 0) {}

  // Returns false if the convolution's kernel covers so many inputs that the sizes of scratch memory could overflow.
  bool fits() const {
    constexpr int64_t kLimit = int64_t{1} << 20;
    return pitch_ < kLimit && rows_ + halo_ < kLimit && taps() < kLimit / 16 &&
           planes_y_ * planes_x_ * plane() < kLimit * kLimit;
  }

  // Return the bytes of the scratch memory that all workers share, and of the scratch memory that each worker needs.
  int64_t shared_scratch() const { return round_up(taps() * static_cast<int64_t>(sizeof(ptrdiff_t)), 64); }
  int64_t scratch() const {
    constexpr int64_t kSize = sizeof(Value);
    return round_up(planes_bytes() + kBatch * static_cast<int64_t>(sizeof(Sum)) + taps() * 4 +
                        (rows_ * pitch_ + kBatch + line_) * kSize,
                    64);
  }

  // For each tap or pair of taps, writes the offset (in the planes) of the element that the first output of a block
  // reads.
  void find_offsets(ptrdiff_t *offsets) const {
    for (int64_t ty = 0; ty < c_.y.kernel; ++ty) {
      const int64_t y = ty * c_.y.dilation;
      for (int64_t p = 0; p < elements_; ++p) {
        const int64_t x = kTapsOfElement * p * c_.x.dilation;
        const int64_t index = ty % planes_y_ * planes_x_ + p % planes_x_;
        offsets[ty * elements_ + p] =
            static_cast<ptrdiff_t>(index * plane() + y / c_.y.stride * pitch_ + x / c_.x.stride);
      }
    }
  }

  // Computes output planes [begin, end). The inputs of a block of outputs are copied once for all planes that read
  // them.
  void run(int64_t begin, int64_t end, const Channels<Value> &channels, const ptrdiff_t *offsets, char *memory) const {
    auto *const planes = reinterpret_cast<Element *>(memory);
    auto *const sums = reinterpret_cast<Sum *>(memory + planes_bytes());
    auto *const weights = reinterpret_cast<int32_t *>(sums + kBatch);
    auto *const values = reinterpret_cast<Value *>(weights + taps());
    auto *const line = values + rows_ * pitch_ + kBatch;
    while (begin < end) {
      const int64_t input = divide(begin, outputs_of_group_).row;
      const int64_t next = min_of(end, (input + 1) * outputs_of_group_);
      for (int64_t top = 0; top < c_.y.output; top += rows_) {
        const int64_t height = min_of(rows_, c_.y.output - top);
        for (int64_t left = 0; left < c_.x.output; left += columns_) {
          const int64_t width = min_of(columns_, c_.x.output - left);
          read_block(c_.input + input * c_.y.input * c_.x.input, top, left, height + halo_, line, planes);
          for (int64_t index = begin; index < next; ++index) {
            const int64_t channel = divide(index, c_.outputs).column;
            widen_weights(channel, weights);
            const int64_t count = (height - 1) * pitch_ + width;
            for (int64_t at = 0; at < count; at += kBatch) {
              const int64_t n = min_of(kBatch, count - at);
              add_taps(planes + at, offsets, weights, n, sums);
              requantize_row(sums, round_up(n, kSumLanes), channels.biases[channel], channels.factor(channel), c_.range,
                             values + at);
            }
            Value *target = c_.result + index * c_.pixels() + top * c_.x.output + left;
            for (int64_t row = 0; row < height; ++row) {
              copy_values(target + row * c_.x.output, values + row * pitch_, width);
            }
          }
        }
      }
      begin = next;
    }
  }

 private:
  using Element = ElementOf<Value>;
  using Sum = SumOf<Value>;

  static constexpr int64_t kMaxColumns = 1024;  // maximum number of columns of a block of outputs
  static constexpr int64_t kBlock = (kHasCache ? 24576 : 1024) / sizeof(Element);
  static constexpr int64_t kStep = kTapsOfElement == 1 ? 12 : max_of(kSumLanes, 4);  // number of sums computed together
  // number of sums requantized together
  static constexpr int64_t kBatch = (kHasCache ? 256 : 64) / kStep * kStep;

  static Element element(Value first, Value second) {
    if constexpr (kTapsOfElement == 1) return first;
    const int16_t both[2] = {first, second};
    return static_cast<Element>(load_pair(both));
  }

  bool has_line() const {
    return kTapsOfElement == 2 && (c_.x.stride == 1 || (c_.x.stride == 2 && c_.x.dilation == 1));
  }
  int64_t taps() const { return c_.y.kernel * elements_; }  // number of taps of the kernel, or of pairs of taps
  int64_t plane() const { return (rows_ + halo_) * pitch_; }
  int64_t planes_bytes() const {
    const int64_t elements = planes_y_ * planes_x_ * plane() + 2 * kStep;
    return round_up(elements * static_cast<int64_t>(sizeof(Element)), sizeof(Sum));
  }

  // Computes n sums over all taps; n is rounded up to a multiple of kStep.
  void add_taps(const Element *planes, const ptrdiff_t *offsets, const int32_t *weights, int64_t n, Sum *sums) const {
    if constexpr (sizeof(Value) == 1) {
      add_some(planes, offsets, weights, taps(), n, sums);
    } else {
      constexpr int64_t kCount = kBlockOfProducts / kTapsOfElement;
      int32_t block[kBatch];
      for (int64_t tap = 0; tap < taps(); tap += kCount) {
        add_some(planes, offsets + tap, weights + tap, min_of(kCount, taps() - tap), n, block);
        add_block(block, round_up(n, kStep), tap == 0, sums);
      }
    }
  }

#if defined(EDGECORE_MVE)
  // Computes n sums over `count` taps; n is rounded up to a multiple of kStep.
  void add_some(const Value *planes, const ptrdiff_t *offsets, const int32_t *weights, int64_t count, int64_t n,
                int32_t *sums) const {
    const auto taps = static_cast<int32_t>(count);
    for (int64_t i = 0; i < n; i += kStep) mve_add_taps(planes + i, offsets, weights, taps, sums + i);
  }
#else
  // Computes n sums over `count` pairs of taps; n is rounded up to a multiple of kStep. add_some and add_pairs are
  // always inlined, because compilers that optimize for size would make function calls.
  __attribute__((always_inline)) void add_some(const int32_t *planes, const ptrdiff_t *offsets, const int32_t *weights,
                                               int64_t count, int64_t n, int32_t *sums) const {
    if (count == 6) return add_pairs<6>(planes, offsets, weights, count, n, sums);
    add_pairs<0>(planes, offsets, weights, count, n, sums);
  }

  // Implements add_some. kCount is `count` as a constant for the compiler, or 0 for any count.
  template <int kCount>
  __attribute__((always_inline)) void add_pairs(const int32_t *planes, const ptrdiff_t *offsets, const int32_t *weights,
                                                int64_t count, int64_t n, int32_t *sums) const {
    const auto pairs_of_sum = static_cast<ptrdiff_t>(kCount > 0 ? kCount : count);
    const auto end = static_cast<ptrdiff_t>(n);
    for (ptrdiff_t i = 0; i < end; i += kStep) {
      Sums step[kStep / kSumLanes] = {};
      for (ptrdiff_t t = 0; t < pairs_of_sum; ++t) {
        const int32_t *pairs = planes + offsets[t] + i;
        const Sums weight = weights[t] - Sums{};
        EDGECORE_UNROLL for (int64_t j = 0; j < kStep / kSumLanes; ++j) {
          step[j] = add_products(step[j], load_vector(pairs + j * kSumLanes), weight);
        }
      }
      EDGECORE_UNROLL for (int64_t j = 0; j < kStep / kSumLanes; ++j) store_vector(sums + i + j * kSumLanes, step[j]);
    }
  }

  // From a padded row, writes pairs of inputs for two adjacent taps, a whole vector at a time. The stride must be 1, or
  // 2 without dilation.
  void pair_up(const Value *line, int32_t *target) const {
    if (c_.x.stride == 1) {
      const Value *second = line + c_.x.dilation;
      for (int64_t q = 0; q < pitch_; q += kSumLanes) {
        store_vector(target + q, (widen(line + q) & 0xffff) | (widen(second + q) << 16));
      }
    } else {
      for (int64_t q = 0; q < pitch_; q += kSumLanes) {
        widen_block<2 * kSumLanes>(line + 2 * q, reinterpret_cast<int16_t *>(target + q));
      }
    }
  }
#endif

  void widen_weights(int64_t channel, int32_t *weights) const {
    const int8_t *source = c_.weight + channel * c_.taps();
    for (int64_t ty = 0; ty < c_.y.kernel; ++ty, source += c_.x.kernel) {
      for (int64_t p = 0; p < elements_; ++p) {
        const int64_t tap = kTapsOfElement * p;
        *weights++ = element(source[tap], tap + 1 < c_.x.kernel ? source[tap + 1] : int8_t{0});
      }
    }
  }

  // Fills the first `rows` rows of all planes with the inputs of the block whose first output is (top, left).
  void read_block(const Value *input, int64_t top, int64_t left, int64_t rows, Value *line, Element *planes) const {
    const int64_t start = left * c_.x.stride - c_.x.padding;  // input index at which the padded input row starts
    const auto zero = static_cast<Value>(c_.zero_point);
    if (line_ > 0) set_zero(line, c_.zero_point, line_);
    for (int64_t index = 0; index < planes_y_; ++index) {
      const int64_t phase = divide(index * c_.y.dilation, c_.y.stride).column;
      for (int64_t row = 0; row < rows; ++row) {
        Element *target = planes + index * planes_x_ * plane() + row * pitch_;
        const int64_t y = (top + row) * c_.y.stride + phase - c_.y.padding;
        if (y < 0 || y >= c_.y.input) {
          for (int64_t x = 0; x < planes_x_; ++x, target += plane()) {
            for (int64_t q = 0; q < pitch_; ++q) target[q] = element(zero, zero);
          }
        } else {
          read_row(input + y * c_.x.input, start, line, target);
        }
      }
    }
  }

  // Fills a row of the planes with pairs of inputs from the padded row that starts at index `start` of `source`.
  void read_row(const Value *source, int64_t start, [[maybe_unused]] Value *line, Element *target) const {
    const auto zero = static_cast<Value>(c_.zero_point);
    const auto copy = [&](Value *to, int64_t size) {
      const int64_t before = min_of(max_of(-start, 0), size);
      copy_values(to + before, source + max_of(start, 0), min_of(c_.x.input - max_of(start, 0), size - before));
    };
#if defined(EDGECORE_MVE)
    if (c_.x.stride == 1) {
      set_zero(target, c_.zero_point, pitch_);
      return copy(target, pitch_);
    }
#else
    if (line_ > 0) {
      copy(line, line_);
      return pair_up(line, target);
    }
#endif
    // size_t index, because 64-bit indices are slow on a microcontroller
    const auto size = static_cast<size_t>(c_.x.input);
    const auto value = [&](ptrdiff_t x) { return static_cast<size_t>(x) < size ? source[x] : zero; };
    for (int64_t x = 0; x < planes_x_; ++x, target += plane()) {
      auto at = static_cast<ptrdiff_t>(start + divide(kTapsOfElement * x * c_.x.dilation, c_.x.stride).column);
      for (Element *to = target; to != target + pitch_; ++to, at += static_cast<ptrdiff_t>(c_.x.stride)) {
        *to = element(value(at), value(at + static_cast<ptrdiff_t>(c_.x.dilation)));
      }
    }
  }

  const IntegerConvolution<Value> &c_;
  int64_t outputs_of_group_;
  int64_t elements_;  // number of elements (taps or pairs of taps) in a row of the kernel
  int64_t planes_y_;  // number of planes of inputs along y
  int64_t planes_x_;  // number of planes of inputs along x
  int64_t columns_;   // number of outputs in a row of a block of outputs
  int64_t pitch_;     // number of elements in a row of a plane of inputs
  int64_t halo_;      // number of rows that a plane of inputs has in addition to rows_
  int64_t rows_;      // number of rows in a block of outputs
  int64_t line_;      // length of the padded row from which whole vectors of pairs are made; 0: no such row is needed
};

}  // namespace

template <class Value>
void convolve_depthwise(Call &call, const IntegerConvolution<Value> &c, const Channels<Value> &channels) {
  const Depthwise<Value> depthwise(c);
  if (!call.check(depthwise.fits(), "the kernel covers too many inputs")) return;
  const int64_t part = depthwise.scratch();
  char *memory = call.scratch<char>(depthwise.shared_scratch() + part * call.worker_count());
  if (memory == nullptr) return;
  auto *const offsets = reinterpret_cast<ptrdiff_t *>(memory);
  depthwise.find_offsets(offsets);
  memory += depthwise.shared_scratch();
  const int64_t grain = 65536 / (c.pixels() * c.taps() + 1) + 1;
  call.parallel(c.batch * c.outputs, grain, [&](int64_t begin, int64_t end, int64_t worker) {
    depthwise.run(begin, end, channels, offsets, memory + worker * part);
  });
}

template void convolve_depthwise(Call &, const IntegerConvolution<int8_t> &, const Channels<int8_t> &);
template void convolve_depthwise(Call &, const IntegerConvolution<int16_t> &, const Channels<int16_t> &);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
