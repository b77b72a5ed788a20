"""The memory planning pass: what it plans, and the plans that it refuses."""

import copy

import pytest
import torch
from torch import nn
from torch.fx.passes.infra.pass_base import PassResult

from edgecore.errors import CompileError
from edgecore.memory import (
    MemoryPlan,
    MemoryPlanningPass,
    TensorSpec,
    naive,
)
from edgecore.memory.planning import check_plan
from edgecore.pipeline import to_edge


def test_a_plan_with_an_overlap_is_refused():
    specs = [TensorSpec(torch.float32, (4,), (0,), lifetime=(0, 2), mem_id=1) for _ in range(2)]
    with pytest.raises(CompileError, match="two live tensors the same memory"):
        check_plan(MemoryPlan({1: 16}, specs))


def test_a_tensor_outside_its_arena_is_refused():
    spec = TensorSpec(torch.float32, (4,), (0,), lifetime=(0, 2), mem_id=1, mem_offset=8)
    with pytest.raises(CompileError, match="outside its arena"):
        check_plan(MemoryPlan({1: 16}, [spec]))


class Chain(nn.Module):
    def forward(self, x):
        for _ in range(6):
            x = torch.sin(x)
        return x


def plan(**options):
    program = to_edge(torch.export.export(Chain(), (torch.randn(256),))).exported_program()
    return MemoryPlanningPass(**options).plan(program)


def test_memory_of_a_dead_tensor_is_used_again():
    assert plan(reuse=False).arenas == {1: 2 * 1024}


def test_an_elementwise_result_is_computed_in_place():
    assert plan().arenas == {1: 1024}


def test_memory_of_inputs_and_outputs_is_planned_on_request():
    everything = {"alloc_graph_input": True, "alloc_graph_output": True, "reuse": False}
    assert plan(**everything).arenas == {1: 2 * 1024}
    assert plan(memory_planning_algo=naive, reuse=False).arenas == {1: 5 * 1024}
    assert plan(memory_planning_algo=naive, **everything).arenas == {1: 7 * 1024}


def test_a_subclass_of_the_planning_pass_chooses_arenas_by_node():
    class ByOperator(MemoryPlanningPass):
        def run(self, graph_module, graph_signature=None):
            assert graph_signature.user_inputs
            for node in graph_module.graph.nodes:
                if node.op != "output":
                    node.meta["spec"].mem_id = 3 if node.target is torch.ops.aten.cos.default else 2
            return super().run(graph_module, graph_signature)

    class Mixed(nn.Module):
        def forward(self, x):
            return torch.cos(torch.sin(torch.cos(torch.sin(x))))

    program = to_edge(torch.export.export(Mixed(), (torch.randn(256),))).exported_program()
    assert ByOperator(reuse=False).plan(program).arenas == {2: 1024, 3: 1024}
    places = {node.name: node.meta["spec"].mem_id for node in program.graph.nodes if node.op != "output"}
    assert places == {
        "x": None,
        "sin": 2,
        "cos": 3,
        "sin_1": 2,
        "cos_1": None,
    }  # the caller supplies inputs and outputs


def test_a_subclass_of_the_planning_pass_spreads_tensors_over_arenas():
    class Two(MemoryPlanningPass):
        def arena_of(self, spec):
            return 1 + spec.lifetime[0] % 2

    program = to_edge(torch.export.export(Chain(), (torch.randn(256),))).exported_program()
    assert Two().plan(program).sizes == [0, 1024, 1024]


def test_a_planning_pass_that_returns_another_graph_is_refused():
    class Copies(MemoryPlanningPass):
        def run(self, graph_module, graph_signature=None):
            return PassResult(copy.deepcopy(graph_module), True)

    program = to_edge(torch.export.export(Chain(), (torch.randn(256),))).exported_program()
    with pytest.raises(CompileError, match="returned another graph than the one that it got"):
        Copies().plan(program)
