"""`to_edge` and `to_edge_transform_and_lower` take ExecuTorch's arguments by position."""

from __future__ import annotations

import copy

import pytest
import torch
from fake_backends import echo_backend  # noqa: F401
from torch.fx.passes.infra import pass_manager as fx

import edgecore
from edgecore.devtools import get_delegation_info
from edgecore.errors import CompileError
from edgecore.executorch.exir.memory import MemoryPlanningPass
from edgecore.executorch.exir.partitioners import AllNodePartitioner
from edgecore.executorch.exir.passes import PassManager
from edgecore.executorch.exir.scripts.config import ExecutorchBackendConfig
from edgecore.executorch.exir.scripts.lowering import to_backend, to_edge, to_edge_transform_and_lower
from edgecore.executorch.exir.scripts.managers import EdgeProgramManager
from edgecore.executorch.runtime.pybindings import _load_for_executorch_from_buffer
from edgecore.passes import NamedPass, PassBase, PassResult, narrow_integers
from edgecore.pipeline import EdgeCompileConfig

X = torch.randn(1, 4)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.hardswish(x)


def exported():
    return torch.export.export(Model(), (X,))


def config():
    return EdgeCompileConfig(preserve_ops=[torch.ops.aten.hardswish.default])


def targets(edge):
    return [node.target for node in edge.exported_program().graph.nodes]


def test_to_edge_takes_constant_methods_and_settings_by_position():
    edge = to_edge(exported(), {"limit": 7}, config(), True)
    assert edge.get_etrecord() is not None and torch.ops.aten.hardswish.default in targets(edge)
    assert edgecore.load(to_edge(exported(), {"limit": 7}).to_executorch().buffer)["limit"]() == 7


def test_lowering_takes_passes_partitioners_and_constant_methods_by_position():
    seen = []

    def note(graph_module):
        seen.append(graph_module)

    edge = to_edge_transform_and_lower(exported(), [note], [], {"limit": 7}, config(), True)
    assert len(seen) == 1 and edge.config_methods == {"limit"} and torch.ops.aten.hardswish.default in targets(edge)
    to_edge_transform_and_lower(exported(), None, None)


def test_a_loaded_program_takes_one_tensor_and_writes_it():
    class Writes(torch.nn.Module):
        def forward(self, x):
            x.add_(1)

    program = to_edge(torch.export.export(Writes(), (torch.zeros(1),)))
    x = torch.zeros(1)
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False))
    assert _load_for_executorch_from_buffer(program.to_executorch(config).buffer)(x) == [torch.ones(1), None]
    assert torch.equal(x, torch.ones(1))


def test_to_backend_takes_the_names_of_arguments_that_executorch_has(echo_backend):  # noqa: F811
    edge = to_edge(exported()).exported_program()
    module = to_backend("EchoBackend", edge_program=edge, compile_specs=[])
    assert module.backend_id == "EchoBackend"


class Sums(torch.nn.Module):
    def forward(self, x):
        return (x + x) + torch.nn.functional.relu(x)


def sums():
    return torch.export.export(Sums(), (X,))


def to_subtractions(graph_module):
    for node in graph_module.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
        node.target = torch.ops.aten.sub.Tensor


@pytest.mark.parametrize(
    "make_passes",
    [
        lambda: [to_subtractions],
        lambda: [[to_subtractions]],
        lambda: PassManager([to_subtractions]),
        lambda: PassManager([[to_subtractions], []], True, False),
        lambda: fx.PassManager([fx.pass_result_wrapper(to_subtractions)]),
    ],
)
def test_transform_takes_functions_of_graph_modules_and_managers_of_them(make_passes):
    edge = to_edge(sums()).transform(make_passes())
    assert torch.ops.aten.add.Tensor not in targets(edge)
    assert torch.equal(edge.exported_program().module()(X), -torch.relu(X))
    assert torch.ops.aten.add.Tensor not in targets(edge.transform({"forward": make_passes()}))
    assert torch.ops.aten.add.Tensor not in targets(to_edge_transform_and_lower(sums(), make_passes()))


def test_a_manager_of_passes_runs_functions_on_a_graph_module():
    graph_module = to_edge(sums()).exported_program().graph_module
    manager = PassManager()
    manager.add_pass(to_subtractions)
    result = manager(graph_module)
    assert result.modified and torch.ops.aten.sub.Tensor in {node.target for node in result.graph_module.graph.nodes}
    manager.run_checks = True
    manager.add_pass(lambda module: module.graph.call_method("relu", (next(iter(module.graph.nodes)),)) and None)
    with pytest.raises(
        CompileError, match="after the pass <lambda>: node relu.*an edge graph has no call_method nodes"
    ):
        manager(graph_module)
    manager.passes, manager.run_checks = [lambda module: module], False
    assert manager(graph_module).graph_module is graph_module
    manager.passes = [lambda module: 3]
    with pytest.raises(CompileError, match=r"the pass <lambda> gave a int; return PassResult\("):
        manager(graph_module)


def test_a_manager_of_passes_is_made_without_passes_and_with_flags_by_position():
    def fail(graph_module):
        raise ValueError("no such graph")

    graph_module = to_edge(sums()).exported_program().graph_module
    silent = PassManager(None, True, True)
    silent.add_pass(to_subtractions)
    silent.add_checks(fail)
    assert silent(graph_module).modified
    with pytest.raises(CompileError, match="after the pass to_subtractions: no such graph"):
        loud = PassManager([to_subtractions], True)
        loud.add_checks(fail)
        loud(graph_module)


