// Winograd's convolution algorithm F(m x m, 3x3): fp32, window 3x3, stride 1, dilation 1, one group, NHWC images.
//
// A tile of m x m outputs is computed from (m + 2) x (m + 2) inputs. Inputs, filter and products are transformed;
// between the transforms, each of the P = (m + 2)^2 positions of a tile has a matrix product over the channels. F(4x4)
// interpolates at the points 0, +-sqrt(1/2), +-sqrt(2) (and infinity); with 0, +-1, +-2 the error would be five times
// as large.
#ifndef EDGECORE_XNNPACK_WINOGRAD_H_
#define EDGECORE_XNNPACK_WINOGRAD_H_

#include <cstdint>
#include <functional>

namespace edgecore::xnnpack {

struct WinogradLayer {
  uint32_t form = 2;                                        // m: 2 or 4
  uint64_t batch = 0, height = 0, width = 0, channels = 0;  // sizes of the input
  uint64_t rows = 0, columns = 0, outputs = 0;              // sizes of the output
  int64_t top = 0, left = 0;      // rows of padding above and columns left of the image; the sizes determine the rest
  float min = 0, max = 0;         // output range
  const float *packed = nullptr;  // packed weights, from pack_winograd
};

// Tiles [first, last) of outputs that are computed together. Tiles are numbered row by row, over all images.
struct WinogradBlock {
  uint64_t first, last;
};

// A kernel that transforms the inputs of the tiles [begin, end) of a block.
using WinogradTransform = void (*)(const WinogradLayer &layer, const float *input, WinogradBlock block, uint64_t begin,
                                   uint64_t end, float *transformed);
// A kernel that computes the outputs of a block from its transformed inputs, for the slice (range of output channels)
// that begins with channel `channel`.
using WinogradMultiply = void (*)(const WinogradLayer &layer, const float *transformed, WinogradBlock block,
                                  uint64_t channel, float *products, float *output);

// The kernels of an instruction set. A new set needs a file like winograd_avx2.cpp, and a row in winograd_target.
struct WinogradTarget {
  WinogradTransform transform;
  WinogradMultiply multiply;
  uint64_t slice;  // size of a slice: number of output channels that are computed together, a multiple of 16
};

constexpr uint64_t kWinogradChannels = 16;  // channels are padded with zeros to a multiple of this number

// Returns the Winograd kernels for the widest vectors of this processor that XNNPACK may use; null if there are none.
const WinogradTarget *winograd_target();

// Returns the number of output tiles of a layer, in all images.
uint64_t winograd_tiles(const WinogradLayer &layer);

// The way in which workers share a layer; the bits of the result do not depend on it. With blocks of tiles, a worker
// transforms the inputs of a block and computes all outputs of the block, so the weights are read again for each block.
// With slices of output channels, the workers first transform all inputs. Then each computes one slice for all tiles,
// so the weights are read once.
struct WinogradSharing {
  bool by_slices;
  uint64_t blocks;  // number of blocks of tiles that workers share; 1 if they share slices
};

// Chooses how workers share a layer, by blocks or by slices: the way that reads fewer bytes from beyond the L2 cache.
WinogradSharing winograd_sharing(const WinogradTarget &target, const WinogradLayer &layer, uint64_t workers);
uint64_t winograd_scratch_floats(const WinogradTarget &target, const WinogradLayer &layer, WinogradSharing sharing,
                                 uint64_t workers);

// A function that calls body(begin, end, worker) for ranges that partition [0, count), perhaps in parallel.
using WinogradLoop =
    std::function<void(uint64_t count, const std::function<void(uint64_t begin, uint64_t end, uint32_t worker)> &body)>;

// Computes a layer by Winograd's algorithm. `scratch` has winograd_scratch_floats() floats, aligned to 64 bytes.
void run_winograd(const WinogradTarget &target, const WinogradLayer &layer, WinogradSharing sharing, const float *input,
                  float *output, float *scratch, const WinogradLoop &loop);

// Returns the number of floats of the packed weights of a layer.
uint64_t winograd_packed_floats(const WinogradLayer &layer);

// Packs weights: transforms a filter [outputs, 3, 3, channels], in double precision, and appends the bias (null:
// zeros). Weights are ordered by slice (target.slice output channels; the last slice may have fewer), then by the
// (m + 2)^2 positions of a tile, input channel and output channel. So the weights of each slice are contiguous.
void pack_winograd(const WinogradTarget &target, const WinogradLayer &layer, const float *filter, const float *bias,
                   float *packed);

// Returns the distance in floats between two positions' data in a block of `tiles` tiles with `width` numbers each. It
// is an odd number of cache lines, so that the positions of a tile are not in the same set of the cache. The function
// is static, because each instruction set needs its own copy.
static constexpr uint64_t winograd_stride(uint64_t tiles, uint64_t width) {
  return tiles * width + (tiles * width / 16 % 2 == 0 ? 16 : 0);
}

extern const WinogradTarget winograd_base, winograd_avx2, winograd_avx512f, winograd_neon;

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_WINOGRAD_H_
