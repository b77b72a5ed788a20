"""Inputs and outputs that export fixes (strings, None), and shapes without bounds, which no runtime of the format plans."""

from __future__ import annotations

import pytest

import edgecore
from edgecore import format as fmt
from edgecore.errors import ExecutionError

torch = pytest.importorskip("torch")
X = torch.arange(3.0)


class Mode(torch.nn.Module):
    def forward(self, x, mode: str, bias):
        return (x * 2 if mode == "double" else x), mode, None


@pytest.fixture(scope="module")
def file():
    return edgecore.compile(Mode().eval(), (X, "double", None)).buffer


def test_a_string_is_fixed_by_export(file):
    model = edgecore.load(file)
    result, mode, nothing = model.forward(X, None, None)
    assert torch.equal(result, X * 2)
    assert (mode, nothing) == ("double", None)
    assert [info.dtype for info in model["forward"].outputs] == ["float32", "str", "none"]
    for other in ("double", 3):
        with pytest.raises(ExecutionError, match="Input 1 of method 'forward' must be None: strings, None and lists are"):
            model.forward(X, other, None)


def test_executorch_takes_the_same_inputs(file):
    runtime = pytest.importorskip("executorch.runtime").Runtime
    method = runtime.get().load_program(file).load_method("forward")
    assert torch.equal(method.execute([X, None, None])[0], X * 2)


def test_a_shape_without_bounds_is_refused(file):
    pte = fmt.read_pte(file)
    plan = pte.program.execution_plan[0]
    plan.values[plan.inputs[0]].val.shape_dynamism = fmt.TensorShapeDynamism.DYNAMIC_UNBOUND
    assert any("a shape without bounds" in violation.what for violation in fmt.verify(pte))
    with pytest.raises(ExecutionError, match=r"has a shape without bounds .* greatest size for each dynamic dim"):
        edgecore.load(fmt.write_pte(pte))["forward"]
