"""Kernels of XNNPACK that it does not select on 64-bit Arm, and that take fewer instructions."""

from __future__ import annotations

from patch import Kernel, Patch

_LISTING = "cmake/gen/neonfma_aarch64_microkernels.cmake"
_GEMM_CONFIGURATIONS = "src/configs/gemm-config.c"
_KINDS = ("gemm", "igemm")
_ROWS = (1, 4, 6, 7)
_COLUMNS = 12


def _tile(kind: str, rows: int, columns: int) -> str:
    return f"src/f32-{kind}/gen/f32-{kind}-{rows}x{columns}-minmax-aarch64-neonfma-lane-ld128.c"


def _function(kind: str, rows: int, columns: int) -> str:
    return f"xnn_f32_{kind}_minmax_ukernel_{rows}x{columns}__aarch64_neonfma_lane_ld128"


def _declare(kind: str, rows: int, columns: int) -> str:
    return f"DECLARE_F32_{kind.upper()}_MINMAX_UKERNEL_FUNCTION({_function(kind, rows, columns)})\n"


# fp32 tiles of 12 columns. 7 rows take 102 instructions for 84 products of vectors, XNNPACK's 6 rows and 8 columns 61 for
# 48, and 7 divides the pixels of the usual image networks (49, 196, 784, 3136, 12544).
_TILES = [
    Kernel(
        f"src/f32-{kind}/neon-ld128.c.in",
        f"MR={rows} NR={_COLUMNS} FMA=1 DUP=0" + (" INC=0 DATATYPE=F32" if kind == "gemm" else ""),
        _tile(kind, rows, _COLUMNS),
        _tile(kind, 6, 8),
        _LISTING,
    )
    for kind in _KINDS
    for rows in _ROWS
]
_TILE_CONFIGURATION = "".join(
    f"  f32_gemm_x12_config.minmax.{kind}[XNN_MR_TO_INDEX({rows})] = "
    f"xnn_init_hmp_{kind}_ukernel((xnn_{kind}_ukernel_fn) {_function(kind, rows, _COLUMNS)});\n"
    for kind in _KINDS
    for rows in _ROWS
)
_START = "static void init_f32_tiles(void) {\n"
_CALL = """  #if XNN_ARCH_ARM64
    init_f32_gemm_x12_config();
    add_f32_tiles(&f32_gemm_x12_config, 14);
  #endif
"""
_INIT = f"""#if XNN_ARCH_ARM64
// The kernels are compiled C, for processors that execute instructions out of order: others need assembly.
static void init_f32_gemm_x12_config(void) {{
  switch (cpuinfo_get_core(0)->uarch) {{
    case cpuinfo_uarch_cortex_a35:
    case cpuinfo_uarch_cortex_a53:
    case cpuinfo_uarch_cortex_a55r0:
    case cpuinfo_uarch_cortex_a55:
    case cpuinfo_uarch_cortex_a510:
      return;
    default:
      break;
  }}
{_TILE_CONFIGURATION}  f32_gemm_x12_config.init.f32 = xnn_init_f32_minmax_scalar_params;
  f32_gemm_x12_config.pack_gemm_gio = (xnn_packw_gemm_gio_ukernel_fn) xnn_pack_f32_gemm_gio_w;
  f32_gemm_x12_config.pack_gemm_goi = (xnn_packw_gemm_goi_ukernel_fn) xnn_x32_packw_gemm_goi_ukernel_x12__neon_ld4lane_u4_prfm;
  f32_gemm_x12_config.mr = {max(_ROWS)};
  f32_gemm_x12_config.nr = {_COLUMNS};
}}
#endif

"""
_PACKING = "  src/x32-packw/gen/x32-packw-x%s-gemm-goi-neon-ld4lane-u4-prfm.c\n"

_SIGMOID = "xnn_f32_vsigmoid_ukernel__%s"
_SIGMOID_FILE = "  src/f32-vsigmoid/gen/f32-vsigmoid-aarch64-neonfma-rr1-p5-div-u16.c\n"
_START_OF_LIST = "SET(PROD_NEONFMA_AARCH64_MICROKERNEL_SRCS\n"

