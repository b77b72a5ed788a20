"""The delegate in the emulation layer: results, threads, and errors."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from vgf_models import NETWORK_INPUTS, SUB_INPUTS, Network, Sub, TwoParts, compiled, run, simulate, sub_file

import edgecore
from edgecore.errors import ExecutionError
from edgecore_vgf import backend
from edgecore_vgf.versions import loader_version
from edgecore_vgf.vgf import read_vgf

pytestmark = pytest.mark.usefixtures("device")


def test_a_network_of_floating_point_computes_as_eager_and_the_reference_model(tmp_path):
    model = Network()
    program = compiled(model, NETWORK_INPUTS, dump_intermediate_artifacts_to=str(tmp_path))
    assert "operators delegated: 6 of 6" in str(program.report())
    result = run(bytes(program.buffer), *NETWORK_INPUTS)
    torch.testing.assert_close(result, model(*NETWORK_INPUTS), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(result, simulate(tmp_path, *NETWORK_INPUTS)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("quantize", "tolerance"),
    [("int8", 0.05), ("int16x8", 0.02), (edgecore.Recipe("int8", weight_bits=4), 0.25)],
    ids=str,
)
def test_a_quantized_network_is_one_delegate_with_real_inputs_and_equals_the_reference_model(
    tmp_path, quantize, tolerance
):
    model = Network()
    program = compiled(model, NETWORK_INPUTS, quantize, dump_intermediate_artifacts_to=str(tmp_path))
    report = str(program.report())
    assert "1 x VgfBackend" in report and "not delegated" not in report, report
    result = run(bytes(program.buffer), *NETWORK_INPUTS)
    assert torch.equal(result, simulate(tmp_path, *NETWORK_INPUTS)[0])
    torch.testing.assert_close(result, model(*NETWORK_INPUTS), rtol=0, atol=tolerance)


def test_the_integer_profile_leaves_the_real_numbers_outside():
    model = Network()
    program = compiled(model, NETWORK_INPUTS, "int8", required=False, tosa_spec="TOSA-1.0+INT")
    report = str(program.report())
    assert "1 x VgfBackend" in report and report.count("not delegated:") == 2, report
    result = run(bytes(program.buffer), *NETWORK_INPUTS)
    torch.testing.assert_close(result, model(*NETWORK_INPUTS), rtol=0, atol=0.05)


def test_a_network_of_float16_runs_too():
    model, inputs = Network().half(), tuple(x.half() for x in NETWORK_INPUTS)
    program = compiled(model, inputs)
    assert "1 x VgfBackend" in str(program.report())
    expected = Network()(*NETWORK_INPUTS)
    torch.testing.assert_close(run(bytes(program.buffer), *inputs).float(), expected, rtol=0.01, atol=0.01)


def test_several_delegates_have_several_inputs_and_outputs():
    inputs = (torch.randn(3, 4), torch.randn(3, 4))
    program = compiled(TwoParts(), inputs, required=False)
    assert "2 x VgfBackend" in str(program.report())
    for ours, theirs in zip(edgecore.load(bytes(program.buffer)).forward(*inputs), TwoParts()(*inputs), strict=True):
        torch.testing.assert_close(torch.as_tensor(ours), theirs)


class Equal(torch.nn.Module):
    """Results of which two are the same value, which the converter finds."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a - b, torch.maximum(a, b) * 0, a + b, torch.minimum(a, b) * 0


def test_results_that_the_converter_finds_equal_share_a_tensor(tmp_path):
    inputs = (torch.randn(3, 4), torch.randn(3, 4))
    program = compiled(Equal(), inputs, dump_intermediate_artifacts_to=str(tmp_path))
    (blob,) = (path.read_bytes() for path in tmp_path.glob("*/graph.vgf"))
    vgf = read_vgf(blob)
    assert len(vgf.outputs) == 4
    results = edgecore.load(bytes(program.buffer)).forward(*inputs)
    for ours, theirs in zip(results, Equal()(*inputs), strict=True):
        torch.testing.assert_close(torch.as_tensor(ours), theirs)


class Compared(torch.nn.Module):
    """A result that the converter finds to be zero if the factor is, beside one that is computed."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a - b, (a * self.factor) > 1


def test_a_result_of_zeros_is_zero_in_memory_that_another_file_used():
    """Arm's emulation layer writes no result that is OpConstantNull."""
    inputs = (torch.full((3, 4), 2.0), torch.randn(3, 4))
    ones, zeros = (bytes(compiled(Compared(factor), inputs).buffer) for factor in (2.0, 0.0))
    kept = edgecore.load(ones)  # the device stays open, and with it its memory
    for _ in range(8):
        assert torch.as_tensor(kept.forward(*inputs)[1]).all()
        assert torch.as_tensor(edgecore.load(ones).forward(*inputs)[1]).all()
        assert not torch.as_tensor(edgecore.load(zeros).forward(*inputs)[1]).any()


