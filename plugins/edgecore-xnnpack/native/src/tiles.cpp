#include "tiles.h"

#include <cstddef>

#include "edgecore/backend.hpp"

// Functions that a patch of this plugin adds to XNNPACK (third_party/patches/16-f32-tiles.patch). They are weak
// symbols, because an XNNPACK without the patch (CMake's option XNNPACK_DIR) lacks them.
extern "C" {
__attribute__((weak)) bool xnn_get_f32_tile(size_t index, uint32_t *mr, uint32_t *nr);
__attribute__((weak)) void xnn_choose_f32_tile(size_t outputs, size_t row_bytes, uint32_t *mr, uint32_t *nr);
__attribute__((weak)) void xnn_force_f32_tile(uint32_t mr, uint32_t nr);
}

namespace edgecore::xnnpack {

std::vector<Tile> tiles() {
  std::vector<Tile> all;
  Tile tile;
  while (xnn_get_f32_tile != nullptr && xnn_get_f32_tile(all.size(), &tile.rows, &tile.columns)) all.push_back(tile);
  return all;
}

Tile chosen_tile(uint64_t outputs, uint64_t row_bytes) {
  Tile tile;
  if (xnn_choose_f32_tile != nullptr) {
    xnn_choose_f32_tile(static_cast<size_t>(outputs), static_cast<size_t>(row_bytes), &tile.rows, &tile.columns);
  }
  return tile;
}

void check_tile(const Tile &tile) {
  if (tile.rows == 0 && tile.columns == 0) return;
  std::string names;
  for (const Tile &one : tiles()) {
    if (tile.columns == 0 || one.columns == tile.columns) return;
    names += ", " + tile_text(one);
  }
  if (names.empty()) backend::fail(EDGECORE_NOT_SUPPORTED, "the XNNPACK in this library cannot choose tiles");
  backend::fail(EDGECORE_NOT_SUPPORTED, "the option tile_columns is %u; the tiles of this processor are %s",
                tile.columns, names.c_str() + 2);
}

ForcedTile::ForcedTile(const Tile &tile) {
  if (xnn_force_f32_tile != nullptr) xnn_force_f32_tile(tile.rows, tile.columns);
}

ForcedTile::~ForcedTile() {
  if (xnn_force_f32_tile != nullptr) xnn_force_f32_tile(0, 0);
}

std::string tile_text(const Tile &tile) { return std::to_string(tile.rows) + "x" + std::to_string(tile.columns); }

}  // namespace edgecore::xnnpack
