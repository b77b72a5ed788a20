"""Corrections of XNNPACK's kernels and operators that compute wrong results or access memory out of bounds."""

from __future__ import annotations

from collections.abc import Iterator

from patch import Kernel, Patch

_LOG = "src/f32-vlog/rational-3-3.c.in"
_LOG_TILES = {
    "scalar": "1,2,4,8",
    "sse2": "4,8,12,16",
    "avx2": "8,16,24,32",
    "fma3": "8,16,24,32",
    "avx512f": "16,32,48,64",
    "neon": "4,8,12,16",
}

_RECIPROCAL_ROOT = "src/f16-vrsqrt/neonfp16arith-rsqrt.c.in"
_THREE_TAPS = "src/qs8-qc8w-dwconv/gen/qs8-qc8w-dwconv-3p16c-minmax-fp32-avx-%s.c"
_THREE_TAPS_DECLARATION = (
    "XNN_DWCONV_UNIPASS(xnn_arch_x86_avx, xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_3p16c__avx_%s, 16, false, 16, 3, int8_t, "
    "void, union xnn_qs8_qc8w_conv_minmax_params, xnn_init_qs8_qc8w_conv_minmax_fp32_scalar_params)\n"
)

_PAIRS = "src/qs8-%s/c2-neon-mull-shuffle.c.in"

_IS_COPY = """static bool is_copy_operator(enum xnn_operator_type operator_type) {
  switch (operator_type) {
    case xnn_operator_type_copy_nc_x8:
    case xnn_operator_type_copy_nc_x16:
    case xnn_operator_type_copy_nc_x32:
      return true;
    default:
      return false;
  }
}

"""


def _pair_kernels() -> Iterator[Kernel]:
    """Yield NEON's int8 kernels that add two products (see `_separate_pairs`)."""
    for kind in ("gemm", "igemm"):
        for rows in (1, 2):
            for folder, fixed, datatype, isas in (
                ("qd8-f32-qc8w", "minmax", "DATATYPE=QD8_F32 REQUANTIZATION=", ("neon",)),
                ("qs8-qc8w", "minmax-fp32", "DATATYPE=QC8 REQUANTIZATION=FP32", ("neon", "neonv8")),
            ):
                for isa in isas:
                    options = f"MR={rows} NR=8 MLA=1 ARMV8={int(isa == 'neonv8')} {datatype}"
                    name = f"{folder}-{kind}-{rows}x8c2s4-{fixed}-{isa}-mlal.c"
                    yield Kernel(_PAIRS % kind, options, f"src/{folder}-{kind}/gen/{name}")


KERNELS = [
    *(
        Kernel(_LOG, f"ARCH={arch} BATCH_TILES={tiles} DIV=DIV", f"src/f32-vlog/gen/f32-vlog-{arch}-rational-3-3-div.c")
        for arch, tiles in _LOG_TILES.items()
    ),
    Kernel(
        "src/qs8-dwconv/unipass-sse-mul16.c.in",
        "CHANNEL_TILE=16 KERNEL_TILE=3 SSE=4 AVX=1 ADD16=0 DATATYPE=QC8 REQUANTIZATION=FP32",
        _THREE_TAPS % "mul16",
        _THREE_TAPS % "mul16-add16",
        "cmake/gen/avx_microkernels.cmake",
    ),
    *_pair_kernels(),
    Kernel(_RECIPROCAL_ROOT, "BATCH_TILE=16 FULL_ACC=1", "src/f16-vrsqrt/gen/f16-vrsqrt-neonfp16arith-rsqrt-u16.c"),
]

_POOLED_ROWS = """  const size_t indirect_top_height = divide_round_up(average_pooling_op->padding_top, average_pooling_op->stride_height);
  const size_t indirect_bot_height = divide_round_up(average_pooling_op->padding_bottom, average_pooling_op->stride_height);
"""