def test_a_delegate_returns_its_blob_after_the_load(tmp_path):
    """The memory of a megabyte is unmapped when it is freed: reading the constants again would end the process."""
    inputs = (torch.randn(2, 512),)
    model = torch.nn.Linear(512, 512)
    (tmp_path / "linear.pte").write_bytes(bytes(compiled(model, inputs).buffer))
    loaded = edgecore.load(tmp_path / "linear.pte", load_mode="file")
    for _ in range(2):
        torch.testing.assert_close(torch.as_tensor(loaded.forward(*inputs)), model(*inputs), rtol=1e-4, atol=1e-4)


def test_several_threads_run_one_file_and_files_of_their_own():
    inputs = [(torch.randn(3, 4), torch.randn(1, 4)) for _ in range(8)]
    loaded = [edgecore.load(sub_file()) for _ in range(4)]

    def forward(index: int) -> bool:
        one = loaded[index] if index < len(loaded) else edgecore.load(sub_file())
        return all(torch.equal(torch.as_tensor(one.forward(*pair)), Sub()(*pair)) for pair in inputs)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(forward, range(8)))


def test_running_a_file_imports_neither_torch_nor_numpy_nor_packages_of_arm(tmp_path):
    path = tmp_path / "model.pte"
    path.write_bytes(sub_file())
    code = f"""
import array, sys, edgecore
a = memoryview(array.array("f", range(12))).cast("B").cast("f", (3, 4))
b = memoryview(array.array("f", range(4))).cast("B").cast("f", (1, 4))
print(edgecore.load({str(path)!r}).forward(a, b).tolist()[2])
assert not {{"torch", "numpy", "pydantic", "emulation_layer", "edgecore_tosa"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[8.0, 8.0, 8.0, 8.0]", done.stderr


def test_a_missing_emulation_layer_is_explained(monkeypatch):
    monkeypatch.setattr(backend, "emulation_folder", lambda: None)
    with pytest.raises(
        ExecutionError, match="no Vulkan device has the extensions .* .pip install ai-ml-emulation-layer"
    ):
        run(sub_file(), *SUB_INPUTS)


def test_a_missing_vulkan_library_is_one_sentence(tmp_path):
    for name in ("libvulkan.so", "libvulkan.so.1"):
        (tmp_path / name).write_bytes(b"no library")
    code = f"""
import edgecore
try:
    edgecore.load({sub_file()!r})
except edgecore.errors.ExecutionError as error:
    print(error)
"""
    variables = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert "this machine has no Vulkan library (libvulkan.so.1): " in done.stdout and done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"emulation": "layer"}, "the load option emulation is no absolute path: layer"),
        ({"emulation": "/no"}, "cannot be loaded: /no/lib/libVkLayer_Graph.so.* To install it: pip install"),
        ({"device": "no such device"}, "no Vulkan device has the index or name 'no such device'"),
    ],
)
def test_a_load_option_that_cannot_be_is_one_sentence(options, sentence):
    with pytest.raises(ExecutionError, match=sentence):
        run(sub_file(), *SUB_INPUTS, **options)


def test_layers_of_the_environment_that_the_loader_cannot_open_are_explained():
    if (loader_version("libvulkan.so.1") or ()) >= (1, 4, 309):
        pytest.skip("this loader opens the layers of the environment")
    folder = Path(backend.emulation_folder() or "")
    code = f"import edgecore; edgecore.load({sub_file()!r})"
    layers = "VK_LAYER_ML_Graph_Emulation:VK_LAYER_ML_Tensor_Emulation"
    variables = {
        "VK_INSTANCE_LAYERS": layers,
        "VK_LAYER_PATH": str(folder / "share/vulkan/explicit_layer.d"),
        "LD_LIBRARY_PATH": str(folder / "lib"),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert "unset this variable, since edgecore-vgf enables the emulation layer itself" in done.stderr


def test_a_file_of_another_release_is_refused():
    content = sub_file().replace(b"vgf 1", b"vgf 9")
    with pytest.raises(ExecutionError, match="'vgf 9' is not a format that this release of edgecore-vgf reads"):
        edgecore.load(content)
