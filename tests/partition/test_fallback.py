"""A check or a partitioner that raises: its operators run elsewhere."""

import pytest
import torch
from fake_backends import assert_unchanged, compiles, delegate, edge, exported, picture

from edgecore.errors import CompileError, FallbackWarning
from edgecore.partition import TAG, CapabilityPartitioner, PartitionDiagnostics, PartitionResult
from edgecore.pipeline import DelegationReport, to_edge_transform_and_lower

aten = torch.ops.aten


def test_a_check_that_raises_leaves_its_operator_only():
    def check(program):
        def of_node(node):
            if node.target is aten.convolution.default:
                raise KeyError("padding")

        return of_node

    program, diagnostics = edge(), PartitionDiagnostics()
    with pytest.warns(FallbackWarning, match="Fake failed to examine 2 operators, at aten.conv.*KeyError") as caught:
        delegate(program, CapabilityPartitioner("Fake", check), compiles, diagnostics)
    assert len(caught) == 1
    left = {row.operator for row in DelegationReport.of({"forward": program}, {"forward": diagnostics}).left_outside}
    assert left == {"aten.convolution.default"}


class Raising:
    """A partitioner that tags the first node and raises, at one of its two questions."""

    def __init__(self, *, whole=False, edits=False):
        self.whole, self.edits = whole, edits

    def ops_to_not_decompose(self, program):
        if self.whole:
            raise RuntimeError("cannot say")
        return (), None

    def partition(self, program):
        if self.whole:
            return PartitionResult(program, {})
        node = next(node for node in program.graph.nodes if node.op == "call_function")
        node.meta[TAG] = "part"
        if self.edits:
            node.target = aten.neg.default
        raise RuntimeError("out of memory")


def test_a_partitioner_that_raises_leaves_all_operators_outside():
    program, diagnostics = edge(), PartitionDiagnostics()
    before = picture(program)
    with pytest.warns(FallbackWarning, match="Raising failed to choose operators, at .*: RuntimeError: out of memory"):
        delegate(program, Raising(), compiles, diagnostics)
    assert_unchanged(program, before)
    assert diagnostics.failures[0].operators == 6
    with pytest.raises(CompileError, match="Raising failed to choose operators"):
        delegate(program, Raising(), compiles, diagnostics, required=True)


def test_a_partitioner_that_returns_no_result_counts_as_failed():
    class Silent(Raising):
        def partition(self, program):
            pass

    program = edge()
    before = picture(program)
    with pytest.warns(
        FallbackWarning, match="Silent failed to choose operators.*partition gave a NoneType, not a Parti"
    ):
        delegate(program, Silent(), compiles)
    assert_unchanged(program, before)


def test_a_partitioner_that_changes_the_program_and_raises_is_an_error():
    with pytest.raises(CompileError, match="Raising changed the program") as error:
        delegate(edge(), Raising(edits=True), compiles)
    assert str(error.value.__cause__) == "out of memory"


def test_a_question_about_ops_to_not_decompose_that_raises_counts_as_no():
    def keep(node):
        raise ValueError("no such row")

    partitioner = CapabilityPartitioner(
        "Fake", lambda _: lambda node: "no", ops_to_not_decompose=[aten.conv2d.default], preserve=lambda program: keep
    )
    with pytest.warns(FallbackWarning, match="to say whether to decompose aten.conv2d.default, at .*no such row"):
        report = to_edge_transform_and_lower(exported(), partitioner=[partitioner]).report()
    assert len(report.failures) == 1
    with pytest.warns(
        FallbackWarning, match="Raising failed to list the operators that must not be decomposed: RuntimeError"
    ):
        to_edge_transform_and_lower(exported(), partitioner=[Raising(whole=True)])
