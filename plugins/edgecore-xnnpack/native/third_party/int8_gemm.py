"""int8 matrix products of XNNPACK on AVX512: our kernels, and the choice between VNNI and AMX for each layer."""

from __future__ import annotations

from dataclasses import dataclass

from patch import Kernel, Patch

_CONFIGURATIONS = "src/configs/gemm-config.c"
_KINDS = ("gemm", "igemm")


@dataclass(frozen=True)
class _Family:
    """The kernels of one template, and those of XNNPACK in whose place they are selected.

    A tile of XNNPACK's kernels has 16 columns and 8 inputs. Ours has 32 columns and `2 ** log2_kr` inputs.
    """

    isa: str  # the suffix of the kernels' names, and the list of files to which they belong
    log2_kr: int
    rows: tuple[int, ...]  # of our tiles
    replaced: tuple[int, int]  # rows of XNNPACK's largest tile: static, dynamic quantization
    packing: tuple[tuple[str, str], tuple[str, str]]  # lines of the configuration and what replaces them, both likewise
    is_extended: bool  # static kernels have the extensions of int8_convolution.py

    @property
    def tile(self) -> str:
        return f"32c{2**self.log2_kr}"

    def kernel(self, kind: str, rows: int, dynamic: bool) -> Kernel:
        folder, suffix = (f"qd8-f32-qc8w-{kind}", "minmax") if dynamic else (f"qs8-qc8w-{kind}", "minmax-fp32")
        # XNNPACK's indirect kernels with VNNI lack a part of the usual name.
        unnamed = kind == "igemm" and self.isa == "avx512vnni"
        like = f"1x16c8-{'minmax' if unnamed else suffix}-{self.isa}-prfm"
        return Kernel(
            f"src/edgecore/qs8-c{2**self.log2_kr}-{self.isa}.c.in",
            f"MR={rows} KIND={kind.upper()} DYNAMIC={int(dynamic)}",
            f"src/{folder}/gen/{folder}-{rows}x{self.tile}-{suffix}-{self.isa}.c",
            f"src/{folder}/gen/{folder}-{like}.c",
            f"cmake/gen/{self.isa}_microkernels.cmake",
        )

    def declare(self, kind: str, dynamic: bool) -> Patch:
        macro = f"DECLARE_{'QD8_F32' if dynamic else 'QS8'}_QC8W_{kind.upper()}_MINMAX_UKERNEL_FUNCTION"
        line = f"{macro}({_function(kind, dynamic)})\n"
        existing = line % (1, f"16c8__{self.isa}_prfm")
        added = "".join(line % (rows, f"{self.tile}__{self.isa}") for rows in self.rows)
        return Patch(f"src/xnnpack/{kind}.h", existing, existing + added)

    def select(self, dynamic: bool) -> Patch:
        """Replace XNNPACK's kernels in the configuration by ours."""
        config, dq = ("qd8_f32_qc8w_gemm_config", "dq") if dynamic else ("qs8_qc8w_gemm_config", "")
        old_packing, packing = (text.replace("CONFIG", config) for text in self.packing[dynamic])

        def table(rows: tuple[int, ...], shape: str, middle: str, tile: tuple[int, int, int]) -> str:
            kernels = [
                f"        {config}.minmax.{dq}{kind}[XNN_MR_TO_INDEX({mr})] = xnn_init_hmp_{dq}{kind}_ukernel("
                f"(xnn_{dq}{kind}_ukernel_fn) {_function(kind, dynamic) % (mr, shape)});\n"
                for kind in _KINDS
                for mr in rows
            ]
            sizes = [f"        {config}.{name} = {size};\n" for name, size in zip(("mr", "nr", "log2_kr"), tile)]
            return "".join((*kernels, middle, *sizes))

        replaced = self.replaced[dynamic]
        return Patch(
            _CONFIGURATIONS,
            table((1, replaced), f"16c8__{self.isa}_prfm", old_packing, (replaced, 16, 3)),
            table(self.rows, f"{self.tile}__{self.isa}", packing, (max(self.rows), 32, self.log2_kr))
            + (f"        {config}.is_extended = true;\n" if self.is_extended and not dynamic else ""),
        )


def _function(kind: str, dynamic: bool) -> str:
    """Return a format string of the kernel's name: `%d` is the number of rows, `%s` the rest, as `32c2__avx512skx`."""
    return (
        f"xnn_qd8_f32_qc8w_{kind}_minmax_ukernel_%dx%s" if dynamic else f"xnn_qs8_qc8w_{kind}_minmax_fp32_ukernel_%dx%s"
    )


