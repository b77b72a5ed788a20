"""The base class of partitioners, named data and the functions that list delegates, as scripts use them."""

from __future__ import annotations

import pytest
import torch
from fake_backends import echo_backend  # noqa: F401

from edgecore import format as fmt
from edgecore.errors import CompileError, FallbackWarning
from edgecore.executorch.exir.backend import BackendDetails, NamedDataStore, preprocess_result, tag_constant_data
from edgecore.executorch.exir.partitioners import (
    AllNodePartitioner,
    Partitioner,
    get_cond_while_submodules,
    get_control_flow_submodules,
    get_delegates,
    get_lowered_backend_modules,
    get_lowered_submodules,
    get_non_lowered_nodes,
)
from edgecore.executorch.exir.scripts.lowering import to_edge_transform_and_lower
from edgecore.partition import DelegationSpec, PartitionResult
from edgecore.pipeline import to_edge
from edgecore.plugin import CompileSpec, registry

aten = torch.ops.aten
X = torch.ones(3)


@pytest.fixture(autouse=True)
def script_backend(monkeypatch):
    """A backend that a script defines, in this file's tests only: a class registers itself."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    monkeypatch.setattr(registry, "_loaded", dict(registry._loaded))

    class ScriptBackend(BackendDetails):
        @staticmethod
        def preprocess(edge_program, compile_specs):
            store = NamedDataStore()
            store.add_named_data("weight", torch.arange(3.0), alignment=32)
            store.add_named_data("weight", torch.arange(3.0))
            added = {"nodes": len(edge_program.graph.nodes)}
            return preprocess_result(b"blob", {}, store.get_named_data_store_output(), _delegate_info_meta=added)

    class AllAtOnceBackend(BackendDetails):
        @staticmethod
        def preprocess(edge_program, compile_specs):
            raise AssertionError("not called")

        @staticmethod
        def preprocess_multimethod(edge_programs, compile_specs):
            if AllAtOnceBackend.drops_results and "forward" not in edge_programs:
                return {}
            seen = {name: [len(one.graph.nodes) for one in of_method] for name, of_method in edge_programs.items()}
            for graph in (one.graph for of_method in edge_programs.values() for one in of_method):
                graph.call_function(torch.sin, (next(iter(graph.nodes)),))  # as passes of backends edit programs
            return {
                name: [
                    preprocess_result(f"{seen} {[spec.key for spec in one]}".encode()) for one in compile_specs[name]
                ]
                for name in edge_programs
            }

    AllAtOnceBackend.drops_results = False
    return AllAtOnceBackend


class Sines(Partitioner):
    """Tags sines, with compile specs of the settings."""

    def partition(self, exported_program):
        for node in exported_program.graph.nodes:
            if node.target is aten.sin.default:
                node.meta["delegation_tag"] = "sines"
        specs = tuple(CompileSpec(key, value) for key, value in self.spec.items())
        return PartitionResult(exported_program, {"sines": DelegationSpec("ScriptBackend", specs)})


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.cos(torch.sin(x))


def lowered(partitioner):
    return to_edge(torch.export.export(Model(), (X,))).to_backend(partitioner)


class Everything(AllNodePartitioner):
    """Gives all operators to the backend that compiles all partitions at once."""

    def __init__(self, *keys):
        super().__init__("AllAtOnceBackend", [CompileSpec(key, b"") for key in keys])


def methods():
    exported = torch.export.export(Model(), (X,))
    return to_edge({"one": exported, "two": exported})


def blobs(edge, *names):
    return [get_lowered_backend_modules(edge.exported_program(name).graph_module)[0].processed_bytes for name in names]


def test_a_backend_of_a_script_may_compile_all_methods_at_once():
    edge = methods().to_backend({"one": Everything("a"), "two": Everything("b")})
    assert blobs(edge, "one", "two") == [b"{'one': [4], 'two': [4]} ['a']", b"{'one': [4], 'two': [4]} ['b']"]
    assert blobs(methods().to_backend({"two": Everything()}), "two") == [b"{'forward': [4]} []"]


def test_a_backend_that_forgets_a_partition_is_named(script_backend):
    script_backend.drops_results = True
    with pytest.warns(FallbackWarning, match=r"AllAtOnceBackend\.preprocess_multimethod gave 0 results for the 1 part"):
        methods().to_backend(Everything())


def test_a_backend_that_compiles_partitions_one_by_one_may_be_asked_for_all_of_them():
    class Counts(BackendDetails):
        @staticmethod
        def preprocess(edge_program, compile_specs):
            return preprocess_result(f"{edge_program} {compile_specs}".encode())

    results = Counts.preprocess_multimethod(edge_programs={"one": [1, 2]}, compile_specs={"one": [[], [3]]})
    assert [result.blob for result in results["one"]] == [b"1 []", b"2 [3]"]


def test_what_a_backend_adds_for_tools_is_in_the_lowered_module():
    (module,) = get_lowered_backend_modules(lowered(Sines()).exported_program().graph_module)
    assert module.meta == {"debug_handle_map": {}, "_delegate_info_meta": {"nodes": 3}}


def test_constants_get_the_first_tag_of_their_users():
    program = torch.export.export(torch.nn.Linear(4, 4).eval(), (torch.ones(1, 4),))
    (node,) = [node for node in program.graph.nodes if node.op == "call_function"]
    node.meta["delegation_tag"] = "part"
    tag_constant_data(program)
    tags = {node.name: node.meta.get("delegation_tag") for node in program.graph.find_nodes(op="placeholder")}
    assert tags == {"p_weight": "part", "p_bias": "part", "input": None}


def test_a_partitioner_has_the_settings_that_it_was_made_with():
    partitioner = Sines({"path": b"/a"})
    (module,) = get_lowered_backend_modules(lowered(partitioner).exported_program().graph_module)
    assert module.compile_specs == (CompileSpec("path", b"/a"),)
    assert Sines().spec == {}
    with pytest.raises(TypeError):
        partitioner.spec["path"] = b"/b"


def test_delegates_and_the_other_calls_of_a_graph_are_listed():
    graph = lowered(Sines()).exported_program().graph
    assert [node.op for node in get_delegates(graph)] == ["get_attr"]
    assert [node.target for node in get_non_lowered_nodes(graph)] == [aten.cos.default]


def test_the_partitioner_of_all_nodes_leaves_nothing_outside():
    graph = lowered(AllNodePartitioner("ScriptBackend", [])).exported_program().graph
    assert len(get_delegates(graph)) == 1 and not get_non_lowered_nodes(graph)


def test_named_data_of_a_script_are_in_the_file_once():
    data = fmt.read_pte(lowered(Sines()).to_executorch().buffer).named_data
    assert bytes(data["weight"].data) == torch.arange(3.0).numpy().tobytes() and data["weight"].alignment % 32 == 0


def test_named_data_with_other_content_or_for_another_file_are_refused():
    store = NamedDataStore()
    store.add_named_data("key", b"one")
    with pytest.raises(ValueError, match="the key 'key' has other data already"):
        store.add_named_data("key", b"two")
    with pytest.raises(CompileError, match="external_constants"):
        store.add_named_data("other", b"one", external_tag="weights")


def test_data_of_two_alignments_is_aligned_for_both():
    store = NamedDataStore()
    store.add_named_data("key", b"one", alignment=4)
    store.add_named_data("key", b"one", alignment=6)
    assert store.get_named_data_store_output()["key"].alignment == 12


class Products(Partitioner):
    """Tags products, each with a number that starts at 0 in every graph."""

    def tag(self, graph_module):
        products = [node for node in graph_module.graph.nodes if node.target is torch.ops.aten.mul.Tensor]
        for number, node in enumerate(products):
            node.meta["delegation_tag"] = f"tag{number}"
        for _, body, _ in get_control_flow_submodules(graph_module):
            self.tag(body)

    def partition(self, exported_program):
        self.tag(exported_program.graph_module)
        tags = {f"tag{number}": DelegationSpec("EchoBackend", ()) for number in range(3)}
        return PartitionResult(exported_program, tags)


class Branches(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: (x * x).sin() * x, lambda x: x + 1, (x * x,))


def test_a_partitioner_may_tag_branches_with_the_method(echo_backend):  # noqa: F811
    edge = to_edge(torch.export.export(Branches(), (torch.ones(3),))).to_backend(Products())
    graph_module = edge.exported_program().graph_module
    assert len(get_lowered_submodules(graph_module)) == 1
    (_, true, node), (_, false, _) = get_control_flow_submodules(graph_module)
    assert node.target is torch.ops.higher_order.cond
    assert [len(get_lowered_submodules(body)) for body in (true, false)] == [2, 0]
    assert get_cond_while_submodules(graph_module) == get_control_flow_submodules(graph_module)
    x = torch.rand(3)
    torch.testing.assert_close(edge.exported_program().module()(x), Branches()(x))


def test_a_partitioner_without_a_mapping_of_tags_is_explained():
    class Forgets(Partitioner):
        def partition(self, exported_program):
            return PartitionResult(exported_program, None)

    with pytest.warns(
        FallbackWarning, match="partition_tags is a NoneType, not a mapping from tags to DelegationSpecs"
    ):
        assert get_delegates(lowered(Forgets()).exported_program().graph) == []


def test_partitioners_transform_exported_programs_in_order_before_operators_are_decomposed():
    seen = []

    class Transforms(Partitioner):
        def __init__(self, target):
            super().__init__()
            self.target = target

        def transform_for_pre_decomposition(self, exported_program):
            (node,) = (one for one in exported_program.graph.nodes if one.op == "call_function")
            seen.append(node.target)
            node.target = self.target
            return exported_program

        def partition(self, exported_program):
            return PartitionResult(exported_program, {})

    class Activation(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.hardswish(x)

    exported = torch.export.export(Activation(), (X,))
    chosen = [Transforms(aten.silu.default), Transforms(aten.relu.default)]
    for programs, partitioner in ((exported, chosen), ({"one": exported, "two": exported}, {"two": chosen})):
        edge = to_edge_transform_and_lower(programs, partitioner=partitioner)
        calls = [
            node.target for node in edge.exported_program(max(edge.methods)).graph.nodes if node.op != "placeholder"
        ]
        assert calls[0] is aten.relu.default and seen == [aten.hardswish.default, aten.silu.default]
        seen.clear()
    assert aten.relu.default not in [node.target for node in edge.exported_program("one").graph.nodes]
    assert aten.hardswish.default in [node.target for node in exported.graph.nodes]
