// Winograd's convolution F(2x2, 3x3) computes a tile of 2x2 outputs from 4x4 inputs with 16 multiplications for each
// pair of channels instead of 36. The algorithm transforms inputs and filters. For each of the 16 positions of a tile,
// it multiplies two matrices over the channels. Then it transforms the 16 products of a tile to the tile's outputs.
//
// The factors of the transforms are 1 and 1/2, and each sum has one term per input channel instead of nine. So results
// are about as exact as in the direct form: rms errors are 0.6 to 1.7 times as large. The error of an output is
// relative to the largest input of its tile, because this largest input affects all outputs of the tile. Larger tiles
// would be faster, but less exact.
#include "lib/tile.h"
#include "ops/convolution.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

using Floats = Vector<float>;
constexpr int64_t kPositions = 16;
constexpr int64_t kTaps = 9;
constexpr int64_t kChunk = 16;  // number of rows of a left operand that a task transforms together

// Only some rows of tiles are transformed at a time, so that their transformed inputs (kCacheFloats floats) stay in a
// cache. At least kMinTiles tiles are transformed at a time, because each time all filters are transformed again.
constexpr int64_t kCacheFloats = 1 << 20;
constexpr int64_t kMinTiles = 256;

// Loads n elements, but at most one vector; lanes from n on are 0.
inline Floats load_part(const float *from, int64_t n) {
  if (n >= kLanes<float>) return load_vector(from);
  float part[kLanes<float>] = {};
  copy_run<1>(part, from, n);
  return load_vector(part);
}

// Transforms four inputs along one dim of a tile (Winograd), in place. The inputs are `step` elements apart.
inline void transform_inputs(Floats *d, int step) {
  const Floats sum = d[step] + d[2 * step], difference = d[2 * step] - d[step];
  d[0] -= d[2 * step];
  d[3 * step] -= d[step];
  d[step] = sum, d[2 * step] = difference;
}

inline void transform_tile(Floats *d) {
  for (int i = 0; i < 4; ++i) transform_inputs(d + i, 4);
  for (int i = 0; i < 4; ++i) transform_inputs(d + 4 * i, 1);
}

// Transforms three taps of a filter along one dim. Writes four elements, which are `step` elements apart.
inline void transform_taps(Floats a, Floats b, Floats c, Floats *to, int step) {
  const Floats even = (a + c) * 0.5f, odd = b * 0.5f;
  to[0] = a, to[step] = even + odd, to[2 * step] = even - odd, to[3 * step] = c;
}

inline void transform_filter(const Floats *taps, Floats *to) {
  Floats half[12];
  for (int i = 0; i < 3; ++i) transform_taps(taps[i], taps[3 + i], taps[6 + i], half + i, 3);
  for (int i = 0; i < 4; ++i) transform_taps(half[3 * i], half[3 * i + 1], half[3 * i + 2], to + 4 * i, 1);
}

inline void transform_products(const Floats *m, Floats *to) {
  Floats half[2][4];
  for (int i = 0; i < 4; ++i) {
    half[0][i] = m[i] + m[4 + i] + m[8 + i];
    half[1][i] = m[4 + i] - m[8 + i] + m[12 + i];
  }
  for (int i = 0; i < 2; ++i) {
    to[2 * i] = half[i][0] + half[i][1] + half[i][2];
    to[2 * i + 1] = half[i][1] - half[i][2] + half[i][3];
  }
}

inline void store_positions(const Floats *from, float *to, int64_t step) {
  for (int64_t p = 0; p < kPositions; ++p) store_vector(to + p * step, from[p]);
}

// Rounds a distance (in floats) up to an odd number of cache lines, so that its multiples lie in different sets of the
// cache.
constexpr int64_t spread(int64_t floats) {
  const int64_t lines = (floats + 15) / 16;
  return (lines + 1 - lines % 2) * 16;
}

// The sizes of the matrix products, one for each of the 16 positions of a tile: [rows, channels] times [channels,
// columns]. The left operands of adjacent positions are `left_step` apart, the right operands `right_step`. The rows of
// a left operand are `row_step` apart. A right operand consists of panels (packed columns); the panel from `column` on
// begins at `column` * `channels`.
struct Products {
  int64_t rows, channels;
  Panels<float> panels;
  int64_t row_step, left_step, right_step;