def _log_patches() -> list[Patch]:
    """Correct the logarithm of infinity and of NaN: the kernels returned 88.4 and 88.8, so NaN and infinity were lost.

    The patch adds x - min(x, FLT_MAX) to the kernel's result. This term is 0 for every finite x, infinity for infinity,
    and NaN for NaN: whichever operand the instruction `min` returns for a NaN, the difference is NaN. Finite x above
    2.4e38 (FLT_MAX / sqrt(2)) keep the results that XNNPACK computes: 88.4, or infinity with AVX512; the correct
    logarithms are at most 88.73.
    """
    correction = "xnn_sub_f32(%s, xnn_min_f32(%s, vmax))"
    element, loop, tail = (
        "vx_${ABC[N]}",
        "      vx = xnn_mul_f32(vx, vsqrt2);\n",
        "        xnn_store_tail_f32(output, vy,",
    )
    start = "      // Scale `x` with `sqrt(2)` so that the exponent is rounded up.\n" + loop
    scale = f"        $for N in range(0, SIMD_TILE):\n          {element} = xnn_mul_f32({element}, vsqrt2);\n"
    sums = "          vy_${ABC[N]} = xnn_fmadd_f32(vexp_${ABC[N]}, vln2, vy_${ABC[N]});\n"
    load = "        xnn_simd_f32_t vx = xnn_load_tail_f32(input, batch >> XNN_LOG2_SIZEOF_FLOAT);\n"
    of_vector = correction % ("vx", "vx")
    of_element = correction % (element, element)
    declare = (
        f"        $for N in range(0, SIMD_TILE):\n          const xnn_simd_f32_t vspecial_${{ABC[N]}} = {of_element};\n"
    )
    constant = "    XNN_SIMD_CONST_F32(vone, 1.0f);\n"
    add = "vy = xnn_add_f32(vy, vspecial);\n"
    store = "      xnn_storeu_f32(output, vy);\n"
    return [
        Patch(_LOG, constant, constant + "    XNN_SIMD_CONST_F32(vmax, 3.402823466e+38f);\n"),
        Patch(_LOG, scale, declare + scale),
        Patch(_LOG, sums, sums + "        $for N in range(0, SIMD_TILE):\n"
              "          vy_${ABC[N]} = xnn_add_f32(vy_${ABC[N]}, vspecial_${ABC[N]});\n"),
        Patch(_LOG, start, f"      const xnn_simd_f32_t vspecial = {of_vector};\n{start}"),
        Patch(_LOG, store, f"      {add}{store}"),
        Patch(_LOG, load, f"{load}        const xnn_simd_f32_t vspecial = {of_vector};\n"),
        Patch(_LOG, tail, f"        {add}{tail}"),
    ]  # fmt: skip


def _compile_too(isa: str, *files: str) -> Patch:
    """Add kernels, which XNNPACK has but does not select, to the list of files that are compiled for `isa`."""
    start = f"SET(PROD_{isa.upper()}_MICROKERNEL_SRCS\n"
    return Patch(f"cmake/gen/{isa}_microkernels.cmake", start, start + "".join(f"  {file}\n" for file in files))


def _separate_pairs() -> Iterator[Patch]:
    """Yield patches for processors with NEON that lack dot products.

    Their int8 kernels `mlal` added two products in 16 bits, where the sum of two products -128 * -128 overflows. The
    kernels in C now add each product in 32 bits. Those in assembly are replaced by `mlal-lane`, which XNNPACK selects
    on other processors of this kind: their sums have 32 bits.
    """
    vprod, vacc = "vprod${M}x${ABC[N:N+4]}c${K}", "vacc${M}x${ABC[N:N+4]}"
    product = "vb${ABC[N:N+4]}c${K}x1, va${M}x1"
    for kind, indent in (("gemm", 14), ("igemm", 16)):
        space = " " * indent
        old = f"{space}{vprod} = vmlal_s8({vprod}, {product});\n"
        new = f"{space}{vacc} = vpadalq_s16({vacc}, {vprod});\n{space}{vprod} = vmull_s8({product});\n"
        yield Patch(_PAIRS % kind, old, new)

    config = "qs8_qc8w_gemm_config"
    kernel = "xnn_qs8_qc8w_%s_minmax_fp32_ukernel_%dx"
    common = ["init.qs8_qc8w = xnn_init_qs8_qc8w_conv_minmax_fp32_neonv8_params"]
    common += [
        f"pack_igemm_{order} = (xnn_pack_conv_{order}_w_fn) xnn_pack_qs8_conv_{order}_w" for order in ("goki", "kgo")
    ]
    common += ["pack_deconv_goki = (xnn_pack_deconv_goki_w_fn) xnn_pack_qs8_deconv_goki_w"]

    def block(indent: int, kernels: dict[int, str], sizes: tuple[str, ...]) -> str:
        lines = [
            f"minmax.{kind}[XNN_MR_TO_INDEX({rows})] = xnn_init_hmp_{kind}_ukernel((xnn_{kind}_ukernel_fn) "
            f"{kernel % (kind, rows)}{name})"
            for kind in ("gemm", "igemm")
            for rows, name in kernels.items()
        ]
        return "".join(f"{' ' * indent}{config}.{line};\n" for line in (*lines, *common, *sizes))

    def pairs(indent: int, suffix: str = "") -> str:
        name = f"8c8__asm_aarch64_neon_mlal{suffix}"
        return block(indent, {1: name, 2: name}, ("mr = 2", "nr = 8", "log2_kr = 3"))

    def lanes(indent: int) -> str:
        kernels = {1: "16__neonv8_mlal_lane", 4: "16__asm_aarch64_neon_mlal_lane_ld64"}
        return block(indent, kernels, ("mr = 4", "nr = 16"))

    file, other, end = "src/configs/gemm-config.c", " " * 12 + "default:\n", " " * 14 + "break;\n"
    a72 = "".join(f"{' ' * 12}case cpuinfo_uarch_cortex_{name}:\n" for name in ("a72", "a73"))
    yield Patch(file, f"{a72}{pairs(14, '_prfm')}{end}\n{other}{pairs(14)}{end}", f"{other}{lanes(14)}{end}")
    yield Patch(file, f"        }} else {{\n{pairs(10)}", f"        }} else {{\n{lanes(10)}")


