"""Errors of `edgecore.compile`: one sentence each, with what, where and what to do."""

import re

import pytest
import torch
from torch import nn

import edgecore
from edgecore import format as fmt
from edgecore.errors import BackendNotFound, CompileError


class Sum(nn.Module):
    def forward(self, x):
        return x.sum()


class Kernelless(nn.Module):
    def forward(self, x):
        return torch.linalg.qr(x)[0] + 1


class DataDependent(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


INPUT = (torch.randn(3, 3),)


def test_a_backend_that_does_not_exist_is_named():
    with pytest.raises(BackendNotFound, match="'nonesuch'"):
        edgecore.compile(Sum(), INPUT, backends=["nonesuch"])


def test_a_known_backend_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setattr("edgecore.plugin.registry.scan", list)  # as if no backend were installed
    with pytest.raises(BackendNotFound, match="pip install edgecore-xnnpack"):
        edgecore.compile(Sum(), INPUT, backends=["xnnpack"])


def test_one_backend_needs_no_list():
    pytest.importorskip("edgecore_xnnpack")
    for one in ("xnnpack", edgecore.Backend("xnnpack")):
        program = edgecore.compile(nn.Linear(3, 3).eval(), INPUT, backends=one)
        assert program.report().delegates == {"XnnpackBackend": 1}
    with pytest.raises(CompileError, match="backends contains a int; use names of backends or Backend objects"):
        edgecore.compile(nn.Linear(3, 3).eval(), INPUT, backends=[1])


def test_a_model_that_does_not_export_keeps_torchs_reason():
    place = rf"at {re.escape(__file__)}:{DataDependent.forward.__code__.co_firstlineno + 1} the model branches on the content"
    with pytest.raises(
        CompileError, match=rf"could not export DataDependent: {place}.*torch said:.*data-dep"
    ) as raised:
        edgecore.compile(DataDependent().eval(), INPUT)
    # The sentence has the place in the model and the first line; the cause has all the rest.
    assert "\n" not in str(raised.value)
    assert len(str(raised.value.__cause__).splitlines()) > 5


def test_an_operator_without_a_kernel_is_found_when_compiling():
    with pytest.raises(CompileError, match=r"linalg_qr.*test_compile\.py:\d+"):
        edgecore.compile(Kernelless().eval(), INPUT)


def test_a_model_in_training_mode_is_refused():
    with pytest.raises(CompileError, match=r"call model.eval\(\)"):
        edgecore.compile(nn.Dropout().train(), INPUT)


def test_an_argument_that_is_no_model_is_refused_with_its_type():
    with pytest.raises(CompileError, match="model is a str"):
        edgecore.compile("model.pt", INPUT)


def test_missing_example_inputs_are_an_error():
    with pytest.raises(CompileError, match="example_inputs are needed"):
        edgecore.compile(Sum().eval())


def test_an_unknown_target_runtime_or_memory_is_an_error():
    with pytest.raises(CompileError, match="no target runtime 'executorch-9'"):
        edgecore.compile(Sum().eval(), INPUT, runtime="executorch-9")
    with pytest.raises(CompileError, match="memory='heap'"):
        edgecore.compile(Sum().eval(), INPUT, memory="heap")


def test_segments_and_constants_are_aligned_as_asked(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2)).eval()
    x = torch.ones(2, 3)
    alignments = {"segment_alignment": 4096, "constant_tensor_alignment": 64}
    program = edgecore.compile(model, (x,), external_data={"1.*": "head"}, **alignments)
    path, *data = program.save(tmp_path / "m.pte")
    for file in (fmt.read_pte(path.read_bytes()), fmt.read_ptd(data[0].read_bytes())):
        assert file.segments
        assert all(segment.offset % 4096 == 0 for segment in file.segments)
    _, *constants, _ = fmt.read_pte(path.read_bytes()).constants  # a constant that was read ends where the next starts
    assert constants
    assert all(len(constant) % 64 == 0 for constant in constants)
    loaded = edgecore.load(path, data, verify=True)
    torch.testing.assert_close(loaded.forward(x), model(x))


def test_an_alignment_that_is_no_power_of_two_is_an_error():
    with pytest.raises(CompileError, match="segment alignment must be a power of two of at least 128; got 100"):
        edgecore.compile(Sum().eval(), INPUT, segment_alignment=100)
    with pytest.raises(CompileError, match="constant alignment must be a power of two of at least 16; got 0"):
        edgecore.compile(Sum().eval(), INPUT, constant_tensor_alignment=0)


def test_an_error_of_a_required_backend_lists_the_operators_outside():
    pytest.importorskip("edgecore_xnnpack")
    with pytest.raises(CompileError) as raised:
        edgecore.compile(Tangents().eval(), INPUT, backends=[edgecore.Backend("xnnpack", required=True)])
    head, *lines = str(raised.value).splitlines()
    assert head == "backend 'xnnpack' is required, but 5 operators are not delegated:"
    place = rf"{re.escape(__file__)}:{Tangents.forward.__code__.co_firstlineno + 1}"
    for line in lines:
        assert re.fullmatch(rf"  aten\.tan\.default \(tan\w*\) at {place}: XnnpackBackend: no lowering .*?;?", line)


class Tangents(nn.Module):
    def forward(self, x):
        return sum(torch.tan(x * number) for number in range(5)) * 2


def test_an_unknown_option_of_a_backend_is_named():
    pytest.importorskip("edgecore_xnnpack")
    with pytest.raises(CompileError, match="options of backend 'xnnpack': no option 'speed'"):
        edgecore.compile(Sum().eval(), INPUT, backends=[edgecore.Backend("xnnpack", speed="fast")])