  Products(int64_t row_count, int64_t channel_count, int64_t columns)
      : rows(row_count),
        channels(channel_count),
        panels(columns),
        row_step(spread(channels)),
        left_step(spread(kChunk * row_step)),
        right_step(spread(channels * panels.vectors * kLanes<float>)) {}
  int64_t right_floats() const { return kPositions * right_step; }
  int64_t task_floats() const { return kPositions * (left_step + kChunk * kPanel<float>); }
};

// The outputs of several tiles, without the bias: outputs[2 * i + j][t] is row i and column j of tile t.
using Outputs = float[4][kPanel<float>];

// Computes product[row block][position in the tile][kTileRows][width]: for each position, multiplies m rows of `left`
// by a panel.
template <int kVectors>
void multiply(const Products &sizes, const float *left, const float *right, int64_t m, float *product) {
  constexpr int64_t kWidth = kVectors * kLanes<float>;
  for (int64_t position = 0; position < kPositions; ++position, left += sizes.left_step, right += sizes.right_step) {
    for (int64_t row = 0; row < m; row += kTileRows) {
      const float *rows[kTileRows];
      for (int64_t i = 0; i < kTileRows; ++i) rows[i] = left + min_of(row + i, m - 1) * sizes.row_step;
      float *const block = product + (row * kPositions + position * kTileRows) * kWidth;
      accumulate_tile<float, kVectors>(rows, 1, sizes.channels, {right, kWidth}, block);
    }
  }
}

// Multiplies all rows by all panels and transforms the products to outputs. transform_rows(begin, end, left) writes
// rows of the left operands; store(row, column, width, outputs) stores the outputs of a row in the columns of a panel.
// `memory` has task_floats() floats for each worker; the workers' parts are `memory_step` apart. Returns false if an
// output is infinite or NaN.
template <class TransformRows, class Store>
bool multiply_all(Call &call, const Products &sizes, const float *right, float *memory, int64_t memory_step,
                  const TransformRows &transform_rows, const Store &store) {
  const int64_t chunks = (sizes.rows + kChunk - 1) / kChunk;
  const int64_t panels = sizes.panels.count;
  // If there are few chunks of rows, several tasks transform the same chunk, and each task multiplies the chunk by some
  // of the panels.
  const int64_t parts = min_of((4 * call.worker_count() + chunks - 1) / chunks, (panels + 3) / 4);
  const int64_t work = kChunk * kPositions * sizes.channels * (sizes.panels.columns / parts);
  int32_t is_finite = 1;
  call.parallel(chunks * parts, (1 << 17) / (work + 1) + 1, [&](int64_t begin, int64_t end, int64_t worker) {
    float *const left = memory + worker * memory_step;
    float *const product = left + kPositions * sizes.left_step;
    Floats zeros = {};  // a sum that becomes NaN if an output is infinite or NaN
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task / parts * kChunk;
      const int64_t m = min_of(kChunk, sizes.rows - first);
      const int64_t last = panels * (task % parts + 1) / parts;
      transform_rows(first, first + m, left);
      for (int64_t panel = panels * (task % parts) / parts; panel < last; ++panel) {
        const int64_t column = sizes.panels.begin(panel);
        const int64_t width = sizes.panels.width(panel);
        with_vectors(width / kLanes<float>, [&](auto vectors) {
          multiply<vectors.kCount>(sizes, left, right + column * sizes.channels, m, product);
        });
        for (int64_t row = 0; row < m; ++row) {
          const int64_t block = row / kTileRows * kTileRows;
          const float *from = product + (block * kPositions + row - block) * width;
          alignas(64) Outputs outputs;
          for (int64_t j = 0; j < width; j += kLanes<float>) {
            Floats products[kPositions], sums[4];
            for (int64_t p = 0; p < kPositions; ++p) products[p] = load_vector(from + p * kTileRows * width + j);
            transform_products(products, sums);
            for (int i = 0; i < 4; ++i) {
              store_vector(outputs[i] + j, sums[i]);
              zeros += sums[i] * 0.0f;
            }
          }
          store(first + row, column, width, outputs);
        }
      }
    }
    for (int i = 0; i < kLanes<float>; ++i) {
      if (!(zeros[i] == 0)) __atomic_store_n(&is_finite, 0, __ATOMIC_RELAXED);
    }
  });
  return is_finite != 0;
}