# int8 depthwise convolutions with dot products: 13.0 instead of 15.2 million instructions on MobileNetV2, 5x5 windows of
# MobileNetV3 4.6 instead of 6.4 million.
_DWCONV = "src/qs8-qc8w-dwconv/gen/qs8-qc8w-dwconv-%dp16c-minmax-fp32-neondot.c"
_DWCONV_FUNCTION = "xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_%dp16c__%s"
_DWCONV_TAPS = (9, 25)
_DOT_KERNEL = "src/qp8-f32-qb4w-gemm/qp8-f32-qb4w-gemm-minmax-1x4c16s2-aarch64-neondot.c"
_DOT_LISTING = "cmake/gen/neondot_aarch64_microkernels.cmake"
_DWCONVS = [
    Kernel(
        "src/edgecore/qs8-dwconv-neondot.c.in",
        f"TAPS={taps} PIXELS=2",
        _DWCONV % taps,
        _DOT_KERNEL,
        _DOT_LISTING,
    )
    for taps in _DWCONV_TAPS
]


def _declare_dwconv(isa: str, kernel: str, taps: int) -> str:
    return (
        f"XNN_DWCONV_UNIPASS(xnn_arch_arm_{isa}, {_DWCONV_FUNCTION % (taps, kernel)}, 16, false, 16, {taps}, int8_t, void, "
        "union xnn_qs8_qc8w_conv_minmax_params, xnn_init_qs8_qc8w_conv_minmax_fp32_neonv8_params)\n"
    )


def _select_dwconv(index: int, taps: int) -> Patch:
    line = (
        f"    qs8_qc8w_dwconv_config[{index}].minmax.unipass = (xnn_dwconv_unipass_ukernel_fn) "
        f"{_DWCONV_FUNCTION % (taps, '%s')};\n"
    )
    xnnpack = line % "neonv8_mla8_ld64"
    ours = f"""    #if XNN_ENABLE_ARM_DOTPROD
      if (xnn_init_hardware_config()->use_arm_neon_dot) {{
    {line % "neondot"}      }}
    #endif
"""
    # 32-bit Arm has the same line, indented by more.
    return Patch("src/configs/dwconv-config.c", f"\n{xnnpack}", f"\n{xnnpack}{ours}")


# int8 tiles of 5 and 6 rows: 6 rows take 113 instructions for 96 dot products, XNNPACK's 4 rows in assembly 79 for 64,
# and rounding to int8 takes fewer, too. 5 rows waste less of 49 pixels.
_INT8_ROWS = (5, 6)
_INT8_INIT = {
    False: (
        "init.qs8_qc8w = xnn_init_qs8_qc8w_conv_minmax_fp32_neonv8_params;",
        "pack_igemm_goki = (xnn_pack_conv_goki_w_fn) xnn_pack_qs8_conv_goki_w;",
        "pack_igemm_kgo = (xnn_pack_conv_kgo_w_fn) xnn_pack_qs8_conv_kgo_w;",
        "pack_deconv_goki = (xnn_pack_deconv_goki_w_fn) xnn_pack_qs8_deconv_goki_w;",
    ),
    True: ("init.f32 = xnn_init_f32_minmax_scalar_params;",),
}


def _int8_function(kind: str, tile: str, dynamic: bool) -> str:
    prefix = f"xnn_qd8_f32_qc8w_{kind}_minmax" if dynamic else f"xnn_qs8_qc8w_{kind}_minmax_fp32"
    return f"{prefix}_ukernel_{tile}"


def _int8_kernel(kind: str, rows: int, dynamic: bool) -> Kernel:
    folder, suffix = (f"qd8-f32-qc8w-{kind}", "minmax") if dynamic else (f"qs8-qc8w-{kind}", "minmax-fp32")
    return Kernel(
        "src/edgecore/qs8-c4-neondot.c.in",
        f"MR={rows} KIND={kind.upper()} DYNAMIC={int(dynamic)}",
        f"src/{folder}/gen/{folder}-{rows}x16c4-{suffix}-aarch64-neondot.c",
        _DOT_KERNEL,
        _DOT_LISTING,
    )