def _exact_reciprocal_roots() -> Iterator[Patch]:
    """Yield the patches of the template `_RECIPROCAL_ROOT`, in which the number `x` becomes the result `y`."""

    def steps(kind: str, suffix: str, x: str, result: str, indent: str, each: str = "") -> Patch:
        q = "q" if kind == "float16x8_t" else ""
        lines = (
            f"const {kind} vt0{suffix} = vrsqrte{q}_f16({x});",
            f"const {kind} vt1{suffix} = vmul{q}_f16(vt0{suffix}, vt0{suffix});",
            f"const {kind} vt2{suffix} = vrsqrts{q}_f16({x}, vt1{suffix});",
            f"{result} = vmul{q}_f16(vt0{suffix}, vt2{suffix});",
        )
        exact = f"{result} = vdiv{q}_f16(vdup{q}_n_f16(1.0f), vsqrt{q}_f16({x}));"
        head = f"{indent}{each}\n" if each else ""
        inner = f"{indent}  " if each else indent
        old = "".join(f"{head}{inner}{line}\n" for line in lines)
        new = f"{indent}#if XNN_ARCH_ARM64\n{head}{inner}{exact}\n{indent}#else\n{old}{indent}#endif\n"
        return Patch(_RECIPROCAL_ROOT, old, new)

    n = "${ABC[N]}"
    yield steps("float16x8_t", f"_{n}", f"vx{n}", f"const float16x8_t vy{n}", " " * 8, "$for N in range(SIMD_TILE):")
    yield steps("float16x8_t", "", "vx", "const float16x8_t vy", " " * 6)
    yield steps("float16x4_t", "", "vx_lo", "float16x4_t vy_lo", " " * 6)
    yield steps("float16x4_t", "", "vx_hi", "vy_lo", " " * 8)


def _amx_indirect_kernels() -> Iterator[tuple[str, str, str, str]]:
    """Yield (kind, infix, tile, suffix) of the file name of each indirect GEMM kernel with AMX, except those of one row."""
    for kind, infix, widths in (
        ("qs8-qc8w", "-fp32", (16, 32, 64)),
        ("qd8-f32-qc8w", "", (16, 32, 64)),
        ("qd8-f16-qc8w", "", (64,)),
    ):
        for width in widths:
            yield from ((kind, infix, tile, suffix) for tile, suffix in (
                (f"7x{width}", ""), (f"16x{width}", ""), (f"16x{width}", "-prfm"),
            ))  # fmt: skip