// The number of tiles (2x2 outputs) of an image in each dim.
struct Tiles {
  int64_t across, down;
  explicit Tiles(const Conv &conv) : across((conv.out_w + 1) / 2), down((conv.out_h + 1) / 2) {}
  int64_t count() const { return across * down; }
};

// A copy of some rows of tiles of one input plane. Inputs at the same place of adjacent tiles are adjacent in the copy.
// Part (a, b) has the inputs in row a < 2 and column b < 4 of every tile. The copy includes one more row of tiles,
// because rows 2 and 3 of a tile are rows 0 and 1 of the tile below.
struct TileInputs {
  int64_t across, part;
  TileInputs(int64_t tiles_across, int64_t rows) : across(tiles_across), part((rows + 1) * tiles_across) {}

  // returns the size, with space for a vector past the last part
  int64_t floats() const { return 8 * part + kLanes<float>; }
  int64_t offset(int64_t row, int64_t column) const { return (row % 2 * 4 + column) * part + row / 2 * across; }

  // Copies the rows of tiles from row `first` on. `to` must be zero before, because fill does not write the padding.
  void fill(const Conv &conv, const float *plane, int64_t first, float *to) const {
    for (int64_t a = 0; a < 2; ++a) {
      const int64_t shift = 2 * first + a - conv.pad_h;
      const ValidRange lines(part / across, 2, shift, conv.in_h);
      for (int64_t b = 0; b < 4; ++b, to += part) {
        const ValidRange valid(across, 2, b - conv.pad_w, conv.in_w);
        for (int64_t i = lines.begin; i < lines.end; ++i) {
          const float *from = plane + (2 * i + shift) * conv.in_w + 2 * valid.begin + b - conv.pad_w;
          copy_run<2>(to + i * across + valid.begin, from, valid.end - valid.begin);
        }
      }
    }
  }
};

// Stores the outputs of at most `width` tiles, from tile number `tile` on, in an output plane.
void store_in_plane(const Conv &conv, int64_t tile, int64_t width, const Outputs &outputs, float bias, float *plane) {
  const Tiles tiles(conv);
  float lines[2][2 * kPanel<float>];
  for (int i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      lines[i][2 * j] = outputs[2 * i][j] + bias;
      lines[i][2 * j + 1] = outputs[2 * i + 1][j] + bias;
    }
  }
  const int64_t end = min_of(tile + width, tiles.count());
  for (int64_t at = tile, next; at < end; at = next) {
    const int64_t row = at / tiles.across;
    const int64_t column = at % tiles.across;
    next = min_of(end, (row + 1) * tiles.across);
    const int64_t count = min_of(2 * (next - at), conv.out_w - 2 * column);
    for (int64_t i = 0; i < 2 && 2 * row + i < conv.out_h; ++i) {
      copy_run<1>(plane + (2 * row + i) * conv.out_w + 2 * column, lines[i] + 2 * (at - tile), count);
    }
  }
}

}  // namespace

bool prefers_winograd(const Conv &conv) {
  // minimum number of channels; with fewer, transforming the images takes too long
  constexpr int64_t kMinChannels = 16;
  constexpr int64_t kTilesOfFilter = 16;  // minimum number of tiles; with fewer, transforming the filters takes long
  if (conv.kernel_h != 3 || conv.kernel_w != 3 || conv.stride_h != 1 || conv.stride_w != 1) return false;
  if (conv.dilation_h != 1 || conv.dilation_w != 1 || conv.groups != 1) return false;
  if (conv.in_channels < kMinChannels || conv.out_channels < kMinChannels) return false;
  const int64_t tiles = Tiles(conv).count();
  return tiles >= kTilesOfFilter && 2 * tiles < conv.out_pixels();  // with one output row, half of each tile is unused
}

