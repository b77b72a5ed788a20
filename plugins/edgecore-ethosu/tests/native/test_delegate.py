"""The delegate on the host: results of the simulator, and errors."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from ethosu_models import CONV_INPUTS, SUB_INPUTS, Conv, Sub, compiled, conv_file, int8

import edgecore
from edgecore.errors import ExecutionError
from edgecore_ethosu import backend


def run(content: bytes, *inputs: torch.Tensor, **options: str) -> torch.Tensor:
    loaded = edgecore.load(content, options={"ethosu": options} if options else None)
    return torch.as_tensor(loaded.forward(*inputs))


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u65-256", "ethos-u85-2048"])
@pytest.mark.parametrize(("model", "inputs"), [(Sub(), SUB_INPUTS), (Conv(), CONV_INPUTS)])
def test_results_are_those_of_the_quantized_model(model, inputs, target):
    result = run(bytes(compiled(model, inputs, target=target).buffer), *inputs)
    assert (result.int() - model(*inputs).int()).abs().max() <= 1  # rounding of the scale


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_weights_of_four_bits_make_smaller_files(target):
    model, x = torch.nn.Sequential(torch.nn.Conv2d(16, 32, 3), torch.nn.ReLU()).eval(), torch.randn(1, 16, 8, 8)
    files = {}
    for bits in (4, 8):
        recipe = edgecore.Recipe("int8", weight_bits=bits)
        backend = edgecore.Backend("ethosu", target=target)
        program = edgecore.compile(model, (x,), backends=[backend], quantize=recipe, calibration=[(x,)])
        assert program.report().delegates == {"EthosUBackend": 1}
        files[bits] = bytes(program.buffer)
        torch.testing.assert_close(run(files[bits], x), model(x), rtol=0, atol=0.4 if bits == 4 else 0.05)
    assert len(files[4]) < len(files[8])


def test_several_threads_run_one_file():
    model, loaded = Conv(), edgecore.load(conv_file())
    inputs = [int8(1, 2, 6, 6) for _ in range(8)]
    alone = [run(conv_file(), x) for x in inputs]

    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(edgecore.load(conv_file()).forward(x))

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(forward, inputs))
    assert all(map(torch.equal, together, alone))
    assert (torch.as_tensor(loaded.forward(inputs[0])).int() - model(inputs[0]).int()).abs().max() <= 1


def test_running_a_file_imports_neither_torch_nor_numpy_nor_vela(tmp_path):
    path = tmp_path / "model.pte"
    path.write_bytes(conv_file())
    code = f"""
import array, sys, edgecore
values = memoryview(array.array("b", range(72))).cast("B").cast("b", (1, 2, 6, 6))
print(len(edgecore.load({str(path)!r}).forward(values).tolist()[0]))
assert not {{"torch", "numpy", "pydantic", "ethosu", "edgecore_tosa"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "4", done.stderr


def test_a_file_for_a_device_holds_no_tosa_and_says_so():
    content = bytes(compiled(Conv(), CONV_INPUTS, include_tosa=False).buffer)
    assert b"ethosu-tosa-" not in content and len(content) < len(conv_file())
    with pytest.raises(ExecutionError, match="made for a device .* compile it with include_tosa=True"):
        edgecore.load(content)


def test_a_file_of_another_release_is_refused():
    content = conv_file().replace(b"ethosu-vela 1", b"ethosu-vela 9")
    with pytest.raises(ExecutionError, match="'ethosu-vela 9 ethos-u55-128' is not a format that this release"):
        edgecore.load(content)


def test_a_missing_simulator_is_explained(monkeypatch):
    monkeypatch.setattr(backend, "simulator_library", lambda: None)
    with pytest.raises(ExecutionError, match="the TOSA simulator, .* is missing: pip install edgecore-tosa"):
        run(conv_file(), *CONV_INPUTS)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("libsimulator.so", "no absolute path: libsimulator.so"),
        ("/no/libsimulator.so", "cannot be loaded: /no/libsimulator.so.*pip install edgecore-tosa"),
        (backend.native_library(), "is no TOSA simulator: it has no edgecore_tosa_"),
    ],
)
def test_a_path_that_is_no_simulator_is_refused(path, sentence):
    with pytest.raises(ExecutionError, match=sentence):
        run(conv_file(), *CONV_INPUTS, simulator=path)


@pytest.fixture(scope="module")
def fake(tmp_path_factory) -> Path:
    """Return a simulator that fails where an environment variable says."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for a library that fails")
    library = tmp_path_factory.mktemp("fake") / "libfake.so"
    source = Path(__file__).with_name("fake_simulator.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("version", "the interface 2, and this edgecore-ethosu uses 1: pip install --upgrade"),
        ("load", "the simulator cannot load the TOSA graph of the file: no such graph"),
        ("describe", "the simulator cannot describe argument 0 of the TOSA graph"),
        ("dtype", "an argument of the TOSA graph has the dtype 6"),
        ("inputs", "other inputs than the blob: compile it again"),
        ("outputs", "other outputs than the blob: compile it again"),
        ("bytes", "an argument of the TOSA graph has the dtype 3 and 1 bytes"),
        ("layout", "argument 0 has size 2 in dim 1 instead of 6"),
        ("shape", "other inputs than the blob: compile it again"),
    ],
)
def test_each_failure_of_the_simulator_is_one_sentence(monkeypatch, fake, tmp_path, where, sentence):
    monkeypatch.setenv("FAKE_SIMULATOR", where)
    library = shutil.copy(fake, tmp_path / f"lib{where}.so")  # a library is opened once
    with pytest.raises(ExecutionError, match=sentence):
        run(conv_file(), *CONV_INPUTS, simulator=str(library))


def test_a_run_that_fails_has_the_message_of_the_simulator(monkeypatch, fake, tmp_path):
    monkeypatch.setenv("FAKE_SIMULATOR", "")
    library = shutil.copy(fake, tmp_path / "librun.so")
    with pytest.raises(ExecutionError, match="the simulator cannot run the TOSA graph: it divides by zero"):
        run(conv_file(), *CONV_INPUTS, simulator=str(library))
