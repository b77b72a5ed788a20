// Products of rows with 4-bit weights by AVX2, which has no instruction that adds products of bytes to sums of 32 bits.
//
// _mm256_maddubs_epi16 multiplies unsigned bytes (weights in [0, 15]) by signed bytes (inputs in [-127, 127]) and adds
// pairs of products in 16 bits. A whole group of 32 inputs fits into two such sums for each output: their magnitude is
// at most 16 * 15 * 127 = 30,480. So only the sums of a group are widened to 32 bits.
#ifndef EDGECORE_LLM_PRODUCTS_AVX2_H_
#define EDGECORE_LLM_PRODUCTS_AVX2_H_

#include "functions.h"
#include "simd.h"

namespace edgecore::llm {
inline namespace EDGECORE_LLM_VARIANT {
namespace {

constexpr int kSteps = kGroup / 4;  // each step multiplies 4 inputs of a group

// A block with a byte for each weight, which is made once for many rows.
struct alignas(kLineBytes) UnpackedBlock {
  uint8_t lines[kSteps][kLineBytes];
  float scales[kBlockOutputs];
};

// Returns the weights of 8 outputs for the inputs of a step.
inline __m256i step_weights(const Block4 &block, int step, int half) {
  const __m256i line = load_half(block.lines[step % 4] + 32 * half);
  return low_halves(step < 4 ? line : _mm256_srli_epi16(line, 4));
}
inline __m256i step_weights(const UnpackedBlock &block, int step, int half) {
  return load_half(block.lines[step] + 32 * half);
}

inline Floats scales_of(const Block4 &block) { return load_scales(block.scales); }
inline Floats scales_of(const UnpackedBlock &block) { return load_floats(block.scales); }

inline void unpack(const Block4 &block, UnpackedBlock &out) {
  for (int step = 0; step < kSteps; ++step) {
    for (int half = 0; half < 2; ++half) {
      __m256i *const target = reinterpret_cast<__m256i *>(out.lines[step] + 32 * half);
      _mm256_storeu_si256(target, step_weights(block, step, half));
    }
  }
  store(out.scales, scales_of(block));
}

// For each of 16 outputs, two sums of 16 bits.
struct Pairs {
  __m256i half[2];
};

// Adds the products of 4 inputs to the sums.
inline Pairs add_pairs(Pairs sums, const Line &weights, const int8_t *inputs) {
  const __m256i x = _mm256_set1_epi32(load_int32(inputs));
  for (int h = 0; h < 2; ++h) sums.half[h] = _mm256_add_epi16(sums.half[h], _mm256_maddubs_epi16(weights.half[h], x));
  // The compiler must add here. It would add the products of a group as a tree, whose parts need more registers than
  // there are.
  __asm__ volatile("" : "+x"(sums.half[0]), "+x"(sums.half[1]));
  return sums;
}

inline Sums widen(const Pairs &sums, int32_t start) {
  const __m256i ones = _mm256_set1_epi16(1);
  Sums wide = fill(start);
  for (int h = 0; h < 2; ++h) wide.half[h] = _mm256_add_epi32(wide.half[h], _mm256_madd_epi16(sums.half[h], ones));
  return wide;
}

// Adds the products of a block (a Block4 or an UnpackedBlock) and kCount rows of inputs, the groups of x from `at` on,
// to the totals of these rows.
template <class Block, int kCount>
inline void add_steps(const Block &block, const RoundedRows &x, int64_t at, Floats (&totals)[kCount]) {
  const int8_t *values = x.values + at * kGroup;
  const int32_t *starts = x.starts + at;
  const float *input_scales = x.scales + at;
  Pairs sums[kCount] = {};
#pragma GCC unroll 8
  for (int step = 0; step < kSteps; ++step) {
    const Line weights = {{step_weights(block, step, 0), step_weights(block, step, 1)}};
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) sums[r] = add_pairs(sums[r], weights, values + r * kGroup + 4 * step);
    // Load a line again for its high halves, instead of keeping it in registers.
    __asm__ volatile("" : : : "memory");
  }
  const Floats scales = scales_of(block);
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
    totals[r] = add_scaled(totals[r], widen(sums[r], starts[r]), scales, input_scales[r]);
  }
  // Between groups, the totals of several rows are in memory, because the sums need the registers.
  if constexpr (kCount > 1) __asm__ volatile("" : : "r"(totals) : "memory");
}

template <int kCount>
inline void add_block(const Block4 &block, const RoundedRows &x, int64_t at, Floats (&totals)[kCount]) {
  add_steps(block, x, at, totals);
}
template <int kCount>
inline void add_block(const UnpackedBlock &block, const RoundedRows &x, int64_t at, Floats (&totals)[kCount]) {
  add_steps(block, x, at, totals);
}

// Multiplies kCount rows by the blocks of groups [begin, end) of a tile, and adds the products of the groups before
// them, which are in y. y is the first of the tile's columns in the first row.
template <int kCount>
void add_groups(const RoundedRows &x, int64_t row, const UnpackedBlock *blocks, int64_t begin, int64_t end, float *y,
                int64_t outputs, int64_t columns) {
  Floats totals[kCount];
  for (int r = 0; r < kCount; ++r) {
    float earlier[kBlockOutputs] = {};
    if (begin > 0) memcpy(earlier, y + r * outputs, static_cast<size_t>(columns) * sizeof(float));
    totals[r] = load_floats(earlier);
  }
  const RoundedRows rows = x;  // a copy, whose members the compiler keeps in registers
  const int64_t first = row * x.groups;
  for (int64_t g = begin; g < end; ++g) add_block(blocks[g - begin], rows, first + g * kCount, totals);
  for (int r = 0; r < kCount; ++r) store(y + r * outputs, totals[r], columns);
}

// Multiplies rows [first, last) by a tile. A part of its blocks is unpacked for all rows, into the L1 cache.
void multiply_many(const RoundedRows &x, int64_t first, int64_t last, const PackedMatrix &w, int64_t tile, float *y) {
  constexpr int64_t kGroups = 32;
  static_assert(kRows == 4);
  constexpr decltype(&add_groups<1>) functions[] = {add_groups<1>, add_groups<2>, add_groups<3>, add_groups<4>};
  const Block4 *blocks = reinterpret_cast<const Block4 *>(w.data) + tile * w.groups;
  const int64_t left = w.outputs - tile * kBlockOutputs;
  const int64_t columns = left < kBlockOutputs ? left : kBlockOutputs;
  UnpackedBlock unpacked[kGroups];
  for (int64_t begin = 0; begin < w.groups; begin += kGroups) {
    const int64_t end = w.groups - begin < kGroups ? w.groups : begin + kGroups;
    for (int64_t g = begin; g < end; ++g) unpack(blocks[g], unpacked[g - begin]);
    for (int64_t row = first; row < last; row += kRows) {
      const int64_t count = last - row < kRows ? last - row : kRows;
      float *target = y + row * w.outputs + tile * kBlockOutputs;
      functions[count - 1](x, row, unpacked, begin, end, target, w.outputs, columns);
    }
  }
}

}  // namespace
}  // namespace EDGECORE_LLM_VARIANT
}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_PRODUCTS_AVX2_H_
