"""The functions of the delegate's library: `edgecore doctor xnnpack` tries the kernels of this machine."""

from __future__ import annotations

import subprocess
import sys

import pytest
from native_host import build_folder

from edgecore.plugin.diagnosis.doctor import diagnose
from edgecore_xnnpack import native_library
from edgecore_xnnpack.library import try_kernels

# Without torch: an import of it fails.
ALONE = """
import sys
sys.modules["torch"] = None
import edgecore_xnnpack
print(sum(right for _, right, _ in edgecore_xnnpack.backend.self_test()))
"""


def test_all_kernels_of_this_processor_are_right() -> None:
    rows = try_kernels(native_library())
    assert [row for row in rows if not row[1]] == []
    kinds = {what for what, _, _ in rows}
    assert {"linear", "linear dynamic int8 x int4 in blocks", "convolution", "softmax", "resize"} <= kinds


def test_doctor_has_a_row_for_each_kind_of_kernel() -> None:
    (diagnosis,) = diagnose("xnnpack")
    parts = [finding for finding in diagnosis.findings if finding.is_part]
    assert len(parts) > 50
    assert all(part.ok for part in parts)


def test_the_kernels_are_tried_without_importing_torch() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


@pytest.mark.skipif(build_folder() is None, reason="EDGECORE_XNNPACK_BUILD names no build folder")
def test_a_wrong_kernel_is_found() -> None:
    folder = build_folder()
    assert folder is not None
    rows = try_kernels(str(folder / "tests" / "libedgecore_xnnpack_planted.so"))
    wrong = {what: detail for what, right, detail in rows if not right}
    assert "linear f32" in wrong
    assert "element [" in wrong["linear f32"]
    assert "linear int8" not in wrong
