"""The C++ command `edgecore-run` of the wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EDGECORE_RUN = Path(sys.executable).with_name("edgecore-run")
pytestmark = pytest.mark.skipif(not EDGECORE_RUN.is_file(), reason="the wheel of edgecore is not installed here")


def run(*arguments):
    return subprocess.run([EDGECORE_RUN, *map(str, arguments)], capture_output=True, text=True)


def fails(*arguments):
    """The one sentence on stderr."""
    result = run(*arguments)
    assert result.returncode == 1
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith("edgecore-run: ")
    return sentence


def test_run_writes_its_output(relu, tmp_path):
    np = pytest.importorskip("numpy")
    x = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    np.save(tmp_path / "x.npy", x)
    result = run(relu, "--input", tmp_path / "x.npy", "--output-dir", tmp_path, "--runs", 3)
    assert result.returncode == 0, result.stderr
    assert "output 0: float32 [2, 3]" in result.stdout
    np.testing.assert_array_equal(np.load(tmp_path / "output_0.npy"), np.maximum(x, 0))


def test_help_exits_with_0_and_wrong_usage_with_2():
    assert run("--help").returncode == 0
    assert run().returncode == run("a.pte", "--frob", "1").returncode == 2


def test_a_backend_whose_library_is_not_given_is_named(pte):
    assert "needs backend 'FooBackend'; give its library with --backend" in fails(pte)


def test_inputs_that_do_not_fit_are_one_sentence(relu, tmp_path):
    np = pytest.importorskip("numpy")
    np.save(tmp_path / "shape.npy", np.zeros((2, 4), np.float32))
    np.save(tmp_path / "dtype.npy", np.zeros((2, 3), np.int64))
    assert "dim 1 must be 3, got 4 (shape [2, 4])" in fails(relu, "--input", tmp_path / "shape.npy")
    assert "must be float32, not int64" in fails(relu, "--input", tmp_path / "dtype.npy")
    assert "1 input" in fails(relu, *["--input", tmp_path / "dtype.npy"] * 2)
    assert "no.npy" in fails(relu, "--input", tmp_path / "no.npy")


def test_a_file_that_cannot_be_run_is_one_sentence(pte, tmp_path):
    assert "no.pte: No such file" in fails(tmp_path / "no.pte")
    (tmp_path / "cat.pte").write_bytes(b"\x89PNG" * 20)
    assert "cat.pte: This is not a .pte file" in fails(tmp_path / "cat.pte")
    pte.write_bytes(pte.read_bytes()[:-20])
    assert "truncated" in fails(pte)


def test_the_trace_has_an_event_for_each_run(relu, tmp_path):
    assert run(relu, "--runs", 2, "--trace", tmp_path / "runs.etdp").returncode == 0
    trace = (tmp_path / "runs.etdp").read_bytes()
    assert trace[8:12] == b"ED00"
    assert trace.count(b"native_call_relu") == 2


def test_a_kernel_library_that_cannot_be_loaded_is_one_sentence(relu):
    assert "relative.so is not given by an absolute path" in fails(relu, "--kernels", "relative.so")
    assert "/no/kernels.so cannot be loaded" in fails(relu, "--kernels", "/no/kernels.so")