def _keep_nans(datatype: str, isa: str, channels: int, prefix: str, unordered: str) -> Iterator[Patch]:
    """Yield patches of a max pooling kernel for x86, so that the maximum of a window with NaN is NaN.

    Of two operands of which one is NaN, the instruction ``max`` returns the second. So a window with NaN gave the
    largest of some of its elements or, as ``min`` does the same with the output range, infinity.
    """
    register = "__m128" if prefix == "_mm" else "__m256"

    def either(first: str, second: str) -> str:
        return f"{prefix}_or_ps({first}, {second})"

    def nan(first: str, second: str) -> str:
        return unordered % (first, second)

    pairs = [either(nan(f"vi{i}", f"vi{i + 1}"), nan(f"vi{i + 2}", f"vi{i + 3}")) for i in (0, 4)]
    for maximum, last in (("vmax01678", "vi8"), ("vmax0167", "vo")):
        for constant in ("const ", ""):
            old = f"""        const {register} vmax = {prefix}_max_ps(vmax2345, {maximum});
        {constant}{register} vout = {prefix}_max_ps({prefix}_min_ps(vmax, voutput_max), voutput_min);
"""
            vnan = f"        const {register} vnan = {either(either(*pairs), nan(last, last))};\n"
            new = old.replace(
                f"vout = {prefix}_max_ps({prefix}_min_ps(vmax, voutput_max), voutput_min)",
                f"vout = {either(f'{prefix}_max_ps({prefix}_min_ps(vmax, voutput_max), voutput_min)', 'vnan')}",
            )
            yield Patch(f"src/{datatype}-maxpool/{datatype}-maxpool-9p8x-minmax-{isa}-c{channels}.c", old, vnan + new)


def _zero_missing_rows(dtype: str) -> Patch:
    """Let the packing of a matmul's second operand write zeros for the rows that the last group of rows lacks."""
    assignment = """              if (kc_idx < kc) {
                packed_weights[kr_block_offset] =
                    k[kc_idx * k_stride + nr_block_start + nr_block_offset];
              }
"""
    zero = "              } else {\n                packed_weights[kr_block_offset] = 0;\n              }\n"
    rest = f"""            }}
            packed_weights += kr;
          }}
          packed_weights += (nr - nr_block_size) * kr;
        }}
      }}
      packed_weights = ({dtype}*)((uintptr_t)packed_weights + extra_bytes);
"""
    patched = assignment.replace("              }\n", zero)
    return Patch("src/reference/packing.cc", assignment + rest, patched + rest)


