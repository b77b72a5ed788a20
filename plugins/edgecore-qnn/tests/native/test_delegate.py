"""The delegate: results of QNN's emulator, proof that QNN computed them, threads, and errors."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import edgecore
from edgecore.errors import ExecutionError
from edgecore_qnn import backend
from edgecore_qnn.blob import Tensor

pytest.importorskip("onnxruntime_qnn")
from qnn_files import SCALE, SHAPE, ZERO_POINT, file_of, relu_blob
from qnn_runs import providers, run_without_python

TELEMETRY = ("CI", "GITHUB_ACTIONS", "ORT_DISABLE_TELEMETRY")
"""Environment variables that switch off ONNX Runtime's telemetry."""


def numbers(seed: int = 0) -> torch.Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))


def run(content: bytes, x: torch.Tensor, **options: str) -> torch.Tensor:
    loaded = edgecore.load(content, options={"qnn": options} if options else None, trust=True)
    return torch.as_tensor(loaded.forward(x))


def refusal(content: bytes, **options: str) -> str:
    with pytest.raises(ExecutionError) as error:
        run(content, numbers(), **options)
    return str(error.value)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.linear = torch.nn.Linear(8 * 8 * 8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.relu(self.convolution(x)).flatten(1))


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> tuple[Path, torch.Tensor, torch.Tensor]:
    """A compiled network with its input and the result of PyTorch."""
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(1, 3, 8, 8)
    path = tmp_path_factory.mktemp("network") / "net.pte"
    edgecore.compile(model, (x,), backends=["qnn"]).save(path)
    return path, x, model(x).detach()


def test_a_compiled_network_has_the_results_of_pytorch(network):
    path, x, expected = network
    result = torch.as_tensor(edgecore.load(path).forward(x))
    torch.testing.assert_close(result, expected, rtol=2e-3, atol=2e-3)


def test_a_cpp_application_runs_a_file_by_its_manifest(network, tmp_path):
    path, x, expected = network
    result = torch.from_numpy(run_without_python(path, [x], tmp_path))
    torch.testing.assert_close(result, expected, rtol=2e-3, atol=2e-3)


def test_quantized_inputs_and_outputs_are_not_converted():
    x = torch.arange(128, dtype=torch.uint8).reshape(SHAPE) * 2
    result = run(file_of(relu_blob("uint8"), dtype="uint8"), x)
    assert result.dtype == torch.uint8
    assert torch.equal(result, x.clamp(min=ZERO_POINT)), f"of scale {SCALE}"


def test_the_profile_shows_one_node_that_qnn_ran(tmp_path):
    run(file_of(relu_blob()), numbers(), profile=str(tmp_path / "ort"))
    assert providers(tmp_path, "ort") == ["QNNExecutionProvider"]


def test_two_delegates_for_two_socs_run_in_one_process():
    loaded = edgecore.load(file_of(relu_blob(), relu_blob(soc="SM8750")), trust=True)
    x = numbers()
    for result in loaded.forward(x):
        torch.testing.assert_close(torch.as_tensor(result), torch.relu(x), rtol=2e-3, atol=2e-3)


def test_threads_run_a_delegate_at_the_same_time():
    content = file_of(relu_blob())

    def is_right(seed: int) -> bool:
        loaded, x = edgecore.load(content, trust=True), numbers(seed)
        results = [torch.as_tensor(loaded.forward(x)) for _ in range(5)]
        return all(torch.allclose(result, torch.relu(x), rtol=2e-3, atol=2e-3) for result in results)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(is_right, range(8)))


def test_each_run_uses_the_memory_of_its_caller():
    loaded = edgecore.load(file_of(relu_blob()), trust=True)
    for seed in range(4):
        x = numbers(seed)
        result = torch.as_tensor(loaded.forward(x)).clone()
        torch.testing.assert_close(result, torch.relu(x), rtol=2e-3, atol=2e-3)


