// Winograd's convolution algorithm F(m x m, 3x3): window 3x3, stride 1, dilation 1, one group, NHWC images, in fp32 or
// int8.
//
// A tile of m x m outputs is computed from (m + 2) x (m + 2) inputs. Inputs, filter and products are transformed;
// between the transforms, each of the P = (m + 2)^2 positions of a tile has a matrix product over the channels. F(4x4)
// interpolates at the points 0, +-sqrt(1/2), +-sqrt(2) (and infinity); with 0, +-1, +-2 the error would be five times
// as large.
//
// Both forms also compute int8 convolutions, exactly. Transformed inputs and weights fit into int16, whose products are
// added in pairs by one instruction.
//
// F(2x2): the transforms of inputs and products add and subtract. The transform of the filter halves numbers, so the
// packed weights are 4 times as large, which makes them integers: the products become 4 times the sums of a direct
// convolution. Transformed inputs are at most 4 * 255, weights at most 9 * 128.
//
// F(4x4) in int8 interpolates at 0, +-1, +-2 (and infinity), where all factors are fractions of small integers. Its
// filter's transform divides by 4, -6, -6, 24, 24 and 1; packed weights lack these divisions, which makes them
// integers. The transform of products has integer factors that make each of its two steps' results 24 times as large.
// Bounds, with inputs (less the zero point) of at most 255, weights of at most 128, and the absolute sums of the
// transforms' rows, 10 of inputs and 7 of a filter: transformed inputs are at most 10 * 10 * 255, weights at most 7 * 7
// * 128, which fits into int16. Sums over channels exceed 32 bits. They wrap around, and every step keeps as many lower
// bits as the result needs:
//
// - The first step's results (a column of products becomes 4 numbers) are 24 h, where h is an integer: the sum of a
//   convolution in one dimension. h is known modulo 2^29, because 24 is 8 * 3, and 3 has an inverse modulo 2^32.
// - The second step multiplies columns 0, 1, 2 and 5 by 6, 4, 4 and 24: even numbers, by which 3 h, known modulo 2^29,
//   becomes known modulo 2^30. Columns 3 and 4 also have the factor 1, so h must be known entirely there. There
//   abs(h) < 2^28 for layers of up to kMaxInt8Channels4 inputs.
// - So the second step's results, 72 times an output's sum, are known modulo 2^30. Division by 72, which is 8 * 9,
// leaves
//   the sum modulo 2^27. The sum of 9 * kMaxInt8Channels4 products of 255 and 128 is below 2^26.
#ifndef EDGECORE_XNNPACK_WINOGRAD_H_
#define EDGECORE_XNNPACK_WINOGRAD_H_

#include <cstdint>
#include <functional>

