"""Build the kernel library once for the tests of this folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from native import VARIANTS, Library

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def build_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the build folder: EDGECORE_KERNELS_BUILD if set, else a temporary folder that is built now."""
    if prebuilt := os.environ.get("EDGECORE_KERNELS_BUILD"):
        return Path(prebuilt)
    folder = tmp_path_factory.mktemp("kernels")
    source = ROOT / "runtime_cpp" / "kernels"
    subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release"], check=True)
    subprocess.run(["cmake", "--build", folder, "--target", "edgecore_kernels_test", "-j2"], check=True)
    return folder


@pytest.fixture(scope="session")
def library_path(build_dir: Path) -> Path:
    return build_dir / "libedgecore_kernels_test.so"


@pytest.fixture(scope="session")
def library(library_path: Path) -> Library:
    return Library(library_path)


@pytest.fixture(scope="module", params=VARIANTS)
def build(request: Any, library_path: Path) -> Library:
    """Return the library of each variant that this processor can run."""
    library = Library(library_path, request.param)
    if not library.available:
        pytest.skip(f"this processor cannot run {request.param}")
    return library
