// The tiles of XNNPACK's fp32 matrix products: the numbers of rows (pixels) and columns (outputs) that a kernel
// computes at a time. A patch of XNNPACK (third_party/patches/16-f32-tiles.patch) lists the tiles, and chooses one for
// each layer.
#ifndef EDGECORE_XNNPACK_TILES_H_
#define EDGECORE_XNNPACK_TILES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace edgecore::xnnpack {

struct Tile {
  uint32_t rows = 0, columns = 0;  // 0: XNNPACK chooses for each layer
};

// Returns the tiles of this processor; none if the linked XNNPACK is not the patched one.
std::vector<Tile> tiles();

// Returns the tile with the most rows that XNNPACK uses for a layer with this many outputs (in a group); `row_bytes` is
// the distance of its inputs' rows in memory. {0, 0} if the linked XNNPACK is not the patched one.
Tile chosen_tile(uint64_t outputs, uint64_t row_bytes);

// Throws backend::Failure if this processor has no tile with these columns.
void check_tile(const Tile &tile);

// During the lifetime of an object, layers that its thread creates use a tile with these columns, and with at most
// these rows.
class ForcedTile {
 public:
  explicit ForcedTile(const Tile &tile);
  ~ForcedTile();

  ForcedTile(const ForcedTile &) = delete;
  ForcedTile &operator=(const ForcedTile &) = delete;
};

// Returns a text such as "7x16".
std::string tile_text(const Tile &tile);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_TILES_H_
