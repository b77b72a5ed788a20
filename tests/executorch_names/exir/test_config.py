"""The settings of ExecuTorch's interface: what they do, and the warnings about those that do nothing."""

import dataclasses
import warnings

import pytest
import torch
from edge_programs import INPUTS, net
from torch import nn
from torch.export import export

import edgecore
from edgecore import format as fmt
from edgecore import stability
from edgecore.errors import CompileError, NoEffectWarning
from edgecore.ir.graph import calls
from edgecore.memory import MemoryPlanningPass
from edgecore.pipeline import EdgeCompileConfig, ExecutorchBackendConfig, to_edge, to_edge_transform_and_lower

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def fresh_warnings(monkeypatch):
    """Let each test see the warning of an argument, whichever tests ran before."""
    monkeypatch.setattr(stability, "_without_effect", set())


class Swish(nn.Module):
    def forward(self, x):
        return nn.functional.hardswish(x)


def exported():
    return export(Swish(), (torch.randn(4, 4),))


def targets(edge):
    return [node.target for node in calls(edge.exported_program().graph_module)]


@pytest.mark.parametrize("lower", [to_edge, to_edge_transform_and_lower])
def test_a_preserved_operator_is_not_decomposed(lower):
    assert aten.hardswish.default not in targets(lower(exported()))
    edge = lower(exported(), compile_config=EdgeCompileConfig(preserve_ops=[aten.hardswish.default]))
    assert targets(edge) == [aten.hardswish.default]
    assert targets(edge.transform([lambda program: program])) == [aten.hardswish.default]
    with pytest.raises(CompileError, match=r"no kernel in target runtime .* aten::hardswish.out"):
        edge.to_executorch()


def test_an_argument_without_effect_warns_once_at_the_line_of_its_caller():
    with pytest.warns(NoEffectWarning, match="_check_ir_validity=False.* has no effect") as caught:
        EdgeCompileConfig(_check_ir_validity=False)
        EdgeCompileConfig(_check_ir_validity=False)
    assert len(caught) == 1 and caught[0].filename == __file__


def test_the_defaults_of_the_configurations_warn_about_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EdgeCompileConfig(preserve_ops=[])
        ExecutorchBackendConfig(extract_delegate_segments=True, emit_stacktrace=False)


def test_each_field_of_the_backend_configuration_has_an_effect_or_a_reason():
    names = {one.name for one in dataclasses.fields(ExecutorchBackendConfig)}
    documented = ExecutorchBackendConfig.__doc__
    for name in sorted(names):
        if f"        {name}:" in documented:
            continue
        with pytest.warns(NoEffectWarning, match=name):
            ExecutorchBackendConfig(**{name: "another value"})


def test_the_fields_are_those_of_executorch_in_their_order():
    executorch = pytest.importorskip("executorch.exir")
    for ours, theirs in (
        (EdgeCompileConfig, executorch.EdgeCompileConfig),
        (ExecutorchBackendConfig, executorch.ExecutorchBackendConfig),
    ):
        names = [setting.name for setting in dataclasses.fields(theirs)]
        assert [setting.name for setting in dataclasses.fields(ours)][: len(names)] == names


def test_the_alignment_of_delegates_raises_that_of_segments():
    assert ExecutorchBackendConfig(delegate_alignment=64).finish_options().alignments == fmt.DEFAULT_ALIGNMENTS
    assert ExecutorchBackendConfig(delegate_alignment=4096).finish_options().alignments.segment == 4096
    with pytest.raises(CompileError, match="delegate_alignment is 100; it must be a power of two"):
        to_edge(exported()).to_executorch(ExecutorchBackendConfig(delegate_alignment=100))


def test_each_method_has_the_memory_planning_pass_of_its_name():
    programs = {"first": export(net(), INPUTS), "second": export(net(), INPUTS)}
    config = ExecutorchBackendConfig(memory_planning_pass={"second": MemoryPlanningPass(alloc_graph_input=True)})
    program = edgecore.load(to_edge(programs).to_executorch(config).buffer)
    assert not program["first"].inputs[0].planned and program["second"].inputs[0].planned


def test_views_are_copied_if_the_configuration_says_so():
    class View(nn.Module):
        def forward(self, x):
            return torch.sin(torch.sin(x).view(16)).view(2, 8)

    def operators(**options):
        plan = to_edge(export(View(), (torch.randn(4, 4),))).to_executorch(ExecutorchBackendConfig(**options))
        return [one.name for one in plan.executorch_program.execution_plan[0].operators]

    assert "aten::view_copy" in operators(remove_view_copy=False)
    assert len(operators()) <= len(operators(remove_view_copy=False))


def test_a_method_that_the_program_lacks_is_an_error():
    programs = {"run": exported()}
    edge = to_edge(programs)
    for call in (
        lambda: edge.transform({"ran": []}),
        lambda: edge.to_backend({"ran": None}),
        lambda: to_edge_transform_and_lower(programs, transform_passes={"ran": []}),
        lambda: to_edge_transform_and_lower(programs, partitioner={"ran": []}),
        lambda: edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass={"ran": MemoryPlanningPass()})),
    ):
        with pytest.raises(CompileError, match="has the method 'ran', but the program has: run"):
            call()


def test_an_operator_without_its_overload_is_an_error():
    with pytest.raises(CompileError, match="preserve_ops has aten.silu, which is no operator with its overload"):
        EdgeCompileConfig(preserve_ops=[aten.silu])
    assert EdgeCompileConfig(_core_aten_ops_exception_list=None).allowed == frozenset()
