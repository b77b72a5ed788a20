"""Enumerated shapes of several inputs: the specification in the package, and a run at each choice and at others."""

from __future__ import annotations

import sys

import pytest
import torch

import edgecore
from edgecore.errors import ExecutionError
from edgecore.format import read_pte
from edgecore_coreml.compiler import CoreMLCompiler

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is for Linux")
AUTO = torch.export.Dim.AUTO


class Model(torch.nn.Module):
    """The example of ExecuTorch's documentation."""

    def __init__(self):
        super().__init__()
        self.linear1 = torch.nn.Linear(10, 5)
        self.linear2 = torch.nn.Linear(11, 5)

    def forward(self, x, y):
        return self.linear1(x).sum() + self.linear2(y)


def compiled(model, x, y):
    inputs = (torch.randn(4, 6, 10), torch.randn(5, 11))
    ranges = ({0: AUTO(min=1, max=4), 1: AUTO(min=5, max=6)}, {0: AUTO(min=3, max=5)})
    backend = edgecore.Backend("coreml", required=True, lower_full_graph=True, enumerated_shapes={"x": x, "y": y})
    return edgecore.compile(model, inputs, dynamic_shapes=ranges, backends=[backend])


def load(program, folder):
    program.save(folder / "model.pte")
    standin = {"standin": sys.executable, "model_cache_folder": str(folder)}
    return edgecore.load(folder / "model.pte", options={"coreml": standin})


# The largest shapes, with which a file is loaded, are a choice; are each a choice of one input; are no choice.
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([[1, 5, 10], [4, 6, 10]], [[3, 11], [5, 11]]),
        ([[1, 5, 10], [4, 6, 10]], [[5, 11], [3, 11]]),
        ([[1, 6, 10], [4, 5, 10]], [[3, 11], [5, 11]]),
    ],
)
def test_a_model_runs_with_shapes_that_are_enumerated_together_only(tmp_path, x, y):
    model = Model().eval()
    program = compiled(model, x, y)
    assert "iOS18 or later" in str(program.report())
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    lines = CoreMLCompiler().describe_blob(bytes(blob), {})
    for name, shapes in (("x", x), ("y", y)):
        assert f"input {name}: float32, one of {shapes[0]}, {shapes[1]}" in lines
    loaded = load(program, tmp_path)
    for choice in (0, 1, 0):
        inputs = torch.randn(x[choice]), torch.randn(y[choice])
        torch.testing.assert_close(loaded.forward(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)
        with pytest.raises(ExecutionError, match="the shapes of x, y are not enumerated together"):
            loaded.forward(torch.randn(x[choice]), torch.randn(y[1 - choice]))
        with pytest.raises(ExecutionError, match="argument 0 has none of the 2 shapes that the model takes"):
            loaded.forward(torch.randn(2, 5, 10), torch.randn(y[choice]))
        with pytest.raises(ExecutionError, match="argument 1 has none of the 2 shapes that the model takes"):
            loaded.forward(torch.randn(x[choice]), torch.randn(4, 11))


def test_the_largest_sizes_together_are_refused_unless_they_are_a_choice(tmp_path):
    loaded = load(compiled(Model().eval(), [[1, 6, 10], [4, 5, 10]], [[3, 11], [5, 11]]), tmp_path)
    with pytest.raises(ExecutionError, match="argument 0 has none of the 2 shapes that the model takes"):
        loaded.forward(torch.randn(4, 6, 10), torch.randn(5, 11))
