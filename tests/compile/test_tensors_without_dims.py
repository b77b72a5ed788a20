"""A tensor without dims has the dtype of the others in a sum or product, as in eager PyTorch."""

import pytest
import torch
from edge_programs import Model

import edgecore
from edgecore.passes.decompose import decompose

FLOATS = torch.tensor([0.1, 1.5, -2.0, 0.7])
FUNCTIONS = {
    name: getattr(torch, name)
    for name in "add sub mul div pow maximum minimum remainder fmod floor_divide eq ne lt le gt ge".split()
} | {
    "where": lambda x, y: torch.where(x > 0, x, y),
    "clamp": lambda x, y: x.clamp(min=y),
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "lerp": lambda x, y: torch.lerp(x, x * 2, y),
    "masked fill": lambda x, y: x.masked_fill(x > 0, y),
    "exchanged operands": lambda x, y: (y - x, y / x, torch.where(x > 0, y, x)),
}
INTEGERS = torch.tensor([1, 3, -2, 7])
PAIRS = {
    "float32 and float64": (FLOATS, torch.tensor(0.1, dtype=torch.float64)),
    "float16 and float32": (FLOATS.half(), torch.tensor(1.5)),
    "bfloat16 and float64": (FLOATS.bfloat16(), torch.tensor(1.5, dtype=torch.float64)),
    "int32 and int64": (INTEGERS.int(), torch.tensor(3)),
    "int8 and int32": (INTEGERS.char(), torch.tensor(3, dtype=torch.int32)),
    "int32 and float64": (INTEGERS.int(), torch.tensor(0.1, dtype=torch.float64)),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_results_have_the_dtype_and_the_values_of_eager(pair):
    x, y = PAIRS[pair]
    functions = []
    for function in FUNCTIONS.values():
        try:
            function(x, y)
            functions.append(function)
        except RuntimeError:
            pass  # torch has no such call either, such as a lerp of integers
    assert len(functions) >= 15
    model = Model(lambda self, x, y: tuple(torch.utils._pytree.tree_leaves([f(x, y) for f in functions]))).eval()
    for runtime in ("executorch-1.5", "edgecore"):
        got = edgecore.load(edgecore.compile(model, (x, y), runtime=runtime).buffer).forward(x, y)
        for actual, expected in zip(got, model(x, y), strict=True):
            torch.testing.assert_close(torch.from_dlpack(actual), expected, equal_nan=True)


def test_a_float32_factor_of_a_float16_model_is_converted_when_compiling():
    model = Model(lambda self, x: x * self.factor, factor=torch.tensor(0.5)).eval()
    program = edgecore.compile(model, (FLOATS.half(),))
    (plan,) = program.pte.program.execution_plan
    assert [operator.name for operator in plan.operators] == ["aten::mul"]


def test_integers_are_compared_as_they_are():
    program = torch.export.export(
        Model(lambda self, x, y: x > y).eval(), (torch.ones(3, dtype=torch.int32), torch.tensor(2))
    )
    decompose(program)
    assert torch.ops.aten._to_copy.default not in [node.target for node in program.graph.nodes]