PATCHES = [
    *_log_patches(),
    # A GEMM kernel that is called with fewer rows than its tile has computes the last row once more for each missing
    # row, and reads for it the quantization parameters that follow those of the last row. So (rows of the tile - 1)
    # copies of the last row's parameters must follow. The largest tile of a dynamically quantized kernel has 16 rows
    # (AMX); XNNPACK's 10 copies suffice for 11 rows only.
    Patch(
        "include/xnnpack.h",
        "#define XNN_EXTRA_QUANTIZATION_PARAMS 10\n",
        "#define XNN_EXTRA_QUANTIZATION_PARAMS 15\n",
    ),
    # fp16 PReLU read the last elements of its second operand with an unmasked 64-byte load: up to 62 bytes past the
    # end, where 16 bytes are readable (padding.py found this). The first operand was read with a mask already.
    Patch(
        "src/f16-vbinary/gen/f16-vprelu-avx512fp16-u64.c",
        """va, _mm512_loadu_ph(b));

    _mm512_mask_storeu_epi16""",
        """va, _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(vmask, b)));

    _mm512_mask_storeu_epi16""",
    ),
    # XNNPACK fuses a clamp into the node before it if that node has an output range. Without these two patches, it does
    # so also if the two ranges do not overlap, which gives an empty range. And if the node before is not a clamp, it
    # writes the bounds to params.unary.clamp, which overwrites another member of that union, such as the padding of a
    # convolution.
    Patch(
        "src/subgraph.c",
        """      if (is_clamp(consumer) && has_clamp(producer)) {
""",
        """      if (is_clamp(consumer) && has_clamp(producer) &&
          math_max_f32(producer->activation.output_min, consumer->activation.output_min) <
              math_min_f32(producer->activation.output_max, consumer->activation.output_max)) {
""",
    ),
    Patch(
        "src/subgraph.c",
        """        producer->params.unary.clamp.min =
            math_max_f32(producer->params.unary.clamp.min,
                          consumer->params.unary.clamp.min);
        producer->params.unary.clamp.max =
            math_min_f32(producer->params.unary.clamp.max,
                          consumer->params.unary.clamp.max);
""",
        """        if (is_clamp(producer)) {
          producer->params.unary.clamp.min = producer->activation.output_min;
          producer->params.unary.clamp.max = producer->activation.output_max;
        }
""",
    ),
    # Average pooling has separate pointer tables for the output rows whose windows reach into the top padding and for
    # those that reach into the bottom padding. If the image has so few rows that a window reaches into both paddings,
    # the two tables overlapped, and output rows were computed from the pixels of other rows.
    Patch(
        "src/operators/average-pooling-nhwc.c",
        _POOLED_ROWS,
        _POOLED_ROWS.replace("const size_t", "size_t")
        + """  if (indirect_top_height + indirect_bot_height > output_height) {
    indirect_top_height = output_height;
    indirect_bot_height = 0;
  }
""",
    ),
    # The fp16 GEMM kernels with tiles of 64 columns stored the second 32 columns at offset 1 instead of 32: every fp16
    # layer with 64 outputs or more was wrong.
    *(
        Patch(
            f"src/f16-{kind}/gen/f16-{kind}-{rows}x64-minmax-avx512fp16-broadcast.c",
            f"_mm512_storeu_ph((uint16_t*) c{row} + 1, vacc{row}x1);",
            f"_mm512_storeu_ph((uint16_t*) c{row} + 32, vacc{row}x1);",
        )
        for kind in ("gemm", "igemm")
        for rows in (1, 7)
        for row in range(rows)
    ),
    # The indirect GEMM kernels with AMX have a loop of their own for a tile with one row, over blocks of 64 input
    # channels. It advanced the pointer of the tile's last row (a15 or a6) instead of the pointer that it reads (a0): if a
    # convolution has more than 64 input channels and the number of output pixels is 16 * n + 1, the last pixel was
    # computed from the first 64 channels alone.
    *(
        Patch(
            f"src/{kind}-igemm/gen/{kind}-igemm-{tile}c4-minmax{rounding}-avx512amx{prefetch}.c",
            f"_tile_loadd(4, a0, 64);   // Directly load input for mr=1\n          a{int(tile.partition('x')[0]) - 1} += 64;",
            "_tile_loadd(4, a0, 64);   // Directly load input for mr=1\n          a0 += 64;",
        )
        for kind, rounding, tile, prefetch in _amx_indirect_kernels()
    ),
    # The depthwise kernels `mul16_add16` add two products of int8 numbers in 16 bits. The sum of two products
    # -128 * -128 is 32768 and overflows. The kernels `mul16` add in 32 bits.
    *(
        Patch(
            "src/configs/dwconv-config.c",
            f"_{taps}p{channels}c__{isa}_mul16_add16;",
            f"_{taps}p{channels}c__{isa}_mul16;",
        )
        for taps in (9, 25)
        for isa, channels in (("sse2", 8), ("sse41", 8))
    ),
    *(
        Patch("src/configs/dwconv-config.c", f"{kind}_{taps}p16c__avx_mul16_add16;", f"{kind}_{taps}p16c__avx_mul16;")
        for kind, all_taps in (
            ("qs8_dwconv_minmax_fp32_ukernel", (9, 25)),
            ("qs8_qc8w_dwconv_minmax_fp32_ukernel", (3, 9, 25)),
        )
        for taps in all_taps
    ),
    Patch(
        "src/qs8-qc8w-dwconv/qs8-qc8w-dwconv-minmax-unipass-fp32.h",
        _THREE_TAPS_DECLARATION % "mul16_add16",
        _THREE_TAPS_DECLARATION % "mul16_add16" + _THREE_TAPS_DECLARATION % "mul16",
    ),
    _compile_too("sse2", *(f"src/qs8-dwconv/gen/qs8-dwconv-{taps}p8c-minmax-fp32-sse2-mul16.c" for taps in (9, 25))),
    _compile_too("sse41", *(f"src/qs8-dwconv/gen/qs8-dwconv-{taps}p8c-minmax-fp32-sse41-mul16.c" for taps in (9, 25))),
    _compile_too(
        "avx",
        *(f"src/qs8-dwconv/gen/qs8-dwconv-{taps}p16c-minmax-fp32-avx-mul16.c" for taps in (9, 25)),
        *(f"src/qs8-qc8w-dwconv/gen/qs8-qc8w-dwconv-{taps}p16c-minmax-fp32-avx-mul16.c" for taps in (9, 25)),
        "src/f32-vsqrt/gen/f32-vsqrt-avx-sqrt-u16.c",
    ),
    # The square root of infinity was NaN: the kernels `rsqrt` multiply x by an approximation of 1 / sqrt(x), which is
    # infinity * 0. The kernels `sqrt` use the instruction of the processor, whose results are exact for all numbers.
    *(
        Patch(
            "src/configs/unary-elementwise-config.c", f"xnn_f32_vsqrt_ukernel__{old};", f"xnn_f32_vsqrt_ukernel__{new};"
        )
        for old, new in (
            ("avx512f_rsqrt_u16", "avx_sqrt_u16"),
            ("fma3_rsqrt_u16", "avx_sqrt_u16"),
            ("avx_rsqrt_u16", "avx_sqrt_u16"),
            ("sse_rsqrt_u12", "sse_sqrt_u8"),
        )
    ),
    Patch(
        "src/configs/unary-elementwise-config.c",
        "xnn_f16_vsqrt_ukernel__f16c_rsqrt_u32;",
        "xnn_f16_vsqrt_ukernel__f16c_sqrt_u32;",
    ),
    _compile_too("sse", "src/f32-vsqrt/gen/f32-vsqrt-sse-sqrt-u8.c"),
    _compile_too("f16c", "src/f16-vsqrt/gen/f16-vsqrt-f16c-sqrt-u32.c"),
    # 4 packed columns of blockwise int4 weights have 16 + 72 * blocks + 16 bytes. If the number of blocks is odd, the
    # next 4 columns start at an odd multiple of 8 bytes, where a load that requires 16-byte alignment faults.
    *(
        Patch(
            f"src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-{rows}x4c8-minmax-{isa}-ld128.c",
            "const __m128 vksum = _mm_load_ps((const float*) w);",
            "const __m128 vksum = _mm_loadu_ps((const float*) w);",
        )
        for isa, max_rows in (("sse2", 4), ("sse41", 3), ("avx", 4))
        for rows in (1, max_rows)
    ),
    # Kernels that multiply groups of 4 rows of the second operand (fp32 on Zen 1) expect zeros where the last group is
    # incomplete. Constant weights are packed into memory that is zero already, but the second operand of a batched
    # matmul into the workspace, where other nodes have left their numbers.
    *(_zero_missing_rows(dtype) for dtype in ("float", "uint16_t")),
    *_separate_pairs(),
    # On Arm, the reciprocal square root of the smallest numbers of fp16 was -infinity: the square of the approximation
    # overflows. 64-bit processors have instructions with exact results.
    *_exact_reciprocal_roots(),
    # On Arm, fp16 was multiplied by the scale of int8 in fp16, whose rounding moved results across half a step.
    Patch(
        "src/configs/unary-elementwise-config.c",
        "xnn_f16_qs8_vcvt_ukernel__neonfp16arith_u32;",
        "xnn_f16_qs8_vcvt_ukernel__scalar_imagic_u4;",
    ),
    # hardswish without a kernel (fp16 on processors that lack its arithmetic) overflowed for the largest numbers.
    Patch(
        "src/reference/unary-elementwise.cc",
        "static_cast<T>((x / 6) * std::max<T>(std::min<T>(x + 3, 6), 0));",
        "static_cast<T>(x * (std::max<T>(std::min<T>(x + 3, 6), 0) / 6));",
    ),
    # A copy whose source and destination had the same address was skipped in all later runs, whatever their addresses.
    # The kernel decides in each run.
    Patch("src/operators/unary-elementwise-nc.c", _IS_COPY, ""),
    Patch(
        "src/operators/unary-elementwise-nc.c",
        """  if (input == output && is_copy_operator(expected_operator_type)) {
    unary_elementwise_op->state = xnn_run_state_skip;
    return xnn_status_success;
  }

""",
        "",
    ),
    Patch(
        "src/xx-copy/xx-copy-scalar-memcpy.c",
        "  memcpy(output, input, batch);\n",
        "  if (input != output) {\n    memcpy(output, input, batch);\n  }\n",
    ),
    *_keep_nans("f32", "sse", 4, "_mm", "_mm_cmpunord_ps(%s, %s)"),
    *_keep_nans("f16", "f16c", 8, "_mm256", "_mm256_cmp_ps(%s, %s, _CMP_UNORD_Q)"),
    # The workspace is not cleared, because that only hides such errors until it is used again; and it takes time.
    Patch(
        "src/runtime.c",
        "void* new_workspace_data = xnn_allocate_zero_simd_memory(mem_arena_size);",
        "void* new_workspace_data = xnn_allocate_simd_memory(mem_arena_size);",
    ),
]
