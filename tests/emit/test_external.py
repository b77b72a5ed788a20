"""Weights outside the `.pte`: which file they go to, that each is stored once, and that the peer runs the files."""

from importlib.util import find_spec

import pytest
import torch
from small_models import Adapted
from torch import nn

import edgecore
from edgecore import format as fmt
from edgecore.errors import CompileError

needs_peer = pytest.mark.skipif(find_spec("executorch") is None, reason="needs executorch, the peer")


X = torch.linspace(-1, 1, 16).reshape(2, 8)


@pytest.fixture(scope="module")
def model():
    return Adapted().eval()


def compiled(model, **options):
    return edgecore.compile(model, (X,), **options)


def run_peer(pte, ptd):
    from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer

    module = _load_for_executorch_from_buffer(bytes(pte), data_map_buffer=bytes(ptd))
    return module.forward([X])[0].clone()


@needs_peer
@pytest.mark.parametrize("backends", [[], ["xnnpack"]])
def test_executorch_runs_a_program_with_its_weights_in_another_file(model, backends):
    program = compiled(model, backends=backends, external_data="weights")
    assert list(program.data) == ["weights"]
    assert fmt.verify(program.pte) == []
    result = run_peer(program.buffer, fmt.write_ptd(program.data["weights"]))
    torch.testing.assert_close(result, model(X), atol=1e-6, rtol=1e-5)
    assert sum(memoryview(c).nbytes for c in program.pte.constants) <= 8, "only lifted numbers stay"
    assert set(program.pte.named_data) == {fmt.META_KEY}


@needs_peer
def test_each_toolchain_reads_the_weights_that_the_other_wrote(model):
    from executorch.exir import to_edge
    from executorch.exir.capture._config import ExecutorchBackendConfig
    from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer

    ours = compiled(model, external_data=True).data["_default_external_constant"]
    payload = FlatTensorSerializer().deserialize(fmt.write_ptd(ours))
    config = ExecutorchBackendConfig(external_constants=True)
    theirs = to_edge(torch.export.export(model, (X,))).to_executorch(config)
    (cord,) = theirs._tensor_data.values()
    read = fmt.read_ptd(bytes(cord))
    assert fmt.verify_ptd(read) == []
    for key in model.state_dict():
        entry = payload.named_data[key]
        assert bytes(payload.buffers[entry.buffer_index]) == bytes(ours.entries[key].data)
        assert read.entries[key] == ours.entries[key]
        assert entry.tensor_layout.sizes == list(model.state_dict()[key].shape)


def test_equal_constants_are_stored_once(model):
    (ptd,) = compiled(model, external_data=True).data.values()
    again = fmt.read_ptd(fmt.write_ptd(ptd))
    assert set(again.entries) == {"base.weight", "base.bias", "lora_a.weight", "lora_b.weight", "same"}
    assert len(again.segments) == 4
    pte = compiled(model).pte
    sizes = sorted(memoryview(constant).nbytes for constant in pte.constants)
    assert sizes.count(32) == 1, "the buffer and the bias are stored once inside a .pte too"


def test_patterns_of_names_choose_the_file_of_a_weight(model, tmp_path):
    program = compiled(model, external_data={"lora*": "adapter", "base.*": "base.ptd"})
    assert {file: set(ptd.entries) for file, ptd in program.data.items()} == {
        "adapter": {"lora_a.weight", "lora_b.weight"},
        "base": {"base.weight", "base.bias"},
    }
    paths = program.save(tmp_path / "model.pte")
    assert [path.name for path in paths] == ["model.pte", "base.ptd", "adapter.ptd"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter.ptd", "base.ptd", "model.pte"]


def test_verify_looks_for_weights_outside_of_the_file(model):
    program = compiled(model, external_data={"lora*": "adapter", "*": "base"})
    assert fmt.verify(program.pte, data=program.data) == []
    (missing,) = fmt.verify(program.pte, data={"base": program.data["base"], "half": fmt.PtdFile()})[:1]
    assert "'lora_a.weight' is in none of the .ptd files: base, half" in missing.what
    twice = {**program.data, "again": fmt.PtdFile({"base.bias": program.data["base"].entries["base.bias"]})}
    assert "the key 'base.bias' is also in base" in str(fmt.verify(program.pte, data=twice)[0])
    entry = program.data["base"].entries["base.bias"]
    wrong = fmt.PtdFile({**program.data["base"].entries, "base.bias": fmt.ExternalData(entry.data)})
    (violation,) = fmt.verify(program.pte, data={**program.data, "base": wrong})
    assert "'base.bias' is None in base, but the method has TensorLayout" in violation.what


def test_patterns_choose_weights_of_a_delegate_too(model):
    program = compiled(model, backends=["xnnpack"], external_data={"lora*": "adapter"})
    (adapter,) = program.data.values()
    contents = {bytes(entry.data) for entry in adapter.entries.values()}
    assert contents == {bytes(w.detach().numpy().tobytes()) for w in (model.lora_a.weight, model.lora_b.weight)}


def test_a_function_of_the_node_chooses_the_file(model):
    from edgecore import ExecutorchBackendConfig, to_edge

    edge = to_edge(torch.export.export(model, (X,)))
    config = ExecutorchBackendConfig(external_constants=lambda node: "b" if node.name.endswith("bias") else None)
    assert set(edge.to_executorch(config).data["b"].entries) == {"base.bias"}


def test_methods_share_the_file_and_other_weights_of_the_same_name_get_another_key(model):
    torch.manual_seed(1)
    other = Adapted().eval()
    nn.init.zeros_(other.base.bias)
    exported = {"one": model, "two": model, "three": other}
    program = edgecore.compile(exported, dict.fromkeys(exported, (X,)), external_data=True)
    (ptd,) = program.data.values()
    assert set(ptd.entries) == {*model.state_dict(), "base.bias@three"}


@pytest.mark.parametrize("name", ["", "a/b", "..", ".ptd", 3])
def test_a_file_name_with_a_folder_is_refused(model, name):
    with pytest.raises(CompileError, match="is no file name"):
        compiled(model, external_data={"*": name})


def test_the_unnamed_file_is_called_after_the_pte(model, tmp_path):
    program = compiled(model, external_data=True)
    assert [path.name for path in program.save(tmp_path / "model.pte")] == ["model.pte", "model.ptd"]
    program.write_tensor_data_to_file(tmp_path)
    assert (tmp_path / "_default_external_constant.ptd").read_bytes() == (tmp_path / "model.ptd").read_bytes()
