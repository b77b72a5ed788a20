"""The kernels of 64-bit Arm, run by qemu, against eager PyTorch.

The quick tests call each operator of PyTorch's operator database. `make test-platforms` also runs the other tests of
this folder on each processor, by the environment variable EDGECORE_KERNELS_PROCESSOR.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from comparisons import check_16_bits, disagreements
from emulated_library import PROCESSORS, EmulatedLibrary
from native import KernelError
from opinfo_walk import EDGE_DTYPES, Extent

pytestmark = pytest.mark.slow

LAYOUTS = ("contiguous", "strided")
LIMITS = {
    "quick": Extent(samples=1, references=0, others=0, dtypes=(torch.float32,), layouts=LAYOUTS),
    "full": Extent(samples=6, references=2, others=2, dtypes=tuple(EDGE_DTYPES), layouts=LAYOUTS),
}
WALKS = [("neoverse-n1", "quick"), *(pytest.param(cpu, "full", marks=pytest.mark.full) for cpu in PROCESSORS)]


@pytest.mark.parametrize(("processor", "extent"), WALKS)
def test_kernels_on_an_emulated_processor_equal_eager(arm64_program: Path, processor: str, extent: str) -> None:
    with EmulatedLibrary(arm64_program, processor) as library:
        failures = disagreements(library, LIMITS[extent])
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_the_functions_without_a_library_are_as_exact_as_here(arm64_program: Path, processor: str) -> None:
    x = torch.cat([torch.linspace(-20, 20, 4001), torch.tensor([0.0, -0.0, 1e-40, 88.7, -104.5, torch.inf])])
    with EmulatedLibrary(arm64_program, processor) as library:
        for name in ("exp", "tanh", "erf", "sigmoid", "sin", "cos"):
            out = torch.empty_like(x)
            library.call(f"aten::{name}.out", x, out)
            exact = getattr(torch, name)(x.double())
            torch.testing.assert_close(out.double(), exact, rtol=1e-6, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_of_16_bits_are_converted_exactly(arm64_program: Path, dtype: torch.dtype) -> None:
    with EmulatedLibrary(arm64_program, PROCESSORS[0]) as library:
        check_16_bits(library, "aten::_to_copy.out", dtype)


def test_an_error_of_an_emulated_kernel_has_its_message(arm64_program: Path) -> None:
    with EmulatedLibrary(arm64_program, PROCESSORS[0]) as library, pytest.raises(KernelError, match="not broadcast"):
        library.call("aten::add.out", torch.ones(3), torch.ones(4), 1, torch.empty(3))
