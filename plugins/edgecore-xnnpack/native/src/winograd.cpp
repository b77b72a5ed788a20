#include "winograd.h"

#include <algorithm>
#include <cmath>

#include "hardware.h"

namespace edgecore::xnnpack {

namespace {

// Numbers of bytes that fit into an L2 cache of 1 MB: kBlockBytes for the data of a block of tiles, kCachedBytes for
// data that are read repeatedly (weights, or all transformed inputs).
constexpr uint64_t kBlockBytes = 640 << 10, kCachedBytes = 1 << 20;
constexpr uint64_t kProductBytes = 4;  // fp32 or int32

uint64_t round_up(uint64_t count) { return (count + kWinogradChannels - 1) / kWinogradChannels * kWinogradChannels; }
uint64_t positions(const WinogradLayer &layer) { return uint64_t{layer.form + 2} * (layer.form + 2); }
uint64_t divide_up(uint64_t count, uint64_t size) { return (count + size - 1) / size; }

uint64_t transformed_bytes(const WinogradTarget &target, const WinogradLayer &layer, uint64_t tiles) {
  const uint64_t bytes = target.factor_bytes;
  return positions(layer) * winograd_stride(tiles, round_up(layer.channels), bytes) * bytes;
}
uint64_t product_bytes(const WinogradTarget &target, const WinogradLayer &layer, uint64_t tiles) {
  return positions(layer) * winograd_stride(tiles, target.slice, kProductBytes) * kProductBytes;
}

// Sets Winograd's matrix G, which transforms the 3 numbers of a filter's column to m + 2 numbers.
void set_transform(uint32_t form, double (*g)[3]) {
  const double a = form == 2 ? 1 : std::sqrt(0.5), b = std::sqrt(2.0);
  // Sets two rows of G, for the interpolation points +p and -p, divided by `scale`; F(2x2) has one such pair.
  const auto set = [&](double *plus, double *minus, double p, double scale) {
    const double row[3] = {1 / scale, p / scale, p * p / scale};
    for (int i = 0; i < 3; ++i) plus[i] = row[i], minus[i] = i == 1 ? -row[i] : row[i];
  };
  const double zero = form == 2 ? 1 : a * a * b * b;
  g[0][0] = 1 / zero, g[0][1] = g[0][2] = 0;
  set(g[1], g[2], a, form == 2 ? 2 : 2 * a * a * (a * a - b * b));
  if (form == 4) set(g[3], g[4], b, 2 * b * b * (b * b - a * a));
  double *infinity = g[form + 1];
  infinity[0] = infinity[1] = 0, infinity[2] = 1;
}

}  // namespace

const WinogradTarget *winograd_target() {
#if defined(__x86_64__)
  static const WinogradTarget *const target = []() -> const WinogradTarget * {
    if (may_use("avx512f", __builtin_cpu_supports("avx512f"))) return &winograd_avx512f;
    if (may_use("avx2,fma3", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return &winograd_avx2;
    return &winograd_base;
  }();
  return target;
#elif defined(__aarch64__)
  return &winograd_neon;
#else
  return nullptr;
#endif
}

const WinogradTarget *winograd_int8_target() {
#if defined(__x86_64__)
  static const WinogradTarget *const target = []() -> const WinogradTarget * {
    if (may_use("avxvnni", true) || may_use("avx512vnni", true)) return nullptr;
    if (may_use("avx512skx", __builtin_cpu_supports("avx512bw"))) return &winograd_int8_avx512skx;
    return may_use("avx2", __builtin_cpu_supports("avx2")) ? &winograd_int8_avx2 : nullptr;
  }();
  return target;
#else
  return nullptr;
#endif
}

uint64_t winograd_tiles(const WinogradLayer &layer) {
  const uint64_t m = layer.form;
  return layer.batch * ((layer.rows + m - 1) / m) * ((layer.columns + m - 1) / m);
}

WinogradSharing winograd_sharing(const WinogradTarget &target, const WinogradLayer &layer, uint64_t workers) {
  const uint64_t tiles = winograd_tiles(layer), slices = divide_up(layer.outputs, target.slice);
  // Choose a size of blocks for which the transformed inputs and products of a block fit into the L2 cache. If there
  // are enough tiles, each worker has at least two blocks, because the last block may be small.
  const uint64_t tile =
      positions(layer) * (round_up(layer.channels) * target.factor_bytes + target.slice * kProductBytes);
  uint64_t size = std::max<uint64_t>(kBlockBytes / tile, 14);
  if (workers > 1) size = std::min(size, divide_up(tiles, 2 * workers));
  const uint64_t blocks = divide_up(tiles, size);
  const uint64_t weights = winograd_packed_bytes(target, layer), transformed = transformed_bytes(target, layer, tiles);
  const uint64_t by_blocks = weights <= kCachedBytes ? weights : blocks * weights;
  // Count only half of the inputs' bytes: the inputs were just written, so they come from a nearer cache than the
  // weights.
  const uint64_t by_slices = weights + (transformed <= kCachedBytes / 2 ? 0 : slices * transformed / 2);
  if (slices >= workers && by_slices < by_blocks) return {true, 1};
  return {false, blocks};
}

uint64_t winograd_scratch_bytes(const WinogradTarget &target, const WinogradLayer &layer, WinogradSharing sharing,
                                uint64_t workers) {
  const uint64_t tiles = divide_up(winograd_tiles(layer), sharing.blocks);
  return (sharing.by_slices ? 1 : workers) * transformed_bytes(target, layer, tiles) +
         workers * product_bytes(target, layer, tiles);
}

void run_winograd(const WinogradTarget &target, const WinogradLayer &layer, WinogradSharing sharing, const void *input,
                  void *output, void *scratch, const WinogradLoop &loop) {
  auto *const bytes = static_cast<uint8_t *>(scratch);
  const uint64_t tiles = winograd_tiles(layer), slices = divide_up(layer.outputs, target.slice);
  const uint64_t largest = divide_up(tiles, sharing.blocks), products = product_bytes(target, layer, largest);
  const uint64_t transformed = transformed_bytes(target, layer, largest);
  if (sharing.by_slices) {
    const WinogradBlock all = {0, tiles};
    loop(tiles,
         [&](uint64_t begin, uint64_t end, uint32_t) { target.transform(layer, input, all, begin, end, bytes); });
    loop(slices, [&](uint64_t begin, uint64_t end, uint32_t worker) {
      for (uint64_t i = begin; i < end; ++i) {
        target.multiply(layer, bytes, all, i * target.slice, bytes + transformed + worker * products, output);
      }
    });
    return;
  }
  loop(sharing.blocks, [&](uint64_t begin, uint64_t end, uint32_t worker) {
    uint8_t *const own = bytes + worker * (transformed + products);
    for (uint64_t i = begin; i < end; ++i) {
      const WinogradBlock block = {i * tiles / sharing.blocks, (i + 1) * tiles / sharing.blocks};
      target.transform(layer, input, block, block.first, block.last, own);
      for (uint64_t k = 0; k < slices; ++k) {
        target.multiply(layer, own, block, k * target.slice, own + transformed, output);
      }
    }
  });
}

uint64_t winograd_packed_bytes(const WinogradTarget &target, const WinogradLayer &layer) {
  const uint64_t bias = sizeof(float), scale = target.factor_bytes == 4 ? 0 : sizeof(float);
  return round_up(layer.outputs) * (positions(layer) * round_up(layer.channels) * target.factor_bytes + bias + scale);
}

void pack_winograd(const WinogradTarget &target, const WinogradLayer &layer, const float *filter, const float *bias,
                   float *packed) {
  const uint64_t channels = round_up(layer.channels), outputs = round_up(layer.outputs), a = layer.form + 2;
  constexpr uint64_t kLanes = kWinogradChannels;  // number of channels that are transformed together
  double g[6][3];
  set_transform(layer.form, g);
  // Order the weights slice by slice (a slice is a range of output channels), so that the inputs that a slice reads
  // stay in the cache while the slice computes its outputs.
  for (uint64_t first = 0; first < outputs; first += target.slice) {
    const uint64_t width = std::min(target.slice, outputs - first);
    for (uint64_t c = 0; c < channels; c += kLanes) {
      for (uint64_t k = first; k < first + width; ++k) {
        double taps[9][kLanes] = {}, half[6][3][kLanes];  // half: products of the matrix G with columns of the filter
        const uint64_t count = k < layer.outputs ? std::min(kLanes, layer.channels - c) : 0;
        for (uint64_t tap = 0; tap < 9; ++tap) {
          for (uint64_t i = 0; i < count; ++i) taps[tap][i] = double{filter[(k * 9 + tap) * layer.channels + c + i]};
        }
        for (uint64_t i = 0; i < a; ++i) {
          for (uint64_t j = 0; j < 3; ++j) {
            for (uint64_t n = 0; n < kLanes; ++n) {
              half[i][j][n] = g[i][0] * taps[j][n] + g[i][1] * taps[3 + j][n] + g[i][2] * taps[6 + j][n];
            }
          }
        }
        for (uint64_t i = 0; i < a; ++i) {
          for (uint64_t j = 0; j < a; ++j) {
            float *const to = packed + first * a * a * channels + ((i * a + j) * channels + c) * width + (k - first);
            for (uint64_t n = 0; n < kLanes; ++n) {
              const double sum = half[i][0][n] * g[j][0] + half[i][1][n] * g[j][1] + half[i][2][n] * g[j][2];
              to[n * width] = static_cast<float>(sum);
            }
          }
        }
      }
    }
  }
  float *const biases = packed + outputs * a * a * channels;
  for (uint64_t k = 0; k < outputs; ++k) biases[k] = bias == nullptr || k >= layer.outputs ? 0 : bias[k];
}

void pack_winograd_int8(const WinogradTarget &target, const WinogradLayer &layer, const int8_t *filter,
                        const int32_t *bias, const float *scales, void *packed) {
  const uint64_t channels = round_up(layer.channels), outputs = round_up(layer.outputs);
  const uint64_t side = layer.form + 2, positions = side * side;
  // The transform of F(2x2), times 2, or of F(4x4), times 4, -6, -6, 24, 24 and 1.
  const auto transform = [&](const int32_t *from, uint64_t step, int32_t *to) {
    const int32_t first = from[0], middle = from[step], last = from[2 * step];
    to[1] = first + middle + last, to[2] = first - middle + last;
    if (layer.form == 2) {
      to[0] = 2 * first, to[3] = 2 * last;
    } else {
      to[0] = first, to[5] = last;
      to[3] = first + 2 * middle + 4 * last, to[4] = first - 2 * middle + 4 * last;
    }
  };
  auto *const weights = static_cast<int16_t *>(packed);
  std::fill_n(weights, outputs * positions * channels, static_cast<int16_t>(0));
  for (uint64_t k = 0; k < layer.outputs; ++k) {
    const uint64_t first = k / target.slice * target.slice, width = std::min(target.slice, outputs - first);
    for (uint64_t c = 0; c < layer.channels; ++c) {
      int32_t taps[9], half[3][6], all[6];  // half: transforms of the filter's columns
      for (uint64_t tap = 0; tap < 9; ++tap) taps[tap] = filter[(k * 9 + tap) * layer.channels + c];
      for (uint64_t j = 0; j < 3; ++j) transform(taps + j, 3, half[j]);
      int16_t *to = weights + (first * positions * channels + c / 2 * 2 * width + (k - first) * 2 + c % 2);
      for (uint64_t i = 0; i < side; ++i) {
        transform(&half[0][i], 6, all);
        for (uint64_t j = 0; j < side; ++j, to += channels * width) *to = static_cast<int16_t>(all[j]);
      }
    }
  }
  auto *const biases = reinterpret_cast<int32_t *>(weights + outputs * positions * channels);
  auto *const factors = reinterpret_cast<float *>(biases + outputs);
  for (uint64_t k = 0; k < outputs; ++k) {
    biases[k] = bias == nullptr || k >= layer.outputs ? 0 : bias[k];
    factors[k] = k >= layer.outputs ? 0 : scales[k];
  }
}

}  // namespace edgecore::xnnpack