// Winograd's convolution of layout N, C, H, W. The left operands of the products are filters, the right operands tiles.
bool winograd_planes(Call &call, const Conv &conv, const float *input, const float *weight, const float *bias,
                     float *out) {
  const Tiles tiles(conv);
  const int64_t channels = conv.in_channels;
  const int64_t most = max_of(kMinTiles, kCacheFloats / (kPositions * channels));
  const int64_t bands = (tiles.count() + most - 1) / most;
  const int64_t rows = (tiles.down + bands - 1) / bands;  // number of rows of tiles transformed together (a band)
  const Products largest(conv.out_channels, channels, rows * tiles.across);
  const int64_t step = spread(max_of(largest.task_floats(), TileInputs(tiles.across, rows).floats()));
  float *const right = call.optional_scratch<float>(largest.right_floats() + call.worker_count() * step);
  if (right == nullptr) return false;
  float *const memory = right + largest.right_floats();
  for (int64_t i = 0; i < conv.batch * bands; ++i) {
    const int64_t first = i % bands * rows;
    const int64_t count = min_of(rows, tiles.down - first);
    if (count <= 0) continue;  // the last bands (rows of tiles) may be empty: `rows` is rounded up
    const float *const image = input + i / bands * channels * conv.in_pixels();
    float *const target = out + i / bands * conv.out_channels * conv.out_pixels();
    const Products sizes(conv.out_channels, channels, count * tiles.across);
    const TileInputs inputs(tiles.across, count);
    const int64_t grain = 8192 / (kPositions * sizes.panels.columns) + 1;
    call.parallel(channels, grain, [&](int64_t begin, int64_t end, int64_t worker) {
      float *const own = memory + worker * step;
      for (int64_t j = 0; j < inputs.floats(); ++j) own[j] = 0;
      for (int64_t c = begin; c < end; ++c) {
        inputs.fill(conv, image + c * conv.in_pixels(), first, own);
        for (int64_t panel = 0; panel < sizes.panels.count; ++panel) {
          const int64_t column = sizes.panels.begin(panel);
          const int64_t width = sizes.panels.width(panel);
          float *const to = right + column * channels + c * width;
          for (int64_t j = 0; j < width; j += kLanes<float>) {
            Floats tile[kPositions];
            for (int64_t p = 0; p < kPositions; ++p) {
              tile[p] = load_vector(own + inputs.offset(p / 4, p % 4) + column + j);
            }
            transform_tile(tile);
            store_positions(tile, to + j, sizes.right_step);
          }
        }
      }
    });
    const auto transform_filters = [&](int64_t begin, int64_t end, float *left) {
      for (int64_t k = begin; k < end; ++k, left += sizes.row_step) {
        for (int64_t c = 0; c < channels; c += kLanes<float>) {
          const float *from = weight + (k * channels + c) * kTaps;
          const int64_t n = min_of(kLanes<float>, channels - c);
          alignas(64) float taps[kTaps][kLanes<float>] = {};
          copy_transposed(from, kTaps, n, kTaps, taps[0], kLanes<float>);
          Floats filter[kTaps], transformed[kPositions];
          for (int64_t tap = 0; tap < kTaps; ++tap) filter[tap] = load_vector(taps[tap]);
          transform_filter(filter, transformed);
          store_positions(transformed, left + c, sizes.left_step);
        }
      }
    };
    const auto store = [&](int64_t k, int64_t column, int64_t width, const Outputs &outputs) {
      store_in_plane(conv, first * tiles.across + column, width, outputs, bias != nullptr ? bias[k] : 0.0f,
                     target + k * conv.out_pixels());
    };
    if (!multiply_all(call, sizes, right, memory, step, transform_filters, store)) return false;
  }
  return true;
}

