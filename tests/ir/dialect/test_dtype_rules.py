"""Dtype rules of the edge dialect: what torch refuses is refused, what it computes is accepted, results included."""

import pytest
import torch

from edgecore.ir.dialect import dtype_rules
from edgecore.ir.dialect.dtype_rules import allowed_types, dtype_finding
from edgecore.ir.dialect.edge_operators import edge_operators
from edgecore.ir.dialect.verifier import VerificationError, verify
from edgecore.ir.graph import calls, edit
from edgecore.pipeline import to_edge

aten = torch.ops.aten
FLOATS, INDICES = torch.ones(2, 2), torch.zeros(2, dtype=torch.int64)

ALLOWED = [
    (aten.add.Tensor, (FLOATS, INDICES), {}),
    (aten.add.Scalar, (INDICES, 2.5), {}),
    (aten.mul.Tensor, (FLOATS.half(), FLOATS.bfloat16()), {}),
    (aten.sum.dim_IntList, (INDICES.int(), [0]), {}),
    (aten.sum.dim_IntList, (INDICES.int(), [0]), {"dtype": torch.float64}),
    (aten.embedding.default, (FLOATS, INDICES.int()), {}),
    (aten.cat.default, ([FLOATS, FLOATS.double()],), {}),
    (aten.where.self, (FLOATS > 0, FLOATS, FLOATS.half()), {}),
    (aten.argmax.default, (FLOATS,), {}),
    (aten.topk.default, (FLOATS, 1), {}),
    (aten.gt.Scalar, (FLOATS, 0), {}),
    (aten.sigmoid.default, (INDICES,), {}),
    (aten.logical_and.default, (FLOATS, INDICES), {}),
]
REFUSED = [
    (aten.embedding.default, (FLOATS, FLOATS)),
    (aten.bitwise_and.Tensor, (FLOATS, FLOATS)),
    (aten.mm.default, (FLOATS, FLOATS.double())),
    (aten.where.self, (FLOATS, FLOATS, FLOATS)),
    (aten.gather.default, (FLOATS, 0, FLOATS)),
    (aten.mean.dim, (INDICES, [0])),
]


@pytest.mark.parametrize(("target", "args", "kwargs"), ALLOWED)
def test_dtypes_that_torch_computes_are_allowed_with_its_result(target, args, kwargs):
    result = target(*args, **kwargs)
    assert dtype_finding(target, args, kwargs, result) is None
    wrong = torch.zeros(1, dtype=torch.int8)
    if isinstance(result, torch.Tensor):
        assert "not int8" in dtype_finding(target, args, kwargs, wrong)


@pytest.mark.parametrize(("target", "args"), REFUSED)
def test_dtypes_that_torch_refuses_are_refused(target, args):
    with pytest.raises((RuntimeError, IndexError)):
        target(*args)
    assert "does not accept" in dtype_finding(target, args, {}, args[0])


def test_dtypes_that_a_trial_cannot_judge_are_allowed():
    mask = FLOATS > 0
    for target, args in (
        (aten.index.Tensor, (FLOATS, [mask])),
        (aten.index.Tensor, (FLOATS, [mask[0], INDICES])),
        (aten.index_put.default, (FLOATS, [mask], FLOATS[0, 0])),
        (aten.arange.start_step, (0.5, 3, 1)),
        (aten.cat.default, ([FLOATS, FLOATS.double(), FLOATS.half()],)),
    ):
        assert dtype_finding(target, args, {}, target(*args)) is None


def test_most_operators_have_a_rule():
    with_rule = [target for target in edge_operators() if dtype_rules._rule(target) is not None]
    assert len(with_rule) >= 185


def test_the_verifier_names_node_line_and_dtype_rule():
    class Model(torch.nn.Module):
        def forward(self, x, i):
            return torch.nn.functional.embedding(i, x)

    edge = to_edge(torch.export.export(Model(), (FLOATS, INDICES))).exported_program()
    with edit(edge) as graph_module:
        (node,) = calls(graph_module, aten.embedding.default)
        node.update_arg(1, node.args[0])
    with pytest.raises(
        VerificationError,
        match=r"aten.embedding.default \(node embedding, .*test_dtype_rules.py:\d+\) does not accept float32 with float32 "
        r"\(dtype rule of aten.embedding.default\)",
    ):
        verify(edge)


def test_the_dtypes_that_an_operator_may_have_are_listed_by_argument():
    types = allowed_types(aten.embedding.default)
    assert types["indices"] == {torch.int32, torch.int64} and torch.float16 in types["weight"]
    assert allowed_types(aten.where.self)["condition"] == {torch.bool}
    assert torch.int64 in allowed_types(aten.cat.default)["tensors"]
    returned = allowed_types(aten.sigmoid.default)["return"]
    assert torch.float32 in returned and torch.int32 not in returned
    assert "min" not in allowed_types(aten.clamp.default) and not allowed_types(aten.hardswish.default)