def _lines(*lines: str) -> str:
    return "".join(f"        {line if line.startswith('#') else 'CONFIG.' + line}\n" for line in lines)


_START = {
    False: "init.qs8_qc8w = xnn_init_qs8_qc8w_conv_minmax_fp32_scalar_params;",
    True: "init.f32 = xnn_init_f32_minmax_scalar_params;",
}
_NO_PACKING = (
    "pack_weights_and_biases = NULL;  // Override the default packing function.",
    "packed_stride_weights_and_biases = NULL;  // Override the default packing function.",
)


def _convolution_packing(weights: str) -> tuple[str, ...]:
    return (
        f"pack_igemm_goki = (xnn_pack_conv_goki_w_fn) xnn_pack_{weights}_conv_goki_w;",
        f"pack_igemm_kgo = (xnn_pack_conv_kgo_w_fn) xnn_pack_{weights}_conv_kgo_w;",
        f"pack_deconv_goki = (xnn_pack_deconv_goki_w_fn) xnn_pack_{weights}_deconv_goki_w;",
    )


def _unchanged(dynamic: bool) -> tuple[str, str]:
    lines = _lines(_START[dynamic], *(() if dynamic else _convolution_packing("qs8")))
    return lines, lines


def _packing_of_vnni(dynamic: bool) -> tuple[str, str]:
    """Replace the function that packs a linear layer's weights for 16 columns by the one for any tile."""
    weights, prefetch = ("qs8", "_prfm") if dynamic else ("qs8_to_qu8", "")
    before = (
        _START[dynamic],
        *_NO_PACKING,
        f"pack_gemm_gio = (xnn_packw_gemm_gio_ukernel_fn) xnn_pack_{weights}_gemm_gio_w;",
    )
    goi = "pack_gemm_goi = (xnn_packw_gemm_goi_ukernel_fn) xnn_"
    for_16_columns = goi + f"{weights}_packw_gemm_goi_ukernel_x16c8__"
    old = (
        "#if XNN_ENABLE_AVX256VNNI",
        f"  CONFIG.{for_16_columns}avx256vnni{prefetch};",
        "#else",
        f"  CONFIG.{for_16_columns}scalar;",
        "#endif",
    )
    after = () if dynamic else _convolution_packing(weights)
    inner = "".join(f"        {line}\n" for line in old)
    any_tile = f"{goi}pack_{weights}_gemm_goi_w;"
    return _lines(*before) + inner + _lines(*after), _lines(*before, any_tile, *after)


_FAMILIES = (
    # Without VNNI, XNNPACK's kernels spend 5 of 12 instructions on moving bytes, and reach less than two thirds of the
    # speed of fp32.
    _Family("avx512skx", 1, (1, 7, 10, 12), (7, 8), (_unchanged(False), _unchanged(True)), False),
    # With VNNI, XNNPACK's kernels add 128 to each input on a port that multiplies, and add sums across lanes at the end
    # of a tile. Ours take 0.65 to 0.9 of their time (Sapphire Rapids, one thread). The numbers of pixels in the last
    # stages of most image networks are multiples of 7; more than 8 rows are no faster.
    _Family("avx512vnni", 2, (1, 4, 7, 8), (7, 10), (_packing_of_vnni(False), _packing_of_vnni(True)), True),
)

KERNELS = [
    family.kernel(kind, rows, dynamic)
    for family in _FAMILIES
    for kind in _KINDS
    for dynamic in (False, True)
    for rows in family.rows
]


def _choose_int8(file: str, preceding: str, width: str) -> Patch:
    """Choose between AMX and VNNI by the layer's width.

    The replaced text must occur once in the file, so `preceding` is the text before the line, which occurs repeatedly.
    """
    old = preceding + "  const struct xnn_gemm_config* gemm_config = %s;\n"
    path = f"src/operators/{file}.c"
    chosen = f"xnn_choose_qs8_qc8w_gemm_config({width})"
    return Patch(path, old % "xnn_init_qs8_qc8w_gemm_config()", old % chosen)


