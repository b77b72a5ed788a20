"""Our changes to XNNPACK, each with its reason.

This module has the changes for speed, and collects all changes in ``KERNELS`` and ``XNNPACK_PATCHES``. Corrections are
in ``corrections``; ``forced_hardware`` lets XNNPACK select kernels as on another processor.
"""

from __future__ import annotations

import arm
import corrections
import forced_hardware
import fp32_gemm
import int8_convolution
import int8_elementwise
import int8_gemm
import transposes
from patch import Kernel, Patch

_INT8_TAPS = (9, 25, 49)
_VNNI_TAPS = (9, 25)


_DWCONV = "src/f32-dwconv/gen/f32-dwconv-%s-minmax-%s.c"

KERNELS = [
    *arm.KERNELS,
    *corrections.KERNELS,
    *fp32_gemm.KERNELS,
    *int8_gemm.KERNELS,
    *int8_elementwise.KERNELS,
    *transposes.KERNELS,
    # int8 depthwise convolution. XNNPACK's kernels widen int8 to 32 bits and compute one pixel at a time, which takes
    # three times as long as these kernels. For 7x7 XNNPACK has no int8 kernel at all.
    *(
        Kernel(
            "src/edgecore/qs8-dwconv-avx512skx.c.in",
            f"TAPS={taps} PIXELS=4",
            f"src/qs8-qc8w-dwconv/gen/qs8-qc8w-dwconv-{taps}p32c-minmax-fp32-avx512skx-pairs.c",
            "src/qs8-qc8w-dwconv/gen/qs8-qc8w-dwconv-9p32c-minmax-fp32-avx512skx-mul32.c",
            "cmake/gen/avx512skx_microkernels.cmake",
        )
        for taps in _INT8_TAPS
    ),
    # With VNNI, and with columns of the window that neighbouring pixels share: 0.65 to 0.95 of the time (Zen 4).
    *(
        Kernel(
            "src/edgecore/qs8-dwconv-avx512vnni.c.in",
            f"TAPS={taps} PIXELS=4",
            f"src/qs8-qc8w-dwconv/gen/qs8-qc8w-dwconv-{taps}p32c-minmax-fp32-avx512vnni.c",
            "src/qs8-qc8w-gemm/gen/qs8-qc8w-gemm-1x16c8-minmax-fp32-avx512vnni-prfm.c",
            "cmake/gen/avx512vnni_microkernels.cmake",
        )
        for taps in _VNNI_TAPS
    ),
    # fp32 depthwise convolution 7x7. Without these kernels, XNNPACK computes each channel as a GEMM with one output
    # column, although the GEMM kernel always computes 32 columns (with AVX512), of which 31 are then discarded.
    Kernel(
        "src/f32-dwconv/unipass-avx512.c.in",
        "CHANNEL_TILE=16 KERNEL_TILE=49 ACCUMULATORS=2",
        _DWCONV % ("49p16c", "avx512f-acc2"),
        _DWCONV % ("25p16c", "avx512f"),
        "cmake/gen/avx512f_microkernels.cmake",
    ),
    Kernel(
        "src/f32-dwconv/unipass-avx.c.in",
        "CHANNEL_TILE=8 KERNEL_TILE=49 FMA=3 ACCUMULATORS=2",
        _DWCONV % ("49p8c", "fma3-acc2"),
        _DWCONV % ("25p8c", "fma3"),
        "cmake/gen/fma3_microkernels.cmake",
    ),
]


def _prefetch(kind: str, aligned: str) -> Patch:
    load = f"const __m512 vb${{N//16}} = _mm512_{aligned}_ps(w + ${{N}});\n        w += ${{NR}};\n"
    ahead = """        $for N in range(0, NR, 16):
          _mm_prefetch((const char*) (w + 1024 + ${N}), _MM_HINT_T0);
"""
    return Patch(f"src/f32-{kind}/avx512-broadcast.c.in", load, load + ahead)


def _add_dwconv(tile: int, isa: str) -> list[Patch]:
    existing = f"xnn_f32_dwconv_minmax_ukernel_25p{tile}c__{isa}"
    added = f"xnn_f32_dwconv_minmax_ukernel_49p{tile}c__{isa}_acc2"
    declaration = (
        f"XNN_DWCONV_UNIPASS(xnn_arch_x86_{isa}, %s, {tile}, false, {tile}, %d, float, float, "
        "union xnn_f32_minmax_params, xnn_init_f32_minmax_scalar_params)\n"
    )
    fields = {
        "minmax.unipass": f"(xnn_dwconv_unipass_ukernel_fn) {added}",
        "init.f32": "xnn_init_f32_minmax_scalar_params",
        "channel_tile": tile,
        "channel_subtile": tile,
        "channel_round": 1,
        "primary_tile": 49,
    }
    entries = "".join(f"f32_dwconv_config[4].{field} = {value};\n" for field, value in fields.items())
    entry = f"f32_dwconv_config[3].minmax.unipass = (xnn_dwconv_unipass_ukernel_fn) {existing};\n"
    existing_line = declaration % (existing, 25)
    return [
        Patch("src/f32-dwconv/f32-dwconv-minmax-unipass.h", existing_line, existing_line + declaration % (added, 49)),
        Patch("src/configs/dwconv-config.c", entry, entries + entry),
    ]


