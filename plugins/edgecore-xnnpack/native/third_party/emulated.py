"""Prepare XNNPACK's sources for the emulated library: kernels for AVX512 and later extensions, compiled as plain C.

The intrinsics in these kernels come from ``emulated/`` and SIMDe instead of the compiler, so the library runs every x86
kernel on any processor with AVX2. Tests of the library check the arithmetic and the addresses in the kernels' C source;
they do not check the machine code that the compiler generates for the real instructions.
"""

from __future__ import annotations

import re
from pathlib import Path

HEADERS = Path(__file__).with_name("emulated")
PINS = Path(__file__).with_name("emulated.pins")

# -fwrapv: int32 sums wrap around, as those of the instructions do. -ffp-contract=off: the compiler must not fuse a
# product and a sum that the source rounds separately.
FLAGS = "-mavx2 -mfma -mf16c -fwrapv -ffp-contract=off -Wno-psabi -Wno-pass-failed"

_SETS = (
    "avx256skx", "avx256vnni", "avx256vnnigfni", "avx512amx", "avx512f", "avx512fp16", "avx512skx", "avx512vbmi",
    "avx512vnni", "avx512vnnigfni", "avxvnni", "avxvnniint8",
)  # fmt: skip
_COMPILE_FLAGS = r'(SET_PROPERTY\(SOURCE \$\{ALL_%s_MICROKERNEL_SRCS\} \w+ PROPERTY COMPILE_FLAGS) " -m[^"]*"'
_TILE_ASSEMBLY = [
    (re.compile(r'__asm__ volatile \("ldtilecfg %0" :: "m" \((\w+)\)\);'), r"_tile_loadconfig(&\1);"),
    (re.compile(r'__asm__ volatile \("tilerelease" ::\);'), "_tile_release();"),
    (re.compile(r'__asm__ volatile \(\s*((?:"tilezero %%tmm\d\\n"\s*)+)::\);'), None),
]


def prepare(source: Path, include: Path) -> None:
    """Change XNNPACK's sources so that the kernels are compiled with the emulated intrinsics.

    Replaces the kernels' compiler flags and the inline assembly of AMX.

    Args:
        source: the folder of XNNPACK's sources, changed in place.
        include: the folder that holds ``simde/``.

    Raises:
        ValueError: the sources are not those that this function was written for.
    """
    lists = source / "CMakeLists.txt"
    flags = f'" {FLAGS} -I{HEADERS} -isystem {include} "'
    text = lists.read_text()
    for name in _SETS:
        text, count = re.subn(_COMPILE_FLAGS % name.upper(), lambda match: f"{match[1]} {flags}", text)
        if count != 1:
            raise ValueError(f"CMakeLists.txt sets the flags of the {name} kernels {count} times, not once.")
    # XNNPACK disables these kernels if the compiler lacks their intrinsics, which are not needed here.
    lists.write_text(text.replace("SET(XNNPACK_ENABLE_AVXVNNIINT8 OFF)", ""))
    # With this definition every x86 feature is set (see patches/12-restrict-hardware.patch).
    hardware = source / "src" / "configs" / "hardware-config.c"
    hardware.write_text("#define EDGECORE_XNNPACK_EMULATED 1\n" + hardware.read_text())
    for path in sorted((source / "src").glob("*/gen/*avx512amx*.c")):
        path.write_text(_without_assembly(path.read_text()))


def _without_assembly(text: str) -> str:
    """Replace the inline assembly in an AMX kernel by intrinsics."""
    for pattern, replacement in _TILE_ASSEMBLY:
        text = pattern.sub(replacement or _zero_tiles, text)
    if "__asm__" in text:
        raise ValueError(
            "An AMX kernel has inline assembly that emulated.py does not replace; add it to _TILE_ASSEMBLY."
        )
    return text


def _zero_tiles(match: re.Match[str]) -> str:
    return " ".join(f"_tile_zero({tile});" for tile in re.findall(r"%%tmm(\d)", match[1]))
