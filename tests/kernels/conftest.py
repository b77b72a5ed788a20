"""Build the kernel library once for the tests of this folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulated_library import EmulatedLibrary
from native import VARIANTS, Library

ROOT = Path(__file__).resolve().parents[2]


PROCESSOR = os.environ.get("EDGECORE_KERNELS_PROCESSOR")
"""A processor of emulated.PROCESSORS: then the tests of this folder call the kernels on it instead of here."""


@pytest.fixture(scope="session")
def build_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the build folder: EDGECORE_KERNELS_BUILD if set, else a temporary folder that is built now."""
    if prebuilt := os.environ.get("EDGECORE_KERNELS_BUILD"):
        return Path(prebuilt)
    folder = tmp_path_factory.mktemp("kernels")
    subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release"], check=True)
    subprocess.run(["cmake", "--build", folder, "--target", "edgecore_kernels_test", "-j2"], check=True)
    return folder / "runtime_cpp" / "kernels"


@pytest.fixture(scope="session")
def library_path(build_dir: Path) -> Path:
    if PROCESSOR:
        pytest.skip(f"the kernels run on {PROCESSOR}, not in this process")
    return build_dir / "libedgecore_kernels_test.so"


@pytest.fixture(scope="session")
def arm64_program() -> Path:
    """Return EDGECORE_KERNELS_ARM64: the program edgecore_kernels_serve, built for 64-bit Arm."""
    if shutil.which("qemu-aarch64") is None or not (program := os.environ.get("EDGECORE_KERNELS_ARM64")):
        pytest.skip("needs qemu-aarch64, and kernels for 64-bit Arm in EDGECORE_KERNELS_ARM64 (make pytest)")
    return Path(program)


@pytest.fixture(scope="session")
def library(request: Any) -> Iterator[Library]:
    if not PROCESSOR:
        yield Library(request.getfixturevalue("library_path"))
        return
    with EmulatedLibrary(request.getfixturevalue("arm64_program"), PROCESSOR) as emulated:
        yield emulated


@pytest.fixture(scope="module", params=[PROCESSOR] if PROCESSOR else VARIANTS)
def build(request: Any) -> Library:
    """Return the library of each variant that this processor can run."""
    if PROCESSOR:
        return request.getfixturevalue("library")
    library = Library(request.getfixturevalue("library_path"), request.param)
    if not library.available:
        pytest.skip(f"this processor cannot run {request.param}")
    return library