def _add_int8_dwconv() -> list[Patch]:
    function = "xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_%dp32c__avx512"
    name = function + "skx_%s"

    def declare(isa: str, kernel: str, taps: int) -> str:
        return (
            f"XNN_DWCONV_UNIPASS(xnn_arch_x86_{isa}, {kernel}, 32, false, 32, {taps}, int8_t, void, "
            "union xnn_qs8_qc8w_conv_minmax_params, xnn_init_qs8_qc8w_conv_minmax_fp32_scalar_params)\n"
        )

    existing = declare("avx512skx", name % (9, "mul32"), 9)
    added = [declare("avx512skx", name % (taps, "pairs"), taps) for taps in _INT8_TAPS]
    added += [declare("avx512vnni", function % taps + "vnni", taps) for taps in _VNNI_TAPS]
    file, config = "src/configs/dwconv-config.c", "        qs8_qc8w_dwconv_config[%d].%s = %s;\n"
    kernel = "(xnn_dwconv_unipass_ukernel_fn) " + name
    first = config % (1, "minmax.unipass", kernel % (9, "mul32"))

    def with_vnni(index: int, taps: int) -> str:
        chosen = config % (index, "minmax.unipass", "(xnn_dwconv_unipass_ukernel_fn) " + function % taps + "vnni")
        return (
            "        #if XNN_ENABLE_AVX512VNNI\n        if (hardware_config->use_x86_avx512vnni) {\n"
            f"  {chosen}        }}\n        #endif\n"
        )

    fields = {
        "minmax.unipass": kernel % (49, "pairs"),
        "init.qs8_qc8w": "xnn_init_qs8_qc8w_conv_minmax_fp32_scalar_params",
        "channel_tile": 32,
        "channel_subtile": 32,
        "channel_round": 1,
        "primary_tile": 49,
    }
    largest = "".join(config % (3, field, value) for field, value in fields.items())
    return [
        Patch(
            "src/qs8-qc8w-dwconv/qs8-qc8w-dwconv-minmax-unipass-fp32.h",
            existing,
            existing + "".join(added),
        ),
        Patch(file, first, largest + config % (1, "minmax.unipass", kernel % (9, "pairs")) + with_vnni(1, 9)),
        Patch(file, kernel % (25, "mul32") + ";\n", kernel % (25, "pairs") + ";\n" + with_vnni(2, 25)),
        Patch(
            "src/xnnpack/config.h", "#define XNN_MAX_QC8_DWCONV_UKERNELS 3\n", "#define XNN_MAX_QC8_DWCONV_UKERNELS 4\n"
        ),
    ]


def _choose_columns(
    file: str, columns: str, column_bytes: str, row_tiles: str, *, declares_threads: bool = False
) -> Patch:
    """Choose the columns of a GEMM's tile by one function, instead of by the number of threads only."""
    threads = "  const size_t num_threads = pthreadpool_get_threads_count(threadpool);\n" if declares_threads else ""
    split = (
        f"""      nc = min(nc, divide_round_up({columns},
                                   divide_round_up(nc, max_nc) * nr) *
                       nr);
"""
        if declares_threads
        else "      nc = min(nc, divide_round_up(nc, max_nc * nr) * nr);\n"
    )
    old = f"""  size_t nc = {columns};
{threads}  if (num_threads > 1) {{
    const size_t num_other_tiles = {row_tiles};
    const size_t target_tiles_per_thread = 5;
    const size_t max_nc = divide_round_up({columns} * num_other_tiles, num_threads * target_tiles_per_thread);
    if (max_nc < nc) {{
{split}    }}
  }}
"""
    new = f"  size_t nc = xnn_gemm_columns({columns}, nr, {column_bytes}, {row_tiles}, num_threads);\n"
    return Patch(f"src/operators/{file}.c", old, threads + new)