// Winograd's convolution of layout N, H, W, C. The left operands of the products are tiles, the right operands filters.
bool winograd_pixels(Call &call, const Conv &conv, const float *input, const float *weight, const int64_t *strides,
                     const float *bias, float *out) {
  constexpr int64_t kBlock = 64;  // number of input channels whose filters a task transforms together
  const Tiles tiles(conv);
  const int64_t channels = conv.in_channels;
  const Products sizes(conv.batch * tiles.count(), channels, conv.out_channels);
  const int64_t step = spread(sizes.task_floats());
  float *const right = call.optional_scratch<float>(sizes.right_floats() + call.worker_count() * step);
  if (right == nullptr) return false;
  const int64_t blocks = (channels + kBlock - 1) / kBlock;
  call.parallel(sizes.panels.count * blocks, 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t c0 = task % blocks * kBlock;
      const int64_t depth = min_of(kBlock, channels - c0);
      const int64_t column = sizes.panels.begin(task / blocks);
      const int64_t width = sizes.panels.width(task / blocks);
      float *const to = right + column * channels + c0 * width;
      for (int64_t j = 0; j < width; j += kLanes<float>) {
        // The taps of the filters, indexed by tap, input channel and output channel.
        alignas(64) float taps[kTaps][kBlock][kLanes<float>] = {};
        const int64_t n = min_of(kLanes<float>, conv.out_channels - column - j);
        for (int64_t tap = 0; tap < kTaps; ++tap) {
          const float *from = weight + (column + j) * strides[0] + c0 * strides[1] + tap / 3 * strides[2];
          from += tap % 3 * strides[3];
          if (strides[1] == 1) {
            copy_transposed(from, strides[0], n, depth, taps[tap][0], kLanes<float>);
            continue;
          }
          for (int64_t k = 0; k < n; ++k, from += strides[0]) {
            for (int64_t c = 0; c < depth; ++c) taps[tap][c][k] = from[c * strides[1]];
          }
        }
        for (int64_t c = 0; c < depth; ++c) {
          Floats filter[kTaps], transformed[kPositions];
          for (int64_t tap = 0; tap < kTaps; ++tap) filter[tap] = load_vector(taps[tap][c]);
          transform_filter(filter, transformed);
          store_positions(transformed, to + c * width + j, sizes.right_step);
        }
      }
    }
  });
  const auto transform_tiles = [&](int64_t begin, int64_t end, float *left) {
    for (int64_t i = begin; i < end; ++i, left += sizes.row_step) {
      const float *const image = input + i / tiles.count() * conv.in_pixels() * channels;
      const float *pixels[kPositions];  // addresses of the input pixels of a tile; NULL: a pixel of the padding
      for (int64_t p = 0; p < kPositions; ++p) {
        const int64_t y = i % tiles.count() / tiles.across * 2 - conv.pad_h + p / 4;
        const int64_t x = i % tiles.across * 2 - conv.pad_w + p % 4;
        const bool inside = y >= 0 && y < conv.in_h && x >= 0 && x < conv.in_w;
        pixels[p] = inside ? image + (y * conv.in_w + x) * channels : nullptr;
      }
      for (int64_t c = 0; c < channels; c += kLanes<float>) {
        Floats tile[kPositions];
        for (int64_t p = 0; p < kPositions; ++p) {
          tile[p] = pixels[p] == nullptr ? Floats{} : load_part(pixels[p] + c, channels - c);
        }
        transform_tile(tile);
        store_positions(tile, left + c, sizes.left_step);
      }
    }
  };
  const auto store = [&](int64_t i, int64_t column, int64_t width, const Outputs &outputs) {
    float *const image = out + i / tiles.count() * conv.out_pixels() * conv.out_channels;
    const int64_t n = min_of(width, conv.out_channels - column);
    for (int64_t place = 0; place < 4; ++place) {
      const int64_t y = i % tiles.count() / tiles.across * 2 + place / 2;
      const int64_t x = i % tiles.across * 2 + place % 2;
      if (y >= conv.out_h || x >= conv.out_w) continue;
      float *const to = image + (y * conv.out_w + x) * conv.out_channels + column;
      for (int64_t j = 0; j < n; ++j) to[j] = outputs[place][j] + (bias != nullptr ? bias[column + j] : 0.0f);
    }
  };
  return multiply_all(call, sizes, right, right + sizes.right_floats(), step, transform_tiles, store);
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
