"""XNNPACK's kernels for AVX512 and beyond, compiled as plain C: a library for tests that offers every x86 feature.

The intrinsics in these kernels come from ``emulated/`` and SIMDe instead of the compiler. What a test of that library
shows is the arithmetic and the addresses of the kernels' C source, not the compiler's code for those instructions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

HEADERS = Path(__file__).with_name("emulated")
PINS = Path(__file__).with_name("emulated.pins")

# Sums of int32 wrap as the instructions' do, and only what the source calls a fused multiply-add is one.
FLAGS = "-mavx2 -mfma -mf16c -fwrapv -ffp-contract=off -Wno-psabi -Wno-pass-failed"

_SETS = (
    "avx256skx", "avx256vnni", "avx256vnnigfni", "avx512amx", "avx512f", "avx512fp16", "avx512skx", "avx512vbmi",
    "avx512vnni", "avx512vnnigfni", "avxvnni", "avxvnniint8",
)  # fmt: skip
_COMPILE_FLAGS = r'(SET_PROPERTY\(SOURCE \$\{ALL_%s_MICROKERNEL_SRCS\} \w+ PROPERTY COMPILE_FLAGS) " -m[^"]*"'
_IN_PRODUCTION = re.compile(r"(SET\(PROD_\w+_MICROKERNEL_SRCS)([^)]*)\)")
# Reading the intrinsics takes three times as long as compiling a kernel.
_KERNELS_AT_ONCE = 16
_TILE_ASSEMBLY = [
    (re.compile(r'__asm__ volatile \("ldtilecfg %0" :: "m" \((\w+)\)\);'), r"_tile_loadconfig(&\1);"),
    (re.compile(r'__asm__ volatile \("tilerelease" ::\);'), "_tile_release();"),
    (re.compile(r'__asm__ volatile \(\s*((?:"tilezero %%tmm\d\\n"\s*)+)::\);'), None),
]


def prepare(source: Path, include: Path, alone: Iterable[str]) -> None:
    """Change XNNPACK's tree ``source``: which kernels are compiled together, their flags, inline assembly of AMX.

    ``include`` holds ``simde/``. ``alone`` are kernels with names in common with others, compiled by themselves. Raises
    ValueError when the tree is not as expected.
    """
    lists = source / "CMakeLists.txt"
    flags = f'" {FLAGS} -I{HEADERS} -isystem {include} "'
    text = lists.read_text()
    for name in _SETS:
        text, count = re.subn(_COMPILE_FLAGS % name.upper(), lambda found: f"{found[1]} {flags}", text)
        if count != 1:
            raise ValueError(f"CMakeLists.txt sets the flags of the {name} kernels {count} times, not once.")
        _join(source, name, frozenset(alone))
    # Left out with an older compiler, whose intrinsics are not needed here.
    lists.write_text(text.replace("SET(XNNPACK_ENABLE_AVXVNNIINT8 OFF)", ""))
    # By this definition it starts from every x86 flag (forced_hardware.py).
    hardware = source / "src" / "configs" / "hardware-config.c"
    hardware.write_text("#define EDGECORE_XNNPACK_EMULATED 1\n" + hardware.read_text())
    for path in sorted((source / "src").glob("*/gen/*avx512amx*.c")):
        path.write_text(_without_assembly(path.read_text()))


def _join(source: Path, name: str, alone: frozenset[str]) -> None:
    listing = source / "cmake" / "gen" / f"{name}_microkernels.cmake"
    text = listing.read_text()
    found = _IN_PRODUCTION.search(text)
    if found is None:
        raise ValueError(f"{listing.name} has no list of kernels in production.")
    files = [file for file in found[2].split() if file not in alone]
    listed = [file for file in found[2].split() if file in alone]
    for first in range(0, len(files), _KERNELS_AT_ONCE):
        together = files[first : first + _KERNELS_AT_ONCE]
        listed.append(f"src/edgecore/{name}-{first}.c")
        (source / listed[-1]).write_text("".join(f'#include "../../{file}"\n' for file in together))
    listing.write_text(text[: found.start()] + "\n  ".join([found[1], *listed]) + ")" + text[found.end() :])


def _without_assembly(text: str) -> str:
    for pattern, calls in _TILE_ASSEMBLY:
        text = pattern.sub(calls or _zero_tiles, text)
    if "__asm__" in text:
        raise ValueError("An AMX kernel has inline assembly that emulated.py does not know.")
    return text


def _zero_tiles(found: re.Match[str]) -> str:
    return " ".join(f"_tile_zero({tile});" for tile in re.findall(r"%%tmm(\d)", found[1]))
