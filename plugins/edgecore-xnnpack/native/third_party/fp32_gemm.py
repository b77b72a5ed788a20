"""fp32 matrix products of XNNPACK: tiles that it lacks or does not select, and the choice of a tile for each layer.

A tile is a number of rows (pixels) and of columns (output channels) that a kernel computes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from patch import Kernel, Patch

_CONFIGURATIONS = "src/configs/gemm-config.c"
_KINDS = ("gemm", "igemm")
_INDENT = {"avx512f": "        ", "fma3": "          "}  # of a processor's part of the configurations


@dataclass(frozen=True)
class _Width:
    """The kernels whose tiles have so many columns."""

    columns: int
    isa: str
    rows: tuple[int, ...]
    packing: str  # suffix of the function that packs the weights of a linear layer
    generated: tuple[int, ...] = ()  # those of `rows` whose kernels XNNPACK lacks
    gemv: str = ""  # suffix of our GEMM kernel for one row; empty: as those for more rows

    def suffix(self, kind: str, rows: int) -> str:
        return self.gemv if self.gemv and (kind, rows) == ("gemm", 1) else "broadcast"

    def function(self, kind: str, rows: int) -> str:
        return f"xnn_f32_{kind}_minmax_ukernel_{rows}x{self.columns}__{self.isa}_{self.suffix(kind, rows)}"

    def file(self, kind: str, rows: int) -> str:
        tile = f"{rows}x{self.columns}"
        return f"src/f32-{kind}/gen/f32-{kind}-{tile}-minmax-{self.isa}-{self.suffix(kind, rows)}.c"

    def kernels(self) -> Iterator[Kernel]:
        """Yield the kernels to generate."""
        like = "src/f32-%s/gen/f32-%s-1x32-minmax-avx512f-broadcast.c"
        listing = f"cmake/gen/{self.isa}_microkernels.cmake"
        for kind in _KINDS:
            for rows in self.generated:
                options = f"MR={rows} NR={self.columns}" + (" INC=0 DATATYPE=F32" if kind == "gemm" else "")
                template = f"src/f32-{kind}/avx512-broadcast.c.in"
                yield Kernel(template, options, self.file(kind, rows), like % (kind, kind), listing)
        if self.gemv:
            template = "src/edgecore/f32-gemv-avx512f.c.in"
            yield Kernel(template, "TILES=4", self.file("gemm", 1), like % ("gemm", "gemm"), listing)

    def patches(self) -> Iterator[Patch]:
        """Yield patches that declare the generated kernels, and let those be compiled that XNNPACK has."""
        for kind in _KINDS:
            line = f"DECLARE_F32_{kind.upper()}_MINMAX_UKERNEL_FUNCTION(%s)\n"
            existing = line % self.function(kind, 7)
            ours = [rows for rows in self.rows if rows in self.generated or self.suffix(kind, rows) != "broadcast"]
            added = "".join(line % self.function(kind, rows) for rows in ours)
            if added:
                yield Patch(f"src/xnnpack/{kind}.h", existing, existing + added)
            if self.columns < 32:
                start = f"SET(PROD_{self.isa.upper()}_MICROKERNEL_SRCS\n"
                files = "".join(f"  {self.file(kind, rows)}\n" for rows in self.rows if rows not in ours)
                yield Patch(f"cmake/gen/{self.isa}_microkernels.cmake", start, start + files)

    def configuration(self, name: str, isa: str) -> str:
        """Return the statements that fill a configuration, in the part for processors with `isa`."""
        statements = [
            f"minmax.{kind}[XNN_MR_TO_INDEX({rows})] = "
            f"xnn_init_hmp_{kind}_ukernel((xnn_{kind}_ukernel_fn) {self.function(kind, rows)});"
            for kind in _KINDS
            for rows in self.rows
        ]
        statements += [
            "init.f32 = xnn_init_f32_minmax_scalar_params;",
            "pack_gemm_gio = (xnn_packw_gemm_gio_ukernel_fn) xnn_pack_f32_gemm_gio_w;",
            f"pack_gemm_goi = (xnn_packw_gemm_goi_ukernel_fn) xnn_x32_packw_gemm_goi_ukernel_{self.packing};",
            f"mr = {max(self.rows)};",
            f"nr = {self.columns};",
        ]
        return "".join(f"{_INDENT[isa]}{name}.{statement}\n" for statement in statements)


# 12 rows are the most whose pointers fit the registers; 10 waste less of 49 and 196 rows, the pixels in the last stages
# of most image networks. XNNPACK's tile of 7 rows and 32 columns reads 128 bytes of weights for 14 multiply-adds of
# vectors, which on processors with two units for them (7 cycles) is more than the L2 cache delivers beside the other
# accesses.
_X32 = _Width(32, "avx512f", (1, 7, 10, 12), "x32__avx512f_u4_prfm", (10, 12))
# For layers where 32 columns are mostly padding: few outputs, or few outputs in each group.
_X16 = _Width(16, "avx512f", (1, 7, 12), "x16__avx_u4", (12,), "tiles4")
_X8 = _Width(8, "fma3", (1, 7), "x8__sse2_u4")
_WIDTHS = (_X32, _X16, _X8)

_TILES = """
// An fp32 tile: a configuration whose kernels have at most so many rows. `cost` is the time that a column takes, beside
// that of the processor's other widths.
struct f32_tile {
  struct xnn_gemm_config config;
  uint32_t cost;
};

