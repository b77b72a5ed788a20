"""Transposes of images with three channels, from channels first to channels last."""

from __future__ import annotations

from patch import Kernel, Patch

_AVX = "xnn_x32_transposec_ukernel__8x8_reuse_multi_avx"
_AVX512 = "xnn_x32_transposec_ukernel__3x16_avx512f"

KERNELS = [
    Kernel(
        "src/edgecore/x32-transposec-avx512f.c.in",
        "",
        "src/x32-transposec/gen/x32-transposec-3x16-avx512f.c",
        "src/f32-dwconv/gen/f32-dwconv-25p16c-minmax-avx512f.c",
        "cmake/gen/avx512f_microkernels.cmake",
    )
]


def _declare(isa: str, name: str, height: int, width: int) -> str:
    return f"XNN_TRANSPOSE_UKERNEL(xnn_arch_x86_{isa}, {name}, 32, uint32_t, {height}, {width})\n"


_DECLARED = _declare("avx", _AVX, 8, 8)
_SELECT = "    if (hardware_config->use_x86_avx2) {\n      transpose_config.x8 = "
_TILE = "      context->const_size_ukernel = transpose_config->x32.const_size_ukernel;\n      break;\n"
_FIELD = "  xnn_vunary_ukernel_fn copy;\n"

PATCHES = [
    Patch("src/x32-transposec/x32-transposec.h", _DECLARED, _DECLARED + _declare("avx512f", _AVX512, 3, 16)),
    Patch("src/xnnpack/config-types.h", _FIELD, _FIELD + "  struct xnn_transpose_subconfig x32_triples;\n"),
    # A quarter of the time of XNNPACK's kernel (Zen 4), which gets tiles of 32 pixels: too little work for a call.
    Patch(
        "src/configs/transpose-config.c",
        _SELECT,
        f"""    #if XNN_ENABLE_AVX512F
      if (!XNN_PLATFORM_MOBILE && hardware_config->use_x86_avx512f) {{
        transpose_config.x32_triples = (struct xnn_transpose_subconfig) {{
          .const_size_ukernel = (xnn_transposec_ukernel_fn) {_AVX512},
          .tile_size = 4096,
        }};
      }}
    #endif
"""
        + _SELECT,
    ),
    Patch(
        "src/operators/transpose-nd.c",
        _TILE,
        _TILE.replace(
            "      break;\n",
            """      if (transpose_config->x32_triples.const_size_ukernel != NULL
          && transpose_op->compute[0].range[normalized_dims - 1] == 3
          && context->output_stride[normalized_dims - 2] == 3 * sizeof(uint32_t)) {
        context->const_size_ukernel = transpose_config->x32_triples.const_size_ukernel;
        transpose_op->compute[0].tile[0] = transpose_config->x32_triples.tile_size;
      }
      break;
""",
        ),
    ),
]