namespace edgecore::xnnpack {

struct WinogradLayer {
  uint32_t form = 2;                                        // m: 2 or 4
  uint64_t batch = 0, height = 0, width = 0, channels = 0;  // sizes of the input
  uint64_t rows = 0, columns = 0, outputs = 0;              // sizes of the output
  int64_t top = 0, left = 0;  // rows of padding above and columns left of the image; the sizes determine the rest
  float min = 0, max = 0;     // output range; int8: without the zero point
  int32_t input_zero_point = 0, output_zero_point = 0;  // int8
  const void *packed = nullptr;                         // packed weights, from pack_winograd or pack_winograd_int8
};

// Tiles [first, last) of outputs that are computed together. Tiles are numbered row by row, over all images.
struct WinogradBlock {
  uint64_t first, last;
};

// A kernel that transforms the inputs of the tiles [begin, end) of a block.
using WinogradTransform = void (*)(const WinogradLayer &layer, const void *input, WinogradBlock block, uint64_t begin,
                                   uint64_t end, void *transformed);
// A kernel that computes the outputs of a block from its transformed inputs, for the slice (range of output channels)
// that begins with channel `channel`.
using WinogradMultiply = void (*)(const WinogradLayer &layer, const void *transformed, WinogradBlock block,
                                  uint64_t channel, void *products, void *output);

// The kernels of an instruction set. A new set needs a file like winograd_avx2.cpp, and a row in winograd_target.
struct WinogradTarget {
  WinogradTransform transform;
  WinogradMultiply multiply;
  uint64_t slice;         // size of a slice: number of output channels that are computed together, a multiple of 16
  uint64_t factor_bytes;  // size of a transformed input and of a transformed weight: 4 (fp32) or 2 (int8)
};

constexpr uint64_t kWinogradChannels = 16;  // channels are padded with zeros to a multiple of this number
// The most input channels of an int8 layer for F(2x2): 4 times the sum of 9 * channels products of 255 and 128 fits
// into int32.
constexpr uint64_t kMaxInt8Channels = (uint64_t{1} << 29) / (9 * 255 * 128);

// The same for F(4x4). In columns 3 and 4, each channel adds three products of an input that is transformed along its
// row only, at most 3 * 255 (the positive and the negative factors have sums of 3), and such a weight, at most 7 * 128.
// The sums are below 2^28.
constexpr uint64_t kMaxInt8Channels4 = (uint64_t{1} << 28) / (3 * (3 * 255) * (7 * 128));
static_assert(kMaxInt8Channels4 * 9 * 255 * 128 < uint64_t{1} << 26, "sums of F(4x4) are known modulo 2^27");

// Returns the Winograd kernels for the widest vectors of this processor that XNNPACK may use; null if there are none.
const WinogradTarget *winograd_target();

// Returns the Winograd kernels for int8. Null if there are none, or if the processor has VNNI: its direct kernels do 4
// multiplications of int8 in a lane where Winograd's do 2, and have no transforms.
const WinogradTarget *winograd_int8_target();

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
uint64_t winograd_scratch_bytes(const WinogradTarget &target, const WinogradLayer &layer, WinogradSharing sharing,
                                uint64_t workers);

// A function that calls body(begin, end, worker) for ranges that partition [0, count), perhaps in parallel.
using WinogradLoop =
    std::function<void(uint64_t count, const std::function<void(uint64_t begin, uint64_t end, uint32_t worker)> &body)>;

// Computes a layer by Winograd's algorithm. `scratch` has winograd_scratch_bytes() bytes, aligned to 64 bytes.
void run_winograd(const WinogradTarget &target, const WinogradLayer &layer, WinogradSharing sharing, const void *input,
                  void *output, void *scratch, const WinogradLoop &loop);

// Returns the number of bytes of the packed weights of a layer.
uint64_t winograd_packed_bytes(const WinogradTarget &target, const WinogradLayer &layer);

// Packs weights: transforms a filter [outputs, 3, 3, channels], in double precision, and appends the bias (null:
// zeros). Weights are ordered by slice (target.slice output channels; the last slice may have fewer), then by the
// (m + 2)^2 positions of a tile, input channel and output channel. So the weights of each slice are contiguous.
void pack_winograd(const WinogradTarget &target, const WinogradLayer &layer, const float *filter, const float *bias,
                   float *packed);

// Packs weights of an int8 layer, as int16 in the same order, but with the weights of two input channels side by side.
// The bias (null: zeros) follows, and then the factors by which sums become outputs: `scales` has one for each output.
void pack_winograd_int8(const WinogradTarget &target, const WinogradLayer &layer, const int8_t *filter,
                        const int32_t *bias, const float *scales, void *packed);

// Returns the distance between two positions' data in a block of `tiles` tiles with `width` numbers each, counted in
// numbers of `bytes` bytes. It is an odd number of cache lines, so that the positions of a tile are not in the same set
// of the cache. The function is static, because each instruction set needs its own copy.
static constexpr uint64_t winograd_stride(uint64_t tiles, uint64_t width, uint64_t bytes) {
  return ((tiles * width * bytes + 63) / 64 | 1) * 64 / bytes;
}

extern const WinogradTarget winograd_base, winograd_avx2, winograd_avx512f, winograd_neon;
extern const WinogradTarget winograd_int8_avx2, winograd_int8_avx512skx;

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_WINOGRAD_H_
