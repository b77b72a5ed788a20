"""Tables of the functions that kernels call: which access memory, and which compute masks and sizes."""

from __future__ import annotations

import re

# Functions that addresses, masks and conditions depend on, as Python expressions.
KNOWN = {
    "min": "min", "max": "max", "doz": "(lambda a, b: max(a - b, 0))",
    "math_min_s32": "min", "math_max_s32": "max", "math_min_u32": "min", "math_max_u32": "max",
    "round_up_po2": "(lambda n, q: -(-n // q) * q)", "round_down_po2": "(lambda n, q: n // q * q)",
    "round_up": "(lambda n, q: -(-n // q) * q)", "divide_round_up": "(lambda n, q: -(-n // q))",
    "floor": "int", "_mm256_set_epi32": "vector_of_words", "math_popcount_u32": "(lambda n: n.bit_count())",
    **{f"_cvtu{64 if bits == 64 else 32}_mask{bits}": f"(lambda m: m & {(1 << bits) - 1})" for bits in (8, 16, 32, 64)},
    "_mm256_castsi256_si128": "(lambda v: vector_part(v, 0, 2))",
    "_mm256_castps256_ps128": "(lambda v: vector_part(v, 0, 2))",
    "_mm256_extractf128_ps": "(lambda v, i: vector_part(v, i, 2))",
    "_mm256_extracti128_si256": "(lambda v, i: vector_part(v, i, 2))",
    **{name: "(lambda v: v)" for name in (
        "_mm_castsi128_ps", "_mm_castps_si128", "_mm256_castsi256_ps", "_mm256_castps_si256",
    )},
}  # fmt: skip
CONSTANTS = {
    "UINT8_MAX": 255,
    "UINT32_MAX": 2**32 - 1,
    "XNN_LOG2_SIZEOF_HALF": 1,
    "XNN_LOG2_SIZEOF_FLOAT": 2,
    "XNN_LOG2_SIZEOF_INT32_T": 2,
}
# Structs that are stored in buffers, so that reading a member is an access to memory: each member's offset in bytes.
MEMBERS = {"xnn_qd8_quantization_params": {"zero_point": 0, "inv_scale": 4}}
X86 = re.compile(
    r"_mm(256|512)?_(mask_|maskz_)?(loadu?|storeu?|maskload|maskstore|expandloadu|lddqu|stream_load)_"
    r"(ps|pd|ph|si\d+|epi(?:8|16|32|64))$"
)
# Loads and stores of parts of a vector: their size in bytes.
X86_PARTS = {
    "_mm_load_ss": 4, "_mm_store_ss": 4, "_mm_load1_ps": 4, "_mm_load_ps1": 4, "_mm_load_sd": 8, "_mm_store_sd": 8,
    "_mm_broadcast_ss": 4, "_mm256_broadcast_ss": 4, "_mm256_broadcast_sd": 8, "_mm256_broadcast_ps": 16,
    "_mm_loadl_epi64": 8, "_mm_storel_epi64": 8, "_mm_loadl_pi": 8, "_mm_loadh_pi": 8, "_mm_storel_pi": 8,
    "_mm_storeh_pi": 8, "_mm_storel_pd": 8, "_mm_storeh_pd": 8, "_mm_loadu_si16": 2, "_mm_loadu_si32": 4,
    "_mm_loadu_si64": 8, "_mm_storeu_si16": 2, "_mm_storeu_si32": 4, "_mm_storeu_si64": 8,
}  # fmt: skip
# Bytes of a vector lane, by the suffix of the intrinsic's name.
LANES = {"ps": 4, "pd": 8, "ph": 2, "epi8": 1, "epi16": 2, "epi32": 4, "epi64": 8}
NEON = re.compile(r"v(ld|st)([1-4])(q)?(?:_(lane|dup))?_[a-z]+(\d+)(?:_x(\d))?$")
UNALIGNED = re.compile(r"unaligned_(indexed_)?(load|store)_[a-z]+(\d+)$")
# Functions that access no memory and compute only elements: intrinsics, and arithmetic of XNNPACK and the C library.
PURE = re.compile(
    r"_mm|_cvt|_k|_MM_|v[a-z0-9]+_|__[a-z]|xnn_\w+_[fs](?:16|32)$|XNN_SIMD_CONST|math_|float_as_|uint32_as_|fxdiv_"
    r"|_tile_|xnn_b?float16_|broadcast2x_uint16$|(?:min|max|doz|round_\w+|divide_round_up|isnan|signbit|fmaf?"
    r"|(?:sqrt|exp|fabs|floor|ceil|trunc|round|rint|nearbyint|lrint|copysign|log|tanh?|erf)f?)$"
)
