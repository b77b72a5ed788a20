"""ExecuTorch's Python runtime by its names."""

import warnings

import pytest
import torch
from torch import nn
from toy_backend import install  # noqa: F401

import edgecore
from edgecore import stability
from edgecore.errors import ExecutionError, FormatError, NoEffectWarning
from edgecore.executorch.runtime.pybindings import _is_available
from edgecore.runtime import Runtime, Verification


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x, past, scale=None):
        self.count.add_(1)
        return x + past[0]["key"] - past[1], scale * 2 + self.count


X, KEY, SECOND, SCALE = (torch.randn(2) for _ in range(4))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    exported = torch.export.export(Nested(), (X, [{"key": KEY}, SECOND]), {"scale": SCALE})
    program = edgecore.to_edge({"forward": exported, "again": exported}).to_executorch()
    return program.save(tmp_path_factory.mktemp("names") / "nested.pte")[0]


def test_a_method_is_executed_as_in_executorchs_documentation(path):
    program = Runtime.get().load_program(path)
    assert Runtime.get() is Runtime.get() and program.method_names == {"forward", "again"}
    outputs = program.load_method("forward").execute([X, KEY, SECOND, SCALE])
    assert isinstance(outputs, list) and all(isinstance(output, torch.Tensor) for output in outputs)
    torch.testing.assert_close(outputs, [X + KEY - SECOND, SCALE * 2 + 1])
    assert program.load_method("forward") is program.load_method("forward")
    with pytest.raises(KeyError, match="no method 'other'; it has: "):
        program.load_method("other")


def test_nested_and_keyword_inputs_go_where_the_model_had_them(path):
    method = Runtime.get().load_program(path.read_bytes()).load_method("forward")
    expected = X + KEY - SECOND
    torch.testing.assert_close(method.execute([X, [{"key": KEY}, SECOND]], {"scale": SCALE})[0], expected)
    torch.testing.assert_close(method.execute([X, ({"key": KEY}, SECOND), SCALE])[0], expected)
    torch.testing.assert_close(
        method.execute(kwargs={"past": [{"key": KEY}, SECOND], "x": X, "scale": SCALE})[0], expected
    )
    for args, kwargs, words in (
        ([X, [{"key": KEY}, SECOND]], {}, "not given 'scale'"),
        ([X, [{"key": KEY}, SECOND]], {"scale": X, "x": X}, "'x' of method 'forward' was given by position and by"),
        ([X], {"other": X}, "no input 'other'"),
        ([X, [{"value": KEY}, SECOND]], {"scale": X}, "'past\\[0\\]' of method .* with 'key', .* 'key' is missing"),
    ):
        with pytest.raises(ExecutionError, match=words):
            method.execute(args, kwargs)


def test_the_metadata_of_a_method_needs_no_loading(path):
    program = Runtime.get().load_program(str(path))
    meta = program.metadata("forward")
    assert "_loaded" not in vars(program)
    assert (meta.name(), meta.num_inputs(), meta.num_outputs(), meta.num_attributes()) == ("forward", 4, 2, 1)
    assert meta.input_tensor_meta(0).sizes() == (2,) and meta.input_tensor_meta(0).dtype() == 6
    assert meta.output_tensor_meta(1).nbytes() == 8 and not meta.output_tensor_meta(1).is_memory_planned()
    assert meta.attribute_tensor_meta(0).is_memory_planned() and meta.backend_names() == []
    assert meta.num_memory_planned_buffers() == 1 and meta.memory_planned_buffer_size(0) > 0
    with pytest.raises(IndexError):
        meta.input_tensor_meta(4)


def test_the_descriptions_of_tensors_equal_those_of_executorch(path):
    theirs = pytest.importorskip("executorch.runtime").Runtime.get().load_program(path).metadata("forward")
    ours = Runtime.get().load_program(path).metadata("forward")
    assert (ours.num_inputs(), ours.num_outputs(), ours.num_attributes()) == (
        theirs.num_inputs(), theirs.num_outputs(), theirs.num_attributes(),
    )  # fmt: skip
    for index in range(ours.num_inputs()):
        one, other = ours.input_tensor_meta(index), theirs.input_tensor_meta(index)
        for name in ("sizes", "dtype", "nbytes", "is_memory_planned"):
            assert getattr(one, name)() == getattr(other, name)(), name


def test_the_registries_list_kernels_and_backends(install):  # noqa: F811
    install("toy", "ToyBackend", "'/nowhere/libtoy.so'")
    runtime = Runtime.get()
    assert "aten::add.out" in runtime.operator_registry.operator_names
    assert "ToyBackend" in runtime.backend_registry.registered_backend_names
    assert runtime.backend_registry.is_available("ToyBackend")
    assert not runtime.backend_registry.is_available("NoBackend")
    assert _is_available(backend_name="ToyBackend") and not _is_available("NoBackend")


def test_a_damaged_file_fails_when_the_program_is_loaded(path):
    with pytest.raises(FormatError):
        Runtime.get().load_program(path.read_bytes()[:100])


def test_minimal_verification_warns_that_it_has_no_effect(path, monkeypatch):
    monkeypatch.setattr(stability, "_without_effect", set())
    with pytest.warns(NoEffectWarning, match="Verification.Minimal has no effect"):
        Runtime.get().load_program(path, verification=Verification.Minimal)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Runtime.get().load_program(path, verification=Verification.InternalConsistency)


def test_a_dump_of_times_is_written_on_request(path, tmp_path):
    program = Runtime.get().load_program(path, enable_etdump=True, debug_buffer_size=1 << 16)
    program.load_method("forward").execute([X, KEY, SECOND, SCALE])
    program.write_etdump_result_to_file(str(tmp_path / "run.etdp"), str(tmp_path / "values.bin"))
    assert (tmp_path / "run.etdp").stat().st_size and (tmp_path / "values.bin").stat().st_size


def test_inputs_and_positions_that_do_not_exist_are_one_sentence(path):
    method = Runtime.get().load_program(path).load_method("forward")
    with pytest.raises(TypeError, match="a list of inputs, not Tensor"):
        method.execute(torch.randn(4, 2))  # its rows would be the four inputs
    with pytest.raises(IndexError, match="there is no input -1; the method has 4"):
        method.metadata.input_tensor_meta(-1)
    with pytest.raises(IndexError, match="there is no arena -1"):
        method.metadata.memory_planned_buffer_size(-1)
    with pytest.raises(TypeError, match="a path, bytes, a binary file object or a compiled program is needed, not int"):
        Runtime.get().load_program(5)


def test_a_size_of_values_needs_a_dump(path, monkeypatch):
    monkeypatch.setattr(stability, "_without_effect", set())
    with pytest.warns(NoEffectWarning, match="pass enable_etdump=True"):
        Runtime.get().load_program(path, debug_buffer_size=100)
    with pytest.raises(ValueError, match="debug_buffer_size must be at least 0; got -1"):
        Runtime.get().load_program(path, enable_etdump=True, debug_buffer_size=-1)
