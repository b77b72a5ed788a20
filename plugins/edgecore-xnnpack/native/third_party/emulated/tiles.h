// AMX tiles: eight registers of up to 16 rows of up to 64 bytes. A configuration holds the sizes. Each thread has its
// own registers and configuration. Uses that fault on the processor (#UD, #GP) trap here.
#ifndef EDGECORE_EMULATED_TILES_H
#define EDGECORE_EMULATED_TILES_H

// The memory layout of LDTILECFG, palette 1.
struct edgecore_tile_configuration {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved_0[14];
  uint16_t row_bytes[8];
  uint16_t reserved_1[8];
  uint8_t rows[8];
  uint8_t reserved_2[8];
};

struct edgecore_tiles {
  struct edgecore_tile_configuration configuration;  // palette 0: no configuration is loaded
  uint8_t data[8][16][64];
};

__attribute__((unused)) static _Thread_local struct edgecore_tiles edgecore_tiles_of_thread;

// Returns the tiles of the thread; traps if no configuration is loaded, or if it has no size for `tile`.
EDGECORE_EMULATED struct edgecore_tiles *edgecore_tiles_with(int tile) {
  struct edgecore_tiles *tiles = &edgecore_tiles_of_thread;
  if (tiles->configuration.palette != 1 || tile < 0 || tile > 7 || tiles->configuration.rows[tile] == 0 ||
      tiles->configuration.row_bytes[tile] == 0) {
    __builtin_trap();
  }
  return tiles;
}

__attribute__((unused)) static void edgecore_tile_loadconfig(const void *from) {
  struct edgecore_tiles *tiles = &edgecore_tiles_of_thread;
  struct edgecore_tile_configuration *const configuration = &tiles->configuration;
  memset(tiles, 0, sizeof(*tiles));
  memcpy(configuration, from, sizeof(*configuration));
  if (configuration->palette > 1 || configuration->start_row != 0) {
    __builtin_trap();
  }
  for (int i = 0; i < 8; i++) {
    if (configuration->rows[i] > 16 || configuration->row_bytes[i] > 64 ||
        (configuration->rows[i] == 0) != (configuration->row_bytes[i] == 0)) {
      __builtin_trap();
    }
  }
}

__attribute__((unused)) static void edgecore_tile_release(void) {
  memset(&edgecore_tiles_of_thread, 0, sizeof(edgecore_tiles_of_thread));
}

__attribute__((unused)) static void edgecore_tile_zero(int tile) {
  struct edgecore_tiles *tiles = edgecore_tiles_with(tile);
  memset(tiles->data[tile], 0, sizeof(tiles->data[tile]));
}

// Loads a tile; bytes and rows beyond its configured size become zero.
__attribute__((unused)) static void edgecore_tile_loadd(int tile, const void *from, size_t stride) {
  struct edgecore_tiles *tiles = edgecore_tiles_with(tile);
  memset(tiles->data[tile], 0, sizeof(tiles->data[tile]));
  for (int row = 0; row < tiles->configuration.rows[tile]; row++) {
    memcpy(tiles->data[tile][row], (const char *)from + (size_t)row * stride, tiles->configuration.row_bytes[tile]);
  }
}

__attribute__((unused)) static void edgecore_tile_stored(int tile, void *to, size_t stride) {
  struct edgecore_tiles *tiles = edgecore_tiles_with(tile);
  for (int row = 0; row < tiles->configuration.rows[tile]; row++) {
    memcpy((char *)to + (size_t)row * stride, tiles->data[tile][row], tiles->configuration.row_bytes[tile]);
  }
}

// TDPBSSD: into (m x n int32) += a (m x 4k int8) * b (k x n groups of four int8). A group holds four consecutive rows
// of a column of the matrix b. Sums wrap around.
__attribute__((unused)) static void edgecore_tile_dpbssd(int into, int a, int b) {
  struct edgecore_tiles *tiles = edgecore_tiles_with(into);
  edgecore_tiles_with(a);
  edgecore_tiles_with(b);
  const struct edgecore_tile_configuration *const configuration = &tiles->configuration;
  const int m = configuration->rows[into], n = configuration->row_bytes[into] / 4, k = configuration->row_bytes[a] / 4;
  if (into == a || into == b || a == b || configuration->rows[a] != m || configuration->rows[b] != k ||
      configuration->row_bytes[b] != configuration->row_bytes[into] || configuration->row_bytes[into] % 4 != 0 ||
      configuration->row_bytes[a] % 4 != 0) {
    __builtin_trap();
  }
  for (int row = 0; row < m; row++) {
    uint32_t sums[16];
    memcpy(sums, tiles->data[into][row], sizeof(sums));
    for (int group = 0; group < k; group++) {
      const int8_t *const x = (const int8_t *)&tiles->data[a][row][4 * group];
      const int8_t *const y = (const int8_t *)tiles->data[b][group];
      for (int column = 0; column < n; column++) {
        for (int i = 0; i < 4; i++) {
          sums[column] += (uint32_t)((int32_t)x[i] * (int32_t)y[4 * column + i]);
        }
      }
    }
    memset(tiles->data[into][row], 0, 64);
    memcpy(tiles->data[into][row], sums, (size_t)n * 4);
  }
  memset(tiles->data[into][m], 0, (size_t)(16 - m) * 64);
}

#undef _tile_loadconfig
#define _tile_loadconfig edgecore_tile_loadconfig
#undef _tile_release
#define _tile_release edgecore_tile_release
#undef _tile_zero
#define _tile_zero edgecore_tile_zero
#undef _tile_loadd
#define _tile_loadd edgecore_tile_loadd
#undef _tile_stored
#define _tile_stored edgecore_tile_stored
#undef _tile_dpbssd
#define _tile_dpbssd edgecore_tile_dpbssd

#endif