def _fit_rows(file: str, rows: str, cases: str, nr: str = "nr") -> Patch:
    """Select the kernel by the number of rows, with the function that convolutions use."""
    old = f"""  if ({rows} == 1 && {cases}[0].function[XNN_UARCH_DEFAULT] != NULL) {{
    mr = 1;
  }}
"""
    return Patch(f"src/operators/{file}.c", old, f"  mr = xnn_get_heuristic_mr_gemm({rows}, mr, {nr}, {cases});\n")


_INVOKE = """enum xnn_status xnn_invoke_runtime(
  xnn_runtime_t runtime)
{
  #ifdef XNN_SLINKY_AVAILABLE
  enum xnn_status status;
  // if (slinky_evaluate(runtime, &status)) return status;
  #endif

  if (runtime->profiling) {
    runtime->start_ts = xnn_read_timer();
  }
  for (size_t i = 0; i < runtime->num_ops; i++) {
"""
_INVOKE_NODES = """size_t xnn_get_num_nodes(xnn_subgraph_t subgraph) {
  return subgraph->num_nodes;
}

enum xnn_status xnn_invoke_runtime_nodes(xnn_runtime_t runtime, size_t begin, size_t end);

enum xnn_status xnn_invoke_runtime(
  xnn_runtime_t runtime)
{
  return xnn_invoke_runtime_nodes(runtime, 0, runtime->num_ops);
}

enum xnn_status xnn_invoke_runtime_nodes(xnn_runtime_t runtime, size_t begin, size_t end)
{
  if (runtime->profiling && begin == 0) {
    runtime->start_ts = xnn_read_timer();
  }
  for (size_t i = begin; i < end; i++) {
"""
# Old and new text of the function that subtracts two times of operators, on each operating system.
_ELAPSED = {
    """  const uint64_t kMicrosInNanos = 1000;
  return (*end - *start) / kMicrosInNanos;
""": """  return *end - *start;
""",
    """  const double kMillisInMicros = 1.0e3;
  return (uint64_t) ((*end - *start) * kMillisInMicros);
""": """  const double kNanosInMilli = 1.0e6;
  return (uint64_t) ((*end - *start) * kNanosInMilli);
""",
    """  const uint64_t kMicrosInSec = 1000 * 1000;
""": """  const uint64_t kNanosInSec = UINT64_C(1000000000);
""",
    """  return ((end->QuadPart - start->QuadPart) * kMicrosInSec) / frequency.QuadPart;
""": """  return ((end->QuadPart - start->QuadPart) * kNanosInSec) / frequency.QuadPart;
""",
    """  const uint64_t kNanosInMicro = UINT64_C(1000);
  const uint64_t kNanosInSec = UINT64_C(1000000000);
""": """  const uint64_t kNanosInSec = UINT64_C(1000000000);
""",
    """  return (secs + ns_secs) / kNanosInMicro;
""": """  return secs + ns_secs;
""",
}
XNNPACK_PATCHES = [
    *corrections.PATCHES,
    *forced_hardware.PATCHES,
    # XNNPACK's workspace planner never used the memory below the lowest of the tensors that are live at the same time.
    # So, in a chain of layers, each tensor was placed after the previous tensor, and no memory was reused. With this
    # patch, ResNet-50's workspace has 7 MB instead of 44 MB.
    Patch(
        "src/memory-planner.c",
        """  if (num_mem_blocks == 1) {
    return live_mem_blocks[0].end;
  }
""",
        "",
    ),
    Patch(
        "src/memory-planner.c",
        """  size_t smallest_gap_size = SIZE_MAX;
""",
        """  if (live_mem_blocks[0].start >= to_alloc_size) {
    return 0;
  }
  size_t smallest_gap_size = SIZE_MAX;
""",
    ),
    # Run a part of a runtime's nodes, so that the delegate can compute nodes of its own between two parts. Node i of the
    # runtime is the i-th node that was defined in the subgraph; a node that was fused into another does nothing.
    Patch("src/runtime.c", _INVOKE, _INVOKE_NODES),
    # Times of operators are nanoseconds. XNNPACK rounds each down to microseconds, so that a short operator took 0.
    *(Patch("src/runtime.c", old, new) for old, new in _ELAPSED.items()),
    # Each tile of rows reads the weights once, the first tile from main memory. Prefetching 4 KB ahead hides the
    # latency.
    _prefetch("gemm", "loadu"),
    _prefetch("igemm", "load"),
    # Add the kernels above to the lists of files, and select them in the configurations of the processors.
    *(
        Patch(kernel.listing, f"  {kernel.like}\n", f"  {kernel.path}\n  {kernel.like}\n")
        for kernel in KERNELS
        if kernel.listing
    ),
    *fp32_gemm.PATCHES,
    *arm.PATCHES,
    *int8_gemm.PATCHES,
    *int8_convolution.PATCHES,
    *int8_elementwise.PATCHES,
    *transposes.PATCHES,
    *_add_int8_dwconv(),
    *_add_dwconv(16, "avx512f"),
    *_add_dwconv(8, "fma3"),
    Patch("src/xnnpack/config.h", "#define XNN_MAX_F32_DWCONV_UKERNELS 4\n", "#define XNN_MAX_F32_DWCONV_UKERNELS 5\n"),
    # Fully connected layers and matmuls select the kernel by their number of rows, as convolutions do in XNNPACK.
    _fit_rows("fully-connected-nc", "batch_size", "fully_connected_op->ukernel.gemm.gemm_cases"),
    _fit_rows("dynamic-fully-connected-nc", "batch_size", "ukernel->gemm_cases"),
    _fit_rows(
        "batch-matrix-multiply-nc",
        "m",
        "batch_matrix_multiply_op->ukernel.gemm.gemm_cases",
        "batch_matrix_multiply_op->ukernel.gemm.nr",
    ),
    Patch(
        "src/operators/dynamic-fully-connected-nc.c",
        """#include "xnnpack/operator.h"
""",
        """#include "xnnpack/operator-utils.h"
#include "xnnpack/operator.h"
""",
    ),
    # XNNPACK multiplies a tile of rows by all columns, then the next tile of rows. Weights that exceed the cache are
    # then read from main memory again for each tile. Here the columns are split into blocks whose weights fit half of
    # the L2 cache, and all rows are multiplied by a block before the next block is read (threadpool.cpp implements this
    # order of tiles). With several threads, there are at least five tiles for each. The blocks are equal if a size above
    # half of the largest allows that: with a small block at the end, threads get unequal shares. With blocks of 192 and
    # 64 columns, two threads took 0.61 of the time of one (int8 ResNet-18, 14x14, 256 channels, Zen 4).
    Patch(
        "src/xnnpack/operator-utils.h",
        """XNN_INTERNAL uint32_t xnn_get_heuristic_mr_gemm(
""",
        """XNN_INTERNAL size_t xnn_gemm_columns(
  size_t columns,
  size_t nr,
  size_t column_bytes,
  size_t row_tiles,
  size_t num_threads);

XNN_INTERNAL uint32_t xnn_get_heuristic_mr_gemm(
""",
    ),
    Patch(
        "src/operator-utils.c",
        """void* xnn_get_pointer_to_write_weights(
""",
        """size_t xnn_gemm_columns(size_t columns, size_t nr, size_t column_bytes, size_t row_tiles, size_t num_threads)
{
  const struct cpuinfo_cache* cache = cpuinfo_get_l2_cache(0);
  const size_t budget = cache == NULL ? 131072 : cache->size / 2;
  const size_t tiles = divide_round_up(columns, nr);
  size_t most = min(tiles, max(budget / (column_bytes * nr), 1));
  if (num_threads > 1) {
    const size_t tiles_per_thread = 5;
    most = min(most, max(tiles * row_tiles / (num_threads * tiles_per_thread), 1));
  }
  for (size_t block = most; 2 * block > most; block--) {
    if (tiles % block == 0) {
      return min(columns, block * nr);
    }
  }
  return min(columns, divide_round_up(tiles, divide_round_up(tiles, most)) * nr);
}

void* xnn_get_pointer_to_write_weights(
""",
    ),
    Patch(
        "src/operator-utils.c",
        """#include "xnnpack.h"  // For xnn_operator_t.
""",
        """#include <cpuinfo.h>
#include "xnnpack.h"  // For xnn_operator_t.
""",
    ),
    _choose_columns(
        "convolution-nhwc", "group_output_channels", "w_stride", "groups * divide_round_up(batch_output_size, mr)"
    ),
    _choose_columns(
        "convolution-nhwc",
        "group_output_channels",
        "w_stride",
        "groups * batch_size * divide_round_up(output_size, mr)",
    ),
    _choose_columns(
        "deconvolution-nhwc",
        "group_output_channels",
        "w_stride",
        "groups * batch_size * divide_round_up(output_size, mr)",
    ),
    _choose_columns(
        "fully-connected-nc",
        "output_channels",
        "fully_connected_op->weights_stride",
        "divide_round_up(batch_size, mr)",
        declares_threads=True,
    ),
    _choose_columns(
        "dynamic-fully-connected-nc",
        "output_channels",
        "dynamic_fully_connected_op->context.gemm.gemm.gemm.w_stride",
        "divide_round_up(batch_size, mr)",
        declares_threads=True,
    ),
    _choose_columns("batch-matrix-multiply-nc", "n", "w_stride", "divide_round_up(m, mr)"),
]
