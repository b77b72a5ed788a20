"""Values that operations inside of delegates compute: `load(..., values=True)` and `Program.take_values`."""

from __future__ import annotations

import numpy
import pytest
import torch

import edgecore
from edgecore.format import get_meta, read_pte

pytest.importorskip("edgecore_xnnpack")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.sigmoid(self.conv(x)).mean((2, 3)))


@pytest.fixture(scope="module")
def compiled() -> tuple[Net, torch.Tensor, bytes]:
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(2, 3, 6, 7)
    return model, x, edgecore.compile(model, (x,), backends=["xnnpack"]).buffer


def by_operator(file: bytes, values: list) -> dict[str, numpy.ndarray]:
    rows = {row.handle: row.operator_name for row in get_meta(read_pte(file)).methods[0].debug_handles}
    return {rows[value.handles[-1]]: numpy.asarray(value.value) for value in values}


def test_each_operation_of_a_delegate_reports_the_value_of_its_node(compiled) -> None:
    model, x, file = compiled
    program = edgecore.load(file, values=True)
    y = program.forward(x)
    values = by_operator(file, program.take_values())
    with torch.no_grad():
        convolved = model.conv(x)
        activated = convolved.sigmoid()
    numpy.testing.assert_allclose(values["aten.convolution.default"], convolved, rtol=0, atol=1e-5)
    numpy.testing.assert_allclose(values["aten.sigmoid.default"], activated, rtol=0, atol=1e-5)
    numpy.testing.assert_array_equal(values["aten.linear.default"], y)


def test_listening_to_values_changes_no_output(compiled) -> None:
    _, x, file = compiled
    assert torch.equal(edgecore.load(file, values=True).forward(x), edgecore.load(file).forward(x))


def test_values_are_returned_once_and_only_if_the_file_was_loaded_with_values(compiled) -> None:
    _, x, file = compiled
    program = edgecore.load(file, values=True)
    program.forward(x)
    program.forward(x)
    first = program.take_values()
    assert len(first) % 2 == 0 and len(first) > 0
    assert program.take_values() == []
    silent = edgecore.load(file)
    silent.forward(x)
    assert silent.take_values() == []


def test_an_unknown_method_is_an_error_that_lists_the_methods(compiled) -> None:
    with pytest.raises(KeyError, match="no method 'backward'; it has: forward"):
        edgecore.load(compiled[2], values=True).take_values("backward")


def test_values_follow_dynamic_sizes() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid(), torch.nn.Linear(4, 2)).eval()
    shapes = ({0: torch.export.Dim("rows", min=1, max=8)},)
    file = edgecore.compile(model, (torch.randn(4, 4),), backends=["xnnpack"], dynamic_shapes=shapes).buffer
    program = edgecore.load(file, values=True)
    for rows in (8, 1, 5):
        x = torch.randn(rows, 4)
        program.forward(x)
        values = by_operator(file, program.take_values())
        with torch.no_grad():
            numpy.testing.assert_allclose(values["aten.sigmoid.default"], model[1](model[0](x)), rtol=0, atol=1e-5)


def test_values_of_integers_are_real_numbers() -> None:
    torch.manual_seed(0)
    model, x = (
        torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)).eval(),
        torch.randn(4, 8),
    )
    program = edgecore.load(
        edgecore.compile(model, (x,), backends=["xnnpack"], quantize="int8", calibration=[(x,)]), values=True
    )
    y = program.forward(x)
    values = program.take_values()
    assert {value.value.dtype for value in values} == {"float32"}
    numpy.testing.assert_array_equal(numpy.asarray(values[-1].value), y)
