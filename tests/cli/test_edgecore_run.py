"""The C++ command `edgecore-run` of the wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EDGECORE_RUN = Path(sys.executable).with_name("edgecore-run")
pytestmark = pytest.mark.skipif(not EDGECORE_RUN.is_file(), reason="the wheel of edgecore is not installed here")


def run(*arguments, folder=None):
    return subprocess.run([EDGECORE_RUN, *map(str, arguments)], capture_output=True, text=True, cwd=folder)


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
    assert trace.count(b"native_call_relu.out") == 1  # both runs have the same string
    assert run(relu, "--trace", tmp_path / "calls.etdp", "--trace-level", "calls").returncode == 0
    assert b"native_call_relu" not in (tmp_path / "calls.etdp").read_bytes()


def test_levels_and_limits_of_traces_that_do_not_exist_are_wrong_usage():
    assert run("a.pte", "--trace-level", "all").returncode == 2
    assert run("a.pte", "--trace-limit", "-1").returncode == run("a.pte", "--trace-limit", "1e9").returncode == 2


def test_a_kernel_library_that_cannot_be_loaded_is_one_sentence(relu):
    assert "relative.so is not given by an absolute path" in fails(relu, "--kernels", "relative.so")
    assert "/no/kernels.so cannot be loaded" in fails(relu, "--kernels", "/no/kernels.so")


def compiled(path, model, example):
    edgecore = pytest.importorskip("edgecore")
    edgecore.compile(model.eval(), example, runtime="edgecore").save(path)
    return path


def test_calls_in_a_file_are_made_in_one_process(tmp_path):
    torch, np = pytest.importorskip("torch"), pytest.importorskip("numpy")

    class Total(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(2, 3))

        def forward(self, x):
            self.total.add_(x)
            return self.total * 1

    total = compiled(tmp_path / "total.pte", Total(), (torch.ones(2, 3),))
    np = pytest.importorskip("numpy")
    lines = ["call forward x.npy", "export saved", "call forward x.npy", "session 1", "call forward x.npy"]
    lines += ["import saved", "call forward x.npy", "session 0", "reset", "call forward x.npy", "call forward no.npy"]
    lines += ["call nothing", "session 7", "export", "call forward x.npy"]
    (tmp_path / "calls.txt").write_text("\n".join(lines))
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    result = run(total, "--calls", "calls.txt", "--output-dir", ".", folder=tmp_path)
    outcomes = [line.partition(": ")[2] for line in result.stdout.splitlines()]
    assert [number for number, text in enumerate(outcomes) if text != "ok"] == [10, 11, 12, 13]
    assert [text.startswith("failed: ") for text in outcomes[10:]] == [True, True, True, True, False]
    assert result.returncode == 1 and "4 of 15 calls failed" in result.stderr
    totals = [np.load(tmp_path / f"call_{number}_output_0.npy")[0, 0] for number in (0, 2, 4, 6, 9, 14)]
    assert totals == [1, 2, 1, 2, 1, 2]


def test_calls_exclude_arguments_for_one_method(relu, tmp_path):
    (tmp_path / "calls.txt").write_text("call forward")
    assert run(relu, "--calls", tmp_path / "calls.txt", "--runs", 2).returncode == 2
    assert "no.txt" in fails(relu, "--calls", tmp_path / "no.txt")


def test_an_option_is_for_a_backend_that_is_loaded(relu):
    assert "--option FooBackend:level=3: no backend of this name is loaded" in fails(
        relu, "--option", "FooBackend:level=3"
    )


def test_outputs_are_written_row_major(tmp_path):
    torch, np = pytest.importorskip("torch"), pytest.importorskip("numpy")
    example = torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last)
    channels_last = compiled(tmp_path / "image.pte", torch.nn.ReLU(), (example,))
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4) - 9
    np.save(tmp_path / "x.npy", x)
    assert run(channels_last, "--input", tmp_path / "x.npy", "--output-dir", tmp_path).returncode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "output_0.npy"), np.maximum(x, 0))


def test_bfloat16_is_the_dtype_of_ml_dtypes(tmp_path):
    torch, np = pytest.importorskip("torch"), pytest.importorskip("numpy")
    bfloat16 = compiled(tmp_path / "bfloat16.pte", torch.nn.ReLU(), (torch.ones(3, dtype=torch.bfloat16),))
    x = np.array([1.5, -2, 3], np.float32)
    np.save(tmp_path / "x.npy", (x.view(np.uint32) >> 16).astype("<u2").view("V2"))
    assert run(bfloat16, "--input", tmp_path / "x.npy", "--output-dir", tmp_path).returncode == 0
    bits = np.load(tmp_path / "output_0.npy").view(np.uint16).astype(np.uint32) << 16
    np.testing.assert_array_equal(bits.view(np.float32), np.maximum(x, 0))


def test_inputs_and_outputs_that_are_no_tensors_are_values(tmp_path):
    np = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    import edgecore

    class Model(torch.nn.Module):
        def forward(self, x, factor, offset):
            return x * factor + (0.0 if offset is None else offset), factor, True

    path = tmp_path / "values.pte"
    edgecore.compile(Model().eval(), (torch.ones(2), 3, None), backends=[]).save(path)
    np.save(tmp_path / "x.npy", np.array([1, 2], np.float32))
    arguments = ["--input", tmp_path / "x.npy", "--input", "3", "--input", "none"]
    result = run(path, *arguments, "--output-dir", tmp_path)
    assert result.returncode == 0, result.stderr
    assert "output 1: 3" in result.stdout and "output 2: true" in result.stdout
    np.testing.assert_array_equal(np.load(tmp_path / "output_0.npy"), [3, 6])
    factor, flag = np.load(tmp_path / "output_1.npy"), np.load(tmp_path / "output_2.npy")
    assert (factor.dtype, factor.shape, int(factor)) == (np.int64, (), 3)
    assert flag.dtype == np.bool_ and bool(flag)
    assert "was fixed to 3" in fails(path, *arguments[:2], "--input", "4")
    assert "Input 1 is an int; give a number, true, false or none instead of x." in fails(
        path, *arguments[:2], "--input", "x"
    )


def test_a_bundled_program_is_verified(tmp_path):
    torch = pytest.importorskip("torch")
    import edgecore

    x = torch.tensor([-1.0, 2.0])
    program = edgecore.compile(torch.nn.ReLU().eval(), (x,), backends=[])
    suites = {
        "good": [edgecore.MethodTestCase((x,), x.relu()), edgecore.MethodTestCase((x,))],
        "bad": [edgecore.MethodTestCase((x,), x.relu()), edgecore.MethodTestCase((x,), x)],
    }
    for name, cases in suites.items():
        edgecore.BundledProgram(program, [edgecore.MethodTestSuite("forward", cases)]).save(tmp_path / f"{name}.bpte")
    good = run(tmp_path / "good.bpte", "--verify")
    assert good.returncode == 0, good.stderr
    assert good.stdout.splitlines() == [
        "ok     forward, case 0, output 0: max abs error 0, max rel error 0",
        "RAN    forward, case 1: no outputs to compare with",
        "1 outputs passed, 0 failed; tolerance 1e-05 + 1e-05 * |expected|",
    ]
    bad = run(tmp_path / "bad.bpte", "--verify")
    assert bad.returncode == 1 and "Outputs differ from the expected ones." in bad.stderr
    assert "FAILED forward, case 1, output 0: 1 of 2 elements are wrong, max abs error 1" in bad.stdout
    assert run(tmp_path / "bad.bpte", "--verify", "--atol", "1").returncode == 0
    assert "has no test case for the method" in fails(tmp_path / "good.bpte", "--verify", "--method", "other")
    assert "not a .bpte file" in fails(save(program, tmp_path), "--verify")
    assert run(tmp_path / "good.bpte", "--rtol", "1").returncode == 2
    assert run(tmp_path / "good.bpte", "--verify", "--output-dir", tmp_path).returncode == 2


def save(program, folder):
    program.save(folder / "plain.pte")
    return folder / "plain.pte"
