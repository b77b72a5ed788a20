#include "winograd.h"

#include <algorithm>
#include <cmath>

#include "hardware.h"

namespace edgecore::xnnpack {

namespace {

constexpr uint64_t kBlockFloats = (640 << 10) / sizeof(float);

uint64_t round_up(uint64_t count) { return (count + kWinogradChannels - 1) / kWinogradChannels * kWinogradChannels; }
uint64_t positions(const WinogradLayer &layer) { return uint64_t{layer.form + 2} * (layer.form + 2); }

// Sets the matrix G, which transforms a column of a filter.
void set_transform(uint32_t form, double (*g)[3]) {
  const double a = form == 2 ? 1 : std::sqrt(0.5), b = std::sqrt(2.0);
  // The rows of the points +-p, divided by `scale`; F(2x2) has only one pair.
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

#if defined(__x86_64__)

// Returns true if XNNPACK may use the features, and this processor has them.
bool may_use(const char *features, bool is_present) {
  const uint64_t flags = parse_hardware(features).flags;
  return is_present && (hardware_in_force().flags & flags) == flags;
}

#endif

}  // namespace

const WinogradTarget *winograd_target() {
#if defined(__x86_64__)
  static constexpr WinogradTarget kAvx2 = {winograd_avx2, 16}, kAvx512 = {winograd_avx512f, 32};
  static const WinogradTarget *const target = []() -> const WinogradTarget * {
    if (may_use("avx512f", __builtin_cpu_supports("avx512f"))) return &kAvx512;
    if (may_use("avx2,fma3", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return &kAvx2;
    return nullptr;
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

uint64_t winograd_block_tiles(const WinogradTarget &target, const WinogradLayer &layer) {
  const uint64_t tile = positions(layer) * (round_up(layer.channels) + target.slice);
  return std::min(winograd_tiles(layer), std::max<uint64_t>(kBlockFloats / tile, 14));
}

uint64_t winograd_scratch_floats(const WinogradTarget &target, const WinogradLayer &layer) {
  const uint64_t tiles = winograd_block_tiles(target, layer);
  return positions(layer) * (winograd_stride(tiles, round_up(layer.channels)) + winograd_stride(tiles, target.slice));
}

uint64_t winograd_packed_floats(const WinogradLayer &layer) {
  return round_up(layer.outputs) * (positions(layer) * round_up(layer.channels) + 1);
}

void pack_winograd(const WinogradTarget &target, const WinogradLayer &layer, const float *filter, const float *bias,
                   float *packed) {
  const uint64_t channels = round_up(layer.channels), outputs = round_up(layer.outputs), a = layer.form + 2;
  double g[6][3];
  set_transform(layer.form, g);
  float *const biases = packed + outputs * a * a * channels;
  std::fill(packed, biases + outputs, 0.0f);
  for (uint64_t k = 0; k < layer.outputs; ++k) {
    const uint64_t first = k / target.slice * target.slice, width = std::min(target.slice, outputs - first);
    float *const slice = packed + first * a * a * channels + (k - first);
    for (uint64_t c = 0; c < layer.channels; ++c) {
      double half[6][3] = {};  // G times the filter
      for (uint64_t i = 0; i < a; ++i) {
        for (uint64_t j = 0; j < 3; ++j) {
          for (uint64_t q = 0; q < 3; ++q)
            half[i][j] += g[i][q] * double{filter[((k * 3 + q) * 3 + j) * layer.channels + c]};
        }
      }
      for (uint64_t i = 0; i < a; ++i) {
        for (uint64_t j = 0; j < a; ++j) {
          const double sum = half[i][0] * g[j][0] + half[i][1] * g[j][1] + half[i][2] * g[j][2];
          slice[((i * a + j) * channels + c) * width] = static_cast<float>(sum);
        }
      }
    }
    if (bias != nullptr) biases[k] = bias[k];
  }
}

}  // namespace edgecore::xnnpack
