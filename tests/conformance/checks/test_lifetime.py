"""Growth of memory that counts as a leak, and growth that does not."""

from __future__ import annotations

import pytest


def test_steady_growth_is_a_leak_and_caches_that_fill_are_not():
    """Bytes of heap that five steps of 40 loads lose: caches that fill, and leaks, also of some loads only."""
    pytest.importorskip("torch")
    from edgecore.conformance.checks.lifetime import HEAP, SPARSE, _grows

    def leaks(growth, steps=3):
        return _grows(growth, HEAP * 40, SPARSE[0], steps)

    assert leaks([4000] * 5) and leaks([1280] * 5)  # the smallest block with each load
    assert leaks([0, 40000, 0, 40000, 40000])
    assert not leaks([0] * 5)
    assert not leaks([90000, 20000, 0, 0, 0])
    assert not leaks([1840, 944, 1536, 0, 560])  # OpenVINO
    assert not leaks(
        [800, 700, 850, 800, 790]
    )  # and while it runs, also without us: fewer bytes than loads have blocks
    assert not leaks([50000, -50000, 50000, -50000, 50000])
