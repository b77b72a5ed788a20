"""The variants for the instruction sets share no symbol that a linker could merge, and all compute right results."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest
import torch
from native import VARIANTS, Library


def shared_symbols(folder: Path) -> set[str]:
    """Return the external symbols, weak ones included, that the object files of a folder define."""
    names = set()
    for obj in folder.glob("**/*.o"):
        output = subprocess.run(
            ["nm", "--defined-only", "--extern-only", obj], capture_output=True, text=True, check=True
        )
        names |= {line.split()[-1] for line in output.stdout.splitlines() if line}
    return names


@pytest.mark.slow
def test_variants_share_no_symbol(build_dir: Path) -> None:
    folders = {v: build_dir / "CMakeFiles" / f"edgecore_kernels_{v}.dir" for v in VARIANTS}
    symbols = {v: shared_symbols(folder) for v, folder in folders.items() if folder.exists()}
    assert symbols["baseline"]
    for a, b in itertools.combinations(symbols, 2):
        assert not symbols[a] & symbols[b]


def test_each_variant_that_this_processor_runs_equals_eager(build: Library) -> None:
    x = torch.randn(37, 65) * 3
    w = torch.randn(65, 29)
    out = torch.empty(37, 29)
    build.call("aten::mm.out", x, w, out)
    torch.testing.assert_close(out, x @ w, rtol=1e-5, atol=1e-5)
    y = torch.empty_like(x)
    for name in ("exp", "log", "tanh", "erf", "sigmoid", "sin", "cos"):
        build.call(f"aten::{name}.out", x, y)
        exact = getattr(torch, name)(x.double())
        torch.testing.assert_close(y.double(), exact, rtol=1e-6, atol=1e-7, equal_nan=True)


def test_unknown_variant_is_absent(library_path: Path) -> None:
    assert not Library(library_path, "avx1024").available
