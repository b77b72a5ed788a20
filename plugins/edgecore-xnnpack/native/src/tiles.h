// The tiles of XNNPACK's fp32 matrix products: the numbers of rows (pixels) and columns (output channels) that a kernel
// computes at a time. The functions depend on a patch of XNNPACK (third_party/patches/16-f32-tiles.patch), which lists
// the tiles, and chooses one for each layer.
#ifndef EDGECORE_XNNPACK_TILES_H_
#define EDGECORE_XNNPACK_TILES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace edgecore::xnnpack {

struct Tile {
  uint32_t rows = 0, columns = 0;  // size of a kernel's output; 0: XNNPACK chooses a size for each layer
};

// Returns the fp32 tiles that XNNPACK has for this processor; none if the linked XNNPACK lacks the plugin's patch.
std::vector<Tile> tiles();

// Returns the tile with the most rows that XNNPACK uses for a layer with this many output channels per group and this
// distance in bytes between its input rows; {0, 0} if the linked XNNPACK lacks the patch.
Tile chosen_tile(uint64_t outputs, uint64_t row_bytes);

// Throws backend::Failure if XNNPACK has no tile with this number of columns on this processor.
void check_tile(const Tile &tile);

// Restricts the tiles of fp32 layers that this thread creates while the object exists: to tiles with exactly `columns`
// columns and at most `rows` rows (0: XNNPACK chooses).
class ForcedTile {
 public:
  explicit ForcedTile(const Tile &tile);
  ~ForcedTile();

  ForcedTile(const ForcedTile &) = delete;
  ForcedTile &operator=(const ForcedTile &) = delete;
};

// Formats a tile as text such as "7x16": rows x columns.
std::string tile_text(const Tile &tile);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_TILES_H_