def test_finite_numbers_of_an_input_are_reduced_to_its_largest_number():
    loaded = edgecore.load(file_of(relu_blob(inputs=[Tensor("x", "float32", SHAPE, largest=20.0)])), trust=True)
    for seed in range(2):
        x = numbers(seed)
        x[0, 0, 0, :4] = torch.tensor([torch.finfo().max, torch.finfo().min, 30.0, 10.0 + seed])
        kept = x.clone()
        result = torch.as_tensor(loaded.forward(x))
        torch.testing.assert_close(result, torch.relu(x.clamp(max=20.0)), rtol=2e-3, atol=2e-3)
        assert torch.equal(x, kept)


def test_a_file_without_hashes_is_refused_unless_trusted():
    with pytest.raises(ExecutionError, match="load with trust only"):
        edgecore.load(file_of(relu_blob()))


def test_damaged_contexts_do_not_reach_qnn():
    blob = relu_blob()
    context = blob[256 : 256 + int.from_bytes(blob[12:20], "little")]
    for changed in (bytes(len(context)), context[: len(context) // 2].ljust(len(context), b"\0")):
        assert "does not have the SHA-256 in its header" in refusal(file_of(blob.replace(context, changed)))


@pytest.mark.parametrize("size", [0, 100, 300, -40, -1])
def test_a_truncated_blob_is_refused(size):
    message = refusal(file_of(relu_blob()[:size]))
    assert "compile the model again" in message or "the blob is damaged" in message


def test_a_context_that_qnn_cannot_read_is_refused_with_its_message():
    from edgecore_qnn.blob import decode, encode

    header, context = decode(relu_blob())
    message = refusal(file_of(encode(header, bytes(len(context)))))
    assert "QNN cannot load the context binary for SM8650: Failed to load from EpContext model" in message


def test_a_context_of_a_newer_sdk_is_refused():
    message = refusal(file_of(relu_blob(sdk_build="v99.1.0.1")))
    assert "compiled by the QNN SDK v99.1.0.1 and the older" in message
    assert "pip install --upgrade onnxruntime-qnn" in message


def test_a_version_of_the_sdk_that_is_none_is_refused():
    assert "load option sdk_version must be the version" in refusal(file_of(relu_blob()), sdk_version="new")


def test_unknown_performance_modes_are_refused():
    content = file_of(relu_blob())
    run(content, numbers(), performance_mode="burst")
    assert "the performance mode 'fast' is unknown: use burst" in refusal(content, performance_mode="fast")


def test_inputs_of_another_shape_are_refused():
    with pytest.raises(ExecutionError, match="argument 0 has size 2 in dim 0 instead of 1"):
        run(file_of(relu_blob(), shape=[2, *SHAPE[1:]]), torch.zeros(2, *SHAPE[1:]))


def test_running_reports_nothing_to_microsoft(tmp_path):
    """With telemetry ONNX Runtime stores an identifier of the device and unsent events in the user's cache folder."""
    path, home = tmp_path / "relu.pte", tmp_path / "home"
    path.write_bytes(file_of(relu_blob()))
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in TELEMETRY}
    code = f"import edgecore, numpy; edgecore.load({str(path)!r}, trust=True).forward(numpy.zeros({SHAPE}, 'float32'))"
    subprocess.run(
        [sys.executable, "-c", code], env=environment | {"HOME": str(home), "XDG_CACHE_HOME": str(home)}, check=True
    )
    assert not list(home.rglob("*onnxruntime*"))


MISSING = [
    ({"onnxruntime": ""}, "the load option onnxruntime is missing: pip install onnxruntime onnxruntime-qnn"),
    ({"provider": "qnn.so"}, "the load option provider is no absolute path: qnn.so"),
    ({"onnxruntime": "/nowhere.so"}, "ONNX Runtime cannot be loaded: /nowhere.so"),
    ({"onnxruntime": backend.provider_library() or ""}, "is not ONNX Runtime"),
    ({"provider": backend.runtime_library() or ""}, "cannot use"),
]


@pytest.mark.parametrize(("options", "sentence"), MISSING)
def test_missing_libraries_are_named(options, sentence, tmp_path):
    path = tmp_path / "relu.pte"
    path.write_bytes(file_of(relu_blob()))
    code = f"import edgecore; edgecore.load({str(path)!r}, options={{'qnn': {options!r}}}, trust=True)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert sentence in done.stderr.splitlines()[-1]