// Sorted from wide to narrow, and each width from many to few rows.
static struct f32_tile f32_tiles[8];
static size_t num_f32_tiles = 0;

static __thread struct { uint32_t mr, nr; } forced_f32_tile = {0};

static void add_f32_tiles(const struct xnn_gemm_config* config, uint32_t cost) {
  for (uint32_t mr = config->mr; mr > 1; mr--) {
    if (config->minmax.gemm[mr - 1].function[XNN_UARCH_DEFAULT] != NULL) {
      struct f32_tile* tile = &f32_tiles[num_f32_tiles++];
      tile->config = *config;
      tile->config.mr = mr;
      tile->cost = cost;
    }
  }
}

// Processors on which fewer rows are faster than the most that the registers hold. Zen 4 has one unit for multiply-adds
// of 512 bits, which 7 rows keep busy.
static const struct { uint32_t uarch, mr; } f32_rows[] = {{cpuinfo_uarch_zen4, 7}};

static void init_f32_tiles(void) {
  const uint32_t widest = f32_gemm_config.nr;
  add_f32_tiles(&f32_gemm_config, 16);
  // A tile of half the columns does half as many multiply-adds with each input that it reads. With AVX512, 8 columns
  // are half of a vector, which take as long as a whole one if the processor has two units for whole vectors.
  add_f32_tiles(&f32_gemm_x16_config, 17);
  add_f32_tiles(&f32_gemm_x8_config, widest == 32 ? 33 : 19);
  for (size_t i = 0; i < sizeof(f32_rows) / sizeof(f32_rows[0]); i++) {
    if (f32_rows[i].uarch == xnn_hardware_uarch()) {
      f32_gemm_config.mr = min(f32_gemm_config.mr, f32_rows[i].mr);
    }
  }
}

// Returns the width with the least estimated time. It depends on the layer and on the instruction set alone, because
// weights are packed for it.
static uint32_t choose_f32_nr(size_t outputs) {
  uint32_t nr = 0;
  size_t least = SIZE_MAX;
  for (size_t i = 0; i < num_f32_tiles; i++) {
    const size_t cost = round_up(outputs, f32_tiles[i].config.nr) * f32_tiles[i].cost;
    if (cost < least) {
      nr = f32_tiles[i].config.nr;
      least = cost;
    }
  }
  return nr;
}