def test_a_pass_of_edgecore_gets_a_program_if_it_is_named():
    edge = to_edge(sums())
    for passes in ([narrow_integers], PassManager([narrow_integers])):
        with pytest.raises(
            CompileError, match=r"gets a graph module, but reads graph_signature.*NamedPass\('narrow_int"
        ):
            edge.transform(passes)
    edge.transform([NamedPass("narrow_integers", narrow_integers)])


def to_hardswish(graph_module):
    for node in graph_module.graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default):
        node.target = torch.ops.aten.hardswish.default


def test_a_config_allows_operators_in_the_results_of_passes():
    with pytest.raises(CompileError, match=r"aten.hardswish.default"):
        to_edge(sums()).transform([to_hardswish])
    edge = to_edge(sums()).transform([to_hardswish], config())
    again = EdgeProgramManager(edge.exported_program(), None, config())
    for manager in (edge, again):
        assert torch.ops.aten.hardswish.default in targets(manager.transform([to_subtractions]))


def test_all_methods_get_the_partitioners_that_an_iterator_gives(echo_backend):  # noqa: F811
    partitioners = (AllNodePartitioner(name, []) for name in ["EchoBackend"])
    edge = to_edge_transform_and_lower({"one": sums(), "two": sums()}, partitioner=partitioners)
    assert edge.report().delegates == {"EchoBackend": 2}


class Counts(PassBase):
    """A pass with methods that lists and partitioners have, too."""

    def __init__(self):
        self.runs = 0

    def __iter__(self):
        return iter(())

    def partition(self):
        raise NotImplementedError

    def call(self, graph_module):
        self.runs += 1
        return PassResult(graph_module, False)


def test_a_pass_with_other_methods_runs_and_a_class_is_explained():
    counts = Counts()
    to_edge(sums()).transform([counts])
    assert counts.runs == 1
    with pytest.raises(CompileError, match="Counts is a class, no pass: call it to make one"):
        to_edge(sums()).transform([Counts])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda one: to_edge(Sums()), "method 'forward' is given as Sums.*call torch.export.export"),
        (lambda one: EdgeProgramManager({"run": Sums()}), "method 'run' is given as Sums"),
        (lambda one: to_edge_transform_and_lower(Sums(), None, [one]), "method 'forward' is given as Sums"),
        (lambda one: to_edge_transform_and_lower(sums(), None, one), r"one AllNodePartitioner, not a list.*=\[...\]"),
        (
            lambda one: to_edge_transform_and_lower(sums(), one),
            "an object of type AllNodePartitioner is no pass.*argument partitioner",
        ),
        (
            lambda one: to_edge(sums()).transform("narrow_integers"),
            "an object of type str is no pass: give functions of graph modules",
        ),
        (
            lambda one: to_edge(sums()).to_backend([one]),
            "an object of type list is not a partitioner; give one object with a method `part",
        ),
    ],
)
def test_an_argument_of_another_kind_is_explained(call, words):
    with pytest.raises(CompileError, match=words):
        call(AllNodePartitioner("EchoBackend", []))


def test_nodes_have_the_names_that_the_documentation_shows():
    seen = []
    names = ["x", "aten_add_tensor", "aten_relu_default", "aten_add_tensor_1", "output"]
    edge = to_edge_transform_and_lower(sums(), [lambda module: seen.extend(node.name for node in module.graph.nodes)])
    assert seen == names == [node.name for node in to_edge(sums()).exported_program().graph.nodes]
    assert edge.exported_program().graph_signature.user_outputs == ("aten_add_tensor_1",)
    info = get_delegation_info(edge.exported_program().graph_module)
    assert info.rows() == [("aten_add_tensor", 0, 2), ("aten_relu_default", 0, 1), ("Total", 0, 3)]


class Sizes(torch.nn.Module):
    def forward(self, x):
        return x + 1, x.shape[0]


def test_results_that_are_sizes_keep_their_names(tmp_path):
    shapes = ({0: torch.export.Dim("rows", max=8)},)
    edge = to_edge(torch.export.export(Sizes(), (torch.ones(2, 3),), dynamic_shapes=shapes))
    torch.export.save(edge.exported_program(), tmp_path / "edge.pt2")
    assert edge.exported_program().graph_signature.user_outputs == ("aten_add_scalar", "aten_sym_size_int")


class Nothing(AllNodePartitioner):
    def transform_for_pre_decomposition(self, program):
        pass


def test_a_partitioner_must_return_the_program_that_it_transforms():
    with pytest.raises(CompileError, match="Nothing.transform_for_pre_decomposition gave a NoneType; return the exp"):
        to_edge_transform_and_lower(sums(), partitioner=[Nothing("EchoBackend", [])])


def test_memory_of_inputs_is_planned_without_a_config_as_with_one():
    def plan(*config):
        (method,) = to_edge(sums()).transform([]).to_executorch(*config).executorch_program.execution_plan
        return [method.values[index].val.allocation_info for index in (*method.inputs, *method.outputs)]

    assert None not in plan() and plan() == plan(ExecutorchBackendConfig())


def test_a_manager_is_made_of_edge_programs_and_its_copies_have_the_same_defaults():
    manager = EdgeProgramManager(to_edge(sums()).exported_program(), {"limit": 7})
    assert manager.methods == {"forward"} and manager.config_methods == {"limit"}
    assert isinstance(copy.deepcopy(manager), EdgeProgramManager)
    assert torch.equal(edgecore.load(copy.deepcopy(manager).to_executorch().buffer).forward(X), Sums()(X))