def _declare_int8(kind: str, dynamic: bool) -> Patch:
    macro = f"DECLARE_{'QD8_F32' if dynamic else 'QS8'}_QC8W_{kind.upper()}_MINMAX_UKERNEL_FUNCTION"
    line = f"{macro}({_int8_function(kind, '%s', dynamic)})\n"
    existing = line % "4x16c4__asm_aarch64_neondot_ld128"
    added = "".join(line % f"{rows}x16c4__aarch64_neondot" for rows in _INT8_ROWS)
    return Patch(f"src/xnnpack/{kind}.h", existing, existing + added)


def _select_int8(dynamic: bool) -> Patch:
    """Select the tiles beside XNNPACK's of 4 rows, which remains for the Cortex-A55."""
    config, dq = ("qd8_f32_qc8w_gemm_config", "dq") if dynamic else ("qs8_qc8w_gemm_config", "")

    def kernels(rows: int, suffix: str) -> str:
        return "".join(
            f"            {config}.minmax.{dq}{kind}[XNN_MR_TO_INDEX({rows})] = xnn_init_hmp_{dq}{kind}_ukernel("
            f"(xnn_{dq}{kind}_ukernel_fn) {_int8_function(kind, f'{rows}x16c4__{suffix}', dynamic)});\n"
            for kind in _KINDS
        )

    # The end of a choice between kernels in assembly precedes these lines once.
    before = "                break;\n            }\n" + kernels(1, "neondot")
    init = "".join(f"            {config}.{line}\n" for line in _INT8_INIT[dynamic])
    ours = "".join(kernels(rows, "aarch64_neondot") for rows in _INT8_ROWS)
    mr = f"            {config}.mr = %s;\n"
    return Patch(
        _GEMM_CONFIGURATIONS,
        before + init + mr % 4,
        before + ours + init + mr % f"cpuinfo_get_core(0)->uarch == cpuinfo_uarch_cortex_a55 ? 4 : {max(_INT8_ROWS)}",
    )


KERNELS = [
    *_TILES,
    *_DWCONVS,
    *(_int8_kernel(kind, rows, dynamic) for dynamic in (False, True) for kind in _KINDS for rows in _INT8_ROWS),
]
PATCHES = [
    *(
        Patch(
            f"src/xnnpack/{kind}.h",
            _declare(kind, 6, 8),
            _declare(kind, 6, 8) + "".join(_declare(kind, rows, _COLUMNS) for rows in _ROWS),
        )
        for kind in _KINDS
    ),
    Patch(_GEMM_CONFIGURATIONS, _START, _INIT + _START + _CALL),
    Patch("cmake/gen/neon_microkernels.cmake", _PACKING % 12, ""),
    Patch("cmake/gen/neon_microkernels.cmake", _PACKING % 8, _PACKING % 8 + _PACKING % 12),
    # A polynomial instead of a table, which has a load for each element.
    Patch(
        "src/configs/unary-elementwise-config.c",
        _SIGMOID % "neonfma_rr1_lut64_p2_nr2recps_u16",
        _SIGMOID % "aarch64_neonfma_rr1_p5_div_u16",
    ),
    Patch(_LISTING, _SIGMOID_FILE, ""),
    Patch(_LISTING, _START_OF_LIST, _START_OF_LIST + _SIGMOID_FILE),
    Patch(
        "src/qs8-qc8w-dwconv/qs8-qc8w-dwconv-minmax-unipass-fp32.h",
        _declare_dwconv("neon_v8", "neonv8_mla8_ld64", 9),
        _declare_dwconv("neon_v8", "neonv8_mla8_ld64", 9)
        + "".join(_declare_dwconv("neon_dot", "neondot", taps) for taps in _DWCONV_TAPS),
    ),
    *(_declare_int8(kind, dynamic) for dynamic in (False, True) for kind in _KINDS),
    *(_select_int8(dynamic) for dynamic in (False, True)),
    _select_dwconv(1, 9),
    _select_dwconv(2, 25),
]
