"""The graph of a file: nodes, edges, modules, delegates."""

from __future__ import annotations

import json

import torch

import edgecore
from edgecore import format as fmt
from edgecore.devtools import graph_of
from edgecore.devtools.graph.operators import operators_of


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sigmoid())
        self.head = torch.nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.cumsum(self.body(x), 1).flatten())


def pte(backends: list[str]) -> fmt.PteFile:
    return edgecore.compile(Block().eval(), (torch.randn(4, 8),), backends=backends).pte


def test_edges_go_through_views_that_no_instruction_computes() -> None:
    (method,) = graph_of(pte([])).methods
    names = {node.id: node.name for node in method.nodes}
    edges = [(names[edge.source], names[edge.target]) for edge in method.edges]
    assert edges == [("x", "linear"), ("linear", "sigmoid"), ("sigmoid", "cumsum"), ("cumsum", "linear"),
                     ("linear", "squeeze_copy"), ("squeeze_copy", "output_0")]  # fmt: skip
    assert next(node for node in method.nodes if node.name == "linear").bytes == 4 * (64 + 8)


def test_operators_in_a_delegate_have_modules_and_parents() -> None:
    found = graph_of(pte(["xnnpack"]))
    (method,) = found.methods
    (delegate,) = [node for node in method.nodes if node.kind == "delegate"]
    inside = [node for node in method.nodes if node.parent == delegate.id]
    assert {node.backend for node in inside} == {"XnnpackBackend"}
    assert ("linear", "head") in {(node.name, node.module) for node in inside}
    groups = {group.module: group for group in method.groups}
    assert groups["body.0"].parent == "body"
    assert sorted(node for group in groups.values() for node in group.nodes) == sorted(n.id for n in method.nodes)
    text = found.text()
    assert "body: 2 operators (2 XnnpackBackend)" in text
    assert "body.0" not in found.text(depth=1)
    assert json.loads(json.dumps(found.as_dict()))["schema"] == "edgecore.graph.v1"


def test_outputs_of_a_delegate_are_told_from_views_that_it_reads() -> None:
    tensors = [fmt.Tensor(fmt.ScalarType.FLOAT, sizes=sizes, dim_order=list(range(len(sizes))),
                          allocation_info=fmt.AllocationDetails.at(1, offset))
               for sizes, offset in (([2, 3], 0), ([2, 3], 32), ([6], 32), ([6], 64))]  # fmt: skip
    calls = [fmt.KernelCall(0, [0, 1, 1]), fmt.DelegateCall(0, [2, 3])]
    plan = fmt.ExecutionPlan(
        name="forward", values=[fmt.EValue(one) for one in tensors], inputs=[0], outputs=[3],
        chains=[fmt.Chain(instructions=[fmt.Instruction(call) for call in calls])],
        operators=[fmt.Operator("aten::relu", "out")], non_const_buffer_sizes=[0, 96],
        delegates=[fmt.BackendDelegate("FooBackend", fmt.BackendDelegateDataReference(index=0))],
    )  # fmt: skip
    found = graph_of(fmt.PteFile(fmt.Program(execution_plan=[plan]), delegate_blobs=[b"blob"]))
    pairs = [(edge.source, edge.target) for edge in found.methods[0].edges]
    assert pairs == [("forward/input 0", "forward/0"), ("forward/0", "forward/1"), ("forward/1", "forward/output 0")]
    assert not found.complete
    assert "what its delegates compute is unknown" in found.text()


def test_indices_that_lead_nowhere_are_no_crash() -> None:
    calls = [fmt.KernelCall(7, [9, -1]), fmt.DelegateCall(3, [8]), fmt.MoveCall(5, 6), fmt.JumpFalseCall(4, 99)]
    plan = fmt.ExecutionPlan(name="forward", inputs=[3], outputs=[-2],
                             chains=[fmt.Chain(instructions=[fmt.Instruction(call) for call in calls])])  # fmt: skip
    found = graph_of(fmt.PteFile(fmt.Program(execution_plan=[plan])))
    assert [node.kind for node in found.methods[0].nodes] == ["input", "kernel", "delegate", "move", "jump", "output"]


def test_an_operator_before_a_delegate_is_not_in_the_delegate() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(16, 8), torch.nn.Linear(8, 4)).eval()
    program = edgecore.compile(model, (torch.tensor([1, 2]),), backends=["xnnpack"])
    found = {one.operator: one.backend for one in operators_of(program.pte)}
    assert found == {"aten.embedding.default": "kernels", "aten.linear.default": "XnnpackBackend"}
    assert "2 operators (1 kernels, 1 XnnpackBackend)" in graph_of(program.pte).text()


def test_an_operator_with_several_outputs_is_one_operator_in_a_delegate_too() -> None:
    model = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 4)).eval()
    first, second = (edgecore.compile(model, (torch.randn(2, 8),), backends=names).pte for names in ([], ["xnnpack"]))
    assert [one.key for one in operators_of(first)] == [one.key for one in operators_of(second)]
    assert "delegate XnnpackBackend: 2 operators" in graph_of(second).text()


def test_an_operator_keeps_its_identity_when_it_moves() -> None:
    kernels, delegated = operators_of(pte([])), operators_of(pte(["xnnpack"]))
    places = {one.key: one.backend for one in delegated}
    assert {one.backend for one in kernels} == {"kernels"}
    shared = [one for one in kernels if one.key in places]
    assert [one.key[1:] for one in shared][:2] == [
        ("body.0", "aten.linear.default", 0),
        ("body.1", "aten.sigmoid.default", 0),
    ]
    assert {places[one.key] for one in shared} == {"XnnpackBackend"}