// Returns the most rows that are fast. Rows of inputs whose distance is a multiple of the bytes of one way of the L1
// cache fall into one of its sets: a set must hold a line of each row, and one of the weights.
static uint32_t choose_f32_mr(size_t row_bytes) {
  const struct cpuinfo_cache* cache = cpuinfo_get_l1d_cache(0);
  const uint32_t mr = max(f32_gemm_config.mr, f32_gemm_x12_config.mr);
  if (cache == NULL || cache->associativity < 2 || row_bytes % (cache->size / cache->associativity) != 0) {
    return mr;
  }
  return min(mr, cache->associativity - 1);
}

void xnn_choose_f32_tile(size_t outputs, size_t row_bytes, uint32_t* mr, uint32_t* nr) {
  const struct xnn_gemm_config* config = xnn_choose_f32_gemm_config(outputs, row_bytes);
  *mr = config->mr;
  *nr = config->nr;
}

void xnn_force_f32_tile(uint32_t mr, uint32_t nr) {
  forced_f32_tile.mr = mr;
  forced_f32_tile.nr = nr;
}

bool xnn_get_f32_tile(size_t index, uint32_t* mr, uint32_t* nr) {
  if (xnn_init_f32_gemm_config() == NULL || index >= num_f32_tiles) {
    return false;
  }
  *mr = f32_tiles[index].config.mr;
  *nr = f32_tiles[index].config.nr;
  return true;
}

const struct xnn_gemm_config* xnn_choose_f32_gemm_config(size_t outputs, size_t row_bytes) {
  const struct xnn_gemm_config* config = xnn_init_f32_gemm_config();
  if (config == NULL) {
    return NULL;
  }
  const uint32_t nr = forced_f32_tile.nr != 0 ? forced_f32_tile.nr : choose_f32_nr(outputs);
  const uint32_t mr = forced_f32_tile.mr != 0 ? forced_f32_tile.mr : choose_f32_mr(row_bytes);
  for (size_t i = 0; i < num_f32_tiles; i++) {
    if (f32_tiles[i].config.nr == nr) {
      config = &f32_tiles[i].config;
      if (config->mr <= mr) {
        break;
      }
    }
  }
  return config;
}

"""

_DECLARATIONS = """XNN_INTERNAL const struct xnn_gemm_config* xnn_init_f32_gemm_config();
// Chooses the tile of a layer with so many outputs (in a group); `row_bytes` is the distance of its inputs' rows.
XNN_INTERNAL const struct xnn_gemm_config* xnn_choose_f32_gemm_config(size_t outputs, size_t row_bytes);
XNN_INTERNAL void xnn_choose_f32_tile(size_t outputs, size_t row_bytes, uint32_t* mr, uint32_t* nr);
// Layers that this thread creates get the tile of `nr` columns with the most rows up to `mr`; 0: as chosen for a layer.
XNN_INTERNAL void xnn_force_f32_tile(uint32_t mr, uint32_t nr);
// Returns false if this processor has fewer tiles.
XNN_INTERNAL bool xnn_get_f32_tile(size_t index, uint32_t* mr, uint32_t* nr);
"""


def _use(file: str, outputs: str, row_bytes: str) -> Patch:
    """Let an operator choose its tile."""
    old = "gemm_config = xnn_init_f32_gemm_config();"
    new = f"gemm_config = xnn_choose_f32_gemm_config({outputs}, {row_bytes});"
    return Patch(f"src/operators/{file}.c", old, new)


def _few(file: str, outputs: str, following: str) -> Patch:
    """Select the tile of 2 columns only for layers that would use less than half of the other tile's columns."""
    old = f"  if (gemm_config->nr > {outputs})"
    return Patch(f"src/operators/{file}.c", old + following, f"  if (gemm_config->nr > 2 * {outputs})" + following)


