"""Weights in `.ptd` files on our runtime: ours in several files, executorch's own, and what is missing or wrong."""

from importlib.util import find_spec

import pytest
import torch
from small_models import Adapted
from torch import nn

import edgecore
from edgecore import BundledProgram, MethodTestCase, MethodTestSuite
from edgecore import format as fmt
from edgecore.errors import EdgecoreError

X = torch.linspace(-1, 1, 16).reshape(2, 8)


@pytest.fixture(scope="module")
def model():
    return Adapted().eval()


@pytest.mark.parametrize("backends", [[], ["xnnpack"]])
def test_weights_may_lie_in_several_files_and_an_adapter_may_be_exchanged(model, backends, tmp_path):
    rule = {"lora*": "adapter", "*": "base"}
    program = edgecore.compile(model, (X,), backends=backends, external_data=rule)
    path, *data = program.save(tmp_path / "m.pte")
    torch.testing.assert_close(edgecore.load(path, data=data).forward(X), model(X), atol=1e-6, rtol=1e-5)
    if backends:
        return  # a delegate names its weights by their content
    other = Adapted().eval()
    nn.init.normal_(other.lora_b.weight)
    edgecore.compile(other, (X,), external_data=rule).save(tmp_path / "other.pte")  # replaces adapter.ptd
    torch.testing.assert_close(edgecore.load(path, data=data).forward(X), other(X), atol=1e-6, rtol=1e-5)


def test_a_missing_or_wrong_file_of_weights_is_named(model, tmp_path):
    program = edgecore.compile(model, (X,), external_data={"lora*": "adapter", "*": "base"})
    path, *data = program.save(tmp_path / "m.pte")
    with pytest.raises(EdgecoreError, match=r"base|lora"):
        edgecore.load(path)
    with pytest.raises(EdgecoreError, match="lora"):
        edgecore.load(path, data=[tmp_path / "base.ptd"])
    with pytest.raises(EdgecoreError, match=r"base\.(weight|bias)"):
        edgecore.load(path, data=[*data, tmp_path / "base.ptd"])
    layout = fmt.TensorLayout(fmt.ScalarType.FLOAT, [4, 4], [0, 1])
    wrong = {**program.data["base"].entries, "base.weight": fmt.ExternalData(bytes(64), layout, 16)}
    (tmp_path / "base.ptd").write_bytes(fmt.write_ptd(fmt.PtdFile(wrong)))
    with pytest.raises(EdgecoreError, match=r"base\.weight"):
        edgecore.load(path, data=data)


def test_bundled_cases_run_with_weights_outside_of_the_file(model):
    program = edgecore.compile(model, (X,), external_data=True)
    (ptd,) = program.data.values()
    bundled = BundledProgram(program, [MethodTestSuite("forward", [MethodTestCase((X,), model(X))])])
    assert edgecore.verify_bundled(bundled.buffer, [fmt.write_ptd(ptd)]).passed


@pytest.mark.skipif(find_spec("executorch") is None, reason="needs executorch, the peer")
def test_a_program_of_executorch_with_its_weights_in_another_file_runs_here(model, tmp_path):
    from executorch.exir import to_edge
    from executorch.exir.capture._config import ExecutorchBackendConfig

    config = ExecutorchBackendConfig(external_constants=lambda node: "lora" if "lora" in node.name else "base")
    theirs = to_edge(torch.export.export(model, (X,))).to_executorch(config)
    (tmp_path / "m.pte").write_bytes(theirs.buffer)
    theirs.write_tensor_data_to_file(str(tmp_path))
    loaded = edgecore.load(tmp_path / "m.pte", data=[tmp_path / "base.ptd", tmp_path / "lora.ptd"])
    torch.testing.assert_close(loaded.forward(X), model(X), atol=1e-6, rtol=1e-5)
