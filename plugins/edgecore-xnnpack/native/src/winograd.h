// Winograd's convolution F(m x m, 3x3): fp32, window 3x3, stride 1, dilation 1, one group, images in NHWC.
//
// A tile of m x m outputs is computed from (m + 2) x (m + 2) inputs. Inputs, filter and products are transformed; in
// between there is a matrix product over the channels for each of the P = (m + 2)^2 positions of a tile. F(4x4) uses
// the points 0, +-sqrt(1/2), +-sqrt(2) (and infinity), whose error is a fifth of that of the points 0, +-1, +-2.
#ifndef EDGECORE_XNNPACK_WINOGRAD_H_
#define EDGECORE_XNNPACK_WINOGRAD_H_

#include <cstdint>

namespace edgecore::xnnpack {

struct WinogradLayer {
  uint32_t form = 2;                                        // m: 2 or 4
  uint64_t batch = 0, height = 0, width = 0, channels = 0;  // of the input
  uint64_t rows = 0, columns = 0, outputs = 0;              // of the output
  int64_t top = 0, left = 0;                                // padding before the image; it has any padding behind
  float min = 0, max = 0;                                   // output range
  const float *packed = nullptr;                            // pack_winograd
};

// Computes the tiles from `first` to `last`, without the latter; tiles are counted over all images, row by row.
// `scratch` has winograd_scratch_floats() floats, aligned to 64 bytes.
using WinogradBlock = void (*)(const WinogradLayer &layer, const float *input, float *output, uint64_t first,
                               uint64_t last, float *scratch);

// The kernels of an instruction set. A new one is a file as winograd_avx2.cpp, and a row in winograd_target.
struct WinogradTarget {
  WinogradBlock run;
  uint64_t slice;  // output channels that are computed together: a multiple of 16
};

constexpr uint64_t kWinogradChannels = 16;  // channels are padded to a multiple, with zeros

// Returns the kernels for the widest vectors of this processor that XNNPACK may use; null: it has none.
const WinogradTarget *winograd_target();

// Returns the number of tiles of a layer.
uint64_t winograd_tiles(const WinogradLayer &layer);

// Returns the number of tiles of a block: their transformed inputs and products fit into the L2 cache.
uint64_t winograd_block_tiles(const WinogradTarget &target, const WinogradLayer &layer);
uint64_t winograd_scratch_floats(const WinogradTarget &target, const WinogradLayer &layer);

// Returns the number of floats of the packed weights of a layer.
uint64_t winograd_packed_floats(const WinogradLayer &layer);

// Transforms a filter [outputs, 3, 3, channels], in double precision, and appends the bias (null: zeros). The order is
// [outputs / slice][P][channels][slice], so that a slice of outputs reads one sequential stream; the last slice may be
// narrower.
void pack_winograd(const WinogradTarget &target, const WinogradLayer &layer, const float *filter, const float *bias,
                   float *packed);

// The distance in floats between two positions of a block of tiles with `width` numbers each: an odd number of cache
// lines, so that the positions of a tile do not fall into the same set of the cache. Static, as each instruction set
// needs its own.
static constexpr uint64_t winograd_stride(uint64_t tiles, uint64_t width) {
  return tiles * width + (tiles * width / 16 % 2 == 0 ? 16 : 0);
}

void winograd_avx2(const WinogradLayer &layer, const float *input, float *output, uint64_t first, uint64_t last,
                   float *scratch);
void winograd_avx512f(const WinogradLayer &layer, const float *input, float *output, uint64_t first, uint64_t last,
                      float *scratch);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_WINOGRAD_H_
