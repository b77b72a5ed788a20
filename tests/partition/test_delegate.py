"""A backend that raises while it compiles a partition: a warning names the operator, its source line and the backend."""

import warnings
from types import SimpleNamespace

import fake_backends
import pytest
import torch
from fake_backends import (
    CALL_OF_CONV,
    INPUT,
    Network,
    assert_unchanged,
    compiles,
    delegate,
    edge,
    fails_at_convolutions,
    no_sin,
    picture,
)

import edgecore
from edgecore.errors import BackendBroken, CompileError, FallbackWarning
from edgecore.ir.delegate import delegates
from edgecore.partition import CapabilityPartitioner, PartitionDiagnostics, PartitionResult
from edgecore.pipeline import DelegationReport, chosen_backends, to_edge

aten = torch.ops.aten


def fails_at_tanh(backend_id, program, specs):
    if any(node.target is aten.tanh.default for node in program.graph.nodes):
        raise ValueError("no license")
    return compiles(backend_id, program, specs)


def test_a_failed_partition_stays_outside_with_a_warning_and_a_line_in_the_report():
    program, diagnostics = edge(), PartitionDiagnostics()
    with pytest.warns(FallbackWarning) as caught:
        delegate(program, CapabilityPartitioner("Fake", no_sin), fails_at_tanh, diagnostics)
    assert len(delegates(program)) == 1
    (warning,) = caught
    assert "Fake failed to compile a partition of 3 operators, at aten.convolution.default" in str(warning.message)
    assert "ValueError: no license" in str(warning.message) and CALL_OF_CONV in str(warning.message)
    assert warning.filename == fake_backends.__file__
    report = DelegationReport.of({"forward": program}, {"forward": diagnostics})
    assert [failure.operators for failure in report.failures] == [3]
    assert "failures of backends: 1; 3 operators run elsewhere for that reason" in str(report)
    reasons = {row.operator: row.reasons for row in report.left_outside}
    assert reasons["aten.tanh.default"] == (("Fake", "the backend failed: ValueError: no license"),)
    assert reasons["aten.sin.default"] == (("Fake", "sin is not supported"),)


def test_the_program_is_unchanged_when_every_partition_failed():
    def half_way(backend_id, program, specs):
        for node in program.graph.nodes:
            if node.op == "call_function":
                node.meta["mine"], node.target = True, aten.neg.default
                raise ValueError("half-way")

    program = edge()
    before = picture(program)
    with pytest.warns(FallbackWarning, match="half-way"):
        delegate(program, CapabilityPartitioner("Fake", no_sin), half_way)
    assert_unchanged(program, before)


def test_a_warning_names_the_node_at_which_a_backend_failed():
    with pytest.warns(FallbackWarning) as caught:
        delegate(edge(), CapabilityPartitioner("Fake", no_sin), fails_at_convolutions)
    text = str(caught[0].message)
    assert (
        f"3 operators, at aten.convolution.default (node convolution_default, {CALL_OF_CONV}): IndexError: pop from empty list"
        in text
    )


def test_the_next_backend_takes_what_one_failed_on():
    program, diagnostics = edge(), PartitionDiagnostics()
    with pytest.warns(FallbackWarning):
        delegate(program, CapabilityPartitioner("First", no_sin), fails_at_tanh, diagnostics)
    delegate(program, CapabilityPartitioner("Second", no_sin), compiles, diagnostics)
    assert [module.backend_id for _, module in delegates(program)] == ["Second", "First"]


@pytest.mark.parametrize("raised", [ValueError("bad"), CompileError("a sentence"), AssertionError()])
def test_a_required_backend_makes_a_failure_an_error(raised):
    def fails(backend_id, program, specs):
        raise raised

    with pytest.raises(
        CompileError, match=r"^Fake failed to compile a partition of 3 operators, at aten.conv"
    ) as error:
        delegate(edge(), CapabilityPartitioner("Fake", no_sin), fails, required=True)
    assert error.value.__cause__ is raised


def test_a_backend_whose_package_is_broken_is_an_error_of_its_own():
    def broken(backend_id, program, specs):
        raise BackendBroken("the package cannot be imported")

    with pytest.raises(BackendBroken, match="cannot be imported"):
        delegate(edge(), CapabilityPartitioner("Fake", no_sin), broken)


def test_a_preprocess_that_returns_no_result_counts_as_failed():
    program = edge()
    before = picture(program)
    with pytest.warns(FallbackWarning, match="preprocess gave a NoneType, not a PreprocessResult"):
        delegate(program, CapabilityPartitioner("Fake", no_sin), lambda *_: (None, ("", "")))
    assert_unchanged(program, before)


class Compiler:
    """A backend that cannot compile anything."""

    class Options:
        model_fields = ()

    def partitioner(self, options, *, runtime):
        return CapabilityPartitioner("FakeBackend", no_sin)


def test_compile_survives_a_failing_backend_and_says_so(monkeypatch):
    monkeypatch.setattr(chosen_backends.registry, "find_by_name", lambda name: SimpleNamespace(name=name))
    monkeypatch.setattr(chosen_backends, "compiler_of", lambda info: Compiler())
    monkeypatch.setattr("edgecore.pipeline.lowering.lower_programs.preprocess", fails_at_convolutions)
    torch.manual_seed(0)
    model = Network().eval()
    with pytest.warns(FallbackWarning) as caught:
        program = edgecore.compile(model, INPUT, backends=["fake"])
    assert {warning.filename for warning in caught} == {__file__}
    assert len(program.report().failures) == 2 and not program.report().delegates
    torch.testing.assert_close(edgecore.load(program.buffer).forward(*INPUT), model(*INPUT))
    with pytest.raises(CompileError, match="FakeBackend failed to compile a partition"):
        edgecore.compile(model, INPUT, backends=[edgecore.Backend("fake", required=True)])


def test_no_warning_is_given_where_nothing_fails():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        delegate(edge(), CapabilityPartitioner("Fake", no_sin), compiles)


class CopiesTheSine(CapabilityPartitioner):
    """Gives each reader of the sine a partition with a sine of its own."""

    def partition(self, exported_program):
        result = super().partition(exported_program)
        sine, readers = None, []
        for node in exported_program.graph.nodes:
            if node.op == "call_function":
                sine = node if node.target is aten.sin.default else sine
                readers += [node] if node is not sine else []
                node.meta["delegation_tag"] = f"part{max(len(readers) - 1, 0)}"
        tags = dict.fromkeys(("part0", "part1"), self.spec)
        return PartitionResult(result.tagged_exported_program, tags, copied_nodes={sine.name: ["part1"]})


def test_a_copied_node_is_in_each_partition_that_reads_it():
    class Two(torch.nn.Module):
        def forward(self, x):
            y = torch.sin(x)
            return torch.exp(y), torch.neg(y)

    x = torch.randn(3)
    program = to_edge(torch.export.export(Two(), (x,))).exported_program()
    lowered = delegate(program, CopiesTheSine("Fake", lambda program: lambda node: None))
    inside = [
        {node.target for node in module.original_module.graph.nodes if node.op == "call_function"}
        for _, module in delegates(lowered)
    ]
    assert inside == [{aten.sin.default, aten.exp.default}, {aten.sin.default, aten.neg.default}]
    assert all(map(torch.equal, lowered.module(check_guards=False)(x), Two()(x)))