# The template of the indirect GEMMs for AVX512.
_IGEMM = "src/f32-igemm/avx512-broadcast.c.in"
_TAP_START = """      size_t k = kc;
      do {
        const __m512 vb0"""
_TAP_END = """        k -= sizeof(float);
      } while (k != 0);
"""
# A tap of the window that is padding for all rows of the tile adds nothing to finite weights. In a convolution with a
# large dilation most taps are: DeepLabV3 has one of 3x3 with a dilation of 12 on 14x14 pixels.
_SKIPPED_PADDING = [
    Patch(
        _IGEMM,
        _TAP_START,
        """      if XNN_LIKELY(${" || ".join("a%d != zero" % M for M in range(MR))}) {
"""
        + _TAP_START,
    ),
    Patch(
        _IGEMM,
        _TAP_END,
        _TAP_END
        + """      } else {
        w += kc / sizeof(float) * ${NR};
      }
""",
    ),
]

KERNELS = [kernel for width in _WIDTHS for kernel in width.kernels()]
# XNNPACK's own kernels, from the patched template.
KERNELS += [
    Kernel(_IGEMM, f"MR={rows} NR={width.columns}", width.file("igemm", rows))
    for width in (_X32, _X16)
    for rows in width.rows
    if rows not in width.generated
]

_EXISTING = _Width(32, "avx512f", (1, 7), _X32.packing).configuration("f32_gemm_config", "avx512f")
_FMA3 = f"{_INDENT['fma3']}f32_gemm_config.mr = 5;\n{_INDENT['fma3']}f32_gemm_config.nr = 16;\n          break;\n"
_END = "    f32_gemm_config.mr = 4;\n    f32_gemm_config.nr = 4;\n  #endif\n"
_CONFIGURATION = "static struct xnn_gemm_config f32_gemm_config = {0};\n"
_NEXT = "static void init_f32_gemm_config(void) {\n"

PATCHES = [
    *_SKIPPED_PADDING,
    *(patch for width in _WIDTHS for patch in width.patches()),
    Patch(
        _CONFIGURATIONS,
        _EXISTING,
        _X32.configuration("f32_gemm_config", "avx512f")
        + _X16.configuration("f32_gemm_x16_config", "avx512f")
        + _X8.configuration("f32_gemm_x8_config", "avx512f"),
    ),
    Patch(_CONFIGURATIONS, _FMA3, _X8.configuration("f32_gemm_x8_config", "fma3") + _FMA3),
    Patch(_CONFIGURATIONS, _END, _END + "  init_f32_tiles();\n"),
    Patch(
        _CONFIGURATIONS,
        _CONFIGURATION,
        _CONFIGURATION
        + "".join(_CONFIGURATION.replace("f32_gemm_config", f"f32_gemm_x{nr}_config") for nr in (16, 12, 8)),
    ),
    Patch(_CONFIGURATIONS, _NEXT, _TILES + _NEXT),
    Patch("src/xnnpack/config.h", _DECLARATIONS.splitlines(keepends=True)[0], _DECLARATIONS),
    _use("convolution-nhwc", "group_output_channels", "subsampling_width * input_channel_stride * sizeof(float)"),
    _use("fully-connected-nc", "output_channels", "input_stride * sizeof(float)"),
    _use("deconvolution-nhwc", "group_output_channels", "input_pixel_stride * sizeof(float)"),
    # XNNPACK took tiles of 4 rows and 2 columns (SSE) for each layer with fewer outputs than its tile has columns. 24
    # outputs of 49 rows took 2.3 times as long as with 16 columns.
    _few("fully-connected-nc", "output_channels", " {\n    // Default microkernel"),
    _few(
        "deconvolution-nhwc",
        "group_output_channels",
        " {\n    // Default micro-kernel is suboptimal. Try to find a better micro-kernel.\n"
        "    if (gemm_nr2_config->minmax.igemm[gemm_nr2_config->mr - 1]",
    ),
]
