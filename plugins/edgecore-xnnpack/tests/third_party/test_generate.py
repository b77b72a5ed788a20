"""The table of kernels that are written by XNNPACK's generator."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest

LISTING = """SET(PROD_AVX_MICROKERNEL_SRCS
  src/a.c)

SET(NON_PROD_AVX_MICROKERNEL_SRCS
  src/b.c
  src/c.c)
"""


@pytest.fixture
def generate(script: ModuleType) -> ModuleType:
    module: ModuleType = script.generate
    return module


def test_a_list_of_values_makes_a_kernel_of_each(generate: ModuleType) -> None:
    rows = "# comment\n[avx]\nsrc/{MR}x8.c src/t.c.in MR=1,7 NR=8\nsrc/b.c\n"
    one, seven, existing = generate.read(rows)
    assert (one.path, one.template, one.options) == ("src/1x8.c", "src/t.c.in", ("NR=8", "MR=1"))
    assert (seven.path, seven.options) == ("src/7x8.c", ("NR=8", "MR=7"))
    assert (existing.path, existing.template, existing.section) == ("src/b.c", "", "avx")


def test_kernels_are_put_to_the_list_of_those_to_compile(generate: ModuleType, tmp_path: Path) -> None:
    listing = tmp_path / "cmake" / "gen" / "avx_microkernels.cmake"
    listing.parent.mkdir(parents=True)
    listing.write_text(LISTING)
    generate.select(tmp_path, "avx", ["src/ours.c", "src/b.c"])
    assert listing.read_text() == LISTING.replace("  src/b.c\n", "").replace(
        "  src/a", "  src/ours.c\n  src/b.c\n  src/a"
    )
    with pytest.raises(ValueError, match="no list PROD_SSE_MICROKERNEL_SRCS"):
        generate.select(tmp_path, "sse", ["src/a.c"])


def test_kernels_are_merged_but_for_our_templates_and_assembly(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "TABLE", tmp_path / "table")
    (tmp_path / "table").write_text("[avx]\nsrc/ours.c src/edgecore/ours.c.in NR=8\n")
    listing = tmp_path / "cmake" / "gen" / "avx_microkernels.cmake"
    listing.parent.mkdir(parents=True)
    (tmp_path / "src" / "edgecore").mkdir(parents=True)
    kernels = [f"src/{number}.c" for number in range(17)]
    listing.write_text(LISTING.replace("  src/a.c", "  src/ours.c\n  src/asm.S\n  " + "\n  ".join(kernels)))
    generate.group(tmp_path)
    merged = ["src/edgecore/avx_microkernels-0.c", "src/edgecore/avx_microkernels-16.c"]
    assert listing.read_text() == LISTING.replace("src/a.c", "\n  ".join(["src/ours.c", "src/asm.S", *merged]))
    included = "".join((tmp_path / path).read_text() for path in merged)
    assert included == "".join(f'#include "../../{kernel}"\n' for kernel in kernels)


def test_what_the_sources_lack_is_named(generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "TABLE", tmp_path / "table")
    for row, message in (("[avx]\nsrc/a.c", "XNNPACK lacks"), ("[regenerate]\nsrc/*.c", "write no src")):
        (tmp_path / "table").write_text(row)
        with pytest.raises(ValueError, match=message):
            generate.generate(tmp_path / row[1])


def test_kernels_of_a_changed_template_are_written_again(script: ModuleType, xnnpack_sources: Path) -> None:
    table = list(script.generate.read())
    again = [kernel.path for kernel in table if kernel.section == "regenerate"]
    commands = script.generate.commands(xnnpack_sources)
    templates = {words[0] for path, words in commands.items() if any(fnmatch(path, pattern) for pattern in again)}
    changed = {change.path for patch in script.series.read() for change in patch.files if change.path.endswith(".in")}
    assert templates <= changed
    assert changed - templates == {"src/f32-gemm/avx512-broadcast.c.in"}  # for our kernels alone
    assert "src/f32-gemm/avx512-broadcast.c.in" in {kernel.template for kernel in table}


def test_each_of_our_templates_has_a_kernel(generate: ModuleType) -> None:
    ours = {kernel.template.removeprefix("src/edgecore/") for kernel in generate.read() if kernel.is_ours}
    assert ours == {path.name for path in generate.TEMPLATES.iterdir()}