_PACKING = "  const struct xnn_qs8_packing_params packing_params = { .input_zero_point = input_zero_point%s};\n\n"
_CONVOLUTION_WIDTH = "(size_t) kernel_height * kernel_width, group_input_channels, group_output_channels"
_AMX_ENDS = """        qs8_qc8w_gemm_config.mr = 16;
        qs8_qc8w_gemm_config.nr = 64;
        qs8_qc8w_gemm_config.log2_kr = 2;
"""
_VNNI_BEGINS = """    #endif
    #if XNN_ENABLE_AVX512VNNI
      if (!XNN_PLATFORM_MOBILE && hardware_config->use_x86_avx512vnni) {
        qs8_qc8w_gemm_config.minmax"""

PATCHES = [
    *(family.declare(kind, dynamic) for family in _FAMILIES for kind in _KINDS for dynamic in (False, True)),
    *(family.select(dynamic) for family in _FAMILIES for dynamic in (False, True)),
    # An AMX kernel always computes blocks of 64 inputs and 64 outputs, also for narrower layers. XNNPACK used AMX for
    # every int8 layer if the processor has it. With this patch each layer uses AMX or VNNI, whichever is estimated to
    # be faster for the layer's width.
    Patch(
        _CONFIGURATIONS,
        _AMX_ENDS + "      } else\n" + _VNNI_BEGINS,
        _AMX_ENDS
        + """        qs8_qc8w_amx_gemm_config = qs8_qc8w_gemm_config;
        memset(&qs8_qc8w_gemm_config, 0, sizeof(qs8_qc8w_gemm_config));
      }
"""
        + _VNNI_BEGINS,
    ),
    Patch(
        _CONFIGURATIONS,
        '#include "xnnpack/init-once.h"\n',
        '#include "xnnpack/init-once.h"\n#include "xnnpack/math.h"\n',
    ),
    Patch(_CONFIGURATIONS, "#include <stddef.h>\n", "#include <stddef.h>\n#include <string.h>\n"),
    Patch(
        _CONFIGURATIONS,
        "static struct xnn_gemm_config qs8_qc8w_gemm_config = {0};\n",
        "static struct xnn_gemm_config qs8_qc8w_gemm_config = {0};\n"
        "static struct xnn_gemm_config qs8_qc8w_amx_gemm_config = {0};\n",
    ),
    Patch(
        _CONFIGURATIONS,
        "const struct xnn_gemm_config* xnn_init_qu8_gemm_config() {\n",
        # The estimated cost is the number of multiplications of the padded layer. AMX computes 3 to 3.5 multiplications
        # in the time that XNNPACK's kernels with VNNI need for one, and ours take two thirds of that time (measured on
        # Sapphire Rapids, not with AMX and our kernels on the same machine).
        """const struct xnn_gemm_config* xnn_choose_qs8_qc8w_gemm_config(
    size_t kernel_size, size_t input_channels, size_t output_channels) {
  const struct xnn_gemm_config* config = xnn_init_qs8_qc8w_gemm_config();
  if (config == NULL || qs8_qc8w_amx_gemm_config.mr == 0) {
    return config;
  }
  const size_t amx = kernel_size * round_up_po2(input_channels, 64) * round_up_po2(output_channels, 64);
  const size_t vnni = kernel_size * round_up_po2(input_channels, 4) * round_up_po2(output_channels, 16);
  return amx <= 2 * vnni ? &qs8_qc8w_amx_gemm_config : config;
}

const struct xnn_gemm_config* xnn_init_qu8_gemm_config() {
""",
    ),
    Patch(
        "src/xnnpack/config.h",
        "XNN_INTERNAL const struct xnn_gemm_config* xnn_init_qs8_qc8w_gemm_config();\n",
        """XNN_INTERNAL const struct xnn_gemm_config* xnn_init_qs8_qc8w_gemm_config();
XNN_INTERNAL const struct xnn_gemm_config* xnn_choose_qs8_qc8w_gemm_config(
    size_t kernel_size, size_t input_channels, size_t output_channels);
""",
    ),
    _choose_int8("convolution-nhwc", "] = requantization_scale;\n  }\n\n" + _PACKING % ", ", _CONVOLUTION_WIDTH),
    _choose_int8("convolution-nhwc", "_parameter;\n    }\n  }\n\n" + _PACKING % ", ", _CONVOLUTION_WIDTH),
    _choose_int8("fully-connected-nc", "_parameter;\n  }\n\n", "1, input_channels, output_channels"),
    _choose_int8("fully-connected-nc", "  }\n\n" + _PACKING % " ", "1, input_channels, output_channels"),
]
