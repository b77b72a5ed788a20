"""ETRecords of edgecore's programs, which executorch's Inspector reads beside edgecore's traces."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from functorch.experimental import control_flow
from interop.peer import parse_with_executorch
from small_models import Layers

import edgecore
from edgecore.devtools import ETRecord, Inspector, Trace, generate_etrecord, parse_etrecord, summarize
from edgecore.errors import CompileError
from edgecore.format.etdump import ETDump, RunData, write_etdump
from edgecore.format.etrecord import graph_nodes, read_etrecord
from edgecore.ir.delegate import delegates

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
X = torch.linspace(-1, 1, 16).reshape(2, 8)


def finished(partitioner: list[Any]) -> Any:
    exported = torch.export.export(Layers().eval(), (X,))
    edge = edgecore.to_edge_transform_and_lower(exported, partitioner=partitioner, generate_etrecord=True)
    return edge.to_executorch()


def traced(program: Any, folder: Path) -> tuple[Path, Path]:
    program.save(folder / "model.pte")
    program.get_etrecord().save(folder / "model.etrecord")
    loaded = edgecore.load(folder / "model.pte", trace=True)
    for _ in range(2):
        loaded.forward(X)
    loaded.write_trace(folder / "runs.etdp")
    return folder / "runs.etdp", folder / "model.etrecord"


@pytest.mark.parametrize("backend", ["kernels", "xnnpack"])
def test_executorch_names_the_events_of_a_trace_by_our_record(tmp_path: Path, backend: str) -> None:
    partitioner = []
    if backend == "xnnpack":
        partitioner = [pytest.importorskip("edgecore_xnnpack.partitioner").XnnpackPartitioner()]
    trace, record = traced(finished(partitioner), tmp_path)
    peer = pytest.importorskip("executorch.devtools").Inspector(etdump_path=str(trace), etrecord=str(record))
    ours = Inspector(etdump_path=str(trace), etrecord=str(record))
    assert len(peer.event_blocks) == len(ours.event_blocks)
    found = {}
    for block, theirs in zip(ours.event_blocks, peer.event_blocks, strict=True):
        for event, expected in zip(block.events, theirs.events, strict=True):
            assert event.op_types == expected.op_types
            assert event.module_hierarchy == expected.module_hierarchy
            assert event.stack_traces == expected.stack_traces
            assert event.delegate_backend_name == expected.delegate_backend_name
            if event.name not in ("DELEGATE_CALL", "Method::execute"):
                found[event.name] = tuple(event.op_types)
    fused = [("linear.default", "relu.default"), ("linear.default",)] if partitioner else []
    assert {("gelu.default",), ("add.Tensor",), *fused} <= set(found.values())
    assert ours.find_total_for_module("block.1") == pytest.approx(peer.find_total_for_module("block.1"))
    labels = {row.label for row in summarize(Trace.read(trace, etrecord=record), "module").rows}
    assert {"first", "block.0", "block.1"} <= labels


def test_a_record_computes_what_the_model_does(tmp_path: Path) -> None:
    """executorch loads the graphs of the record and runs them."""
    finished([]).get_etrecord().save(tmp_path / "model.etrecord", weights=True)
    record = parse_with_executorch(tmp_path / "model.etrecord")
    expected = Layers().eval()(X)
    for program in (record.edge_dialect_program, record.exported_program):
        torch.testing.assert_close(program.module()(X), expected)


def test_a_record_of_a_model_whose_values_are_named_as_new_keys_can_be_loaded(tmp_path: Path) -> None:
    class Named(torch.nn.Module):
        def forward(self, kind: torch.Tensor, guards_code: torch.Tensor) -> torch.Tensor:
            return torch.relu(kind) + guards_code

    exported = torch.export.export(Named(), (X, X))
    record = edgecore.to_edge(exported, generate_etrecord=True).to_executorch().get_etrecord()
    record.save(tmp_path / "model.etrecord")
    trace = write_etdump(ETDump(0, [RunData("Execute")]))
    program = Inspector(etdump_data=trace, etrecord=tmp_path / "model.etrecord").get_exported_program()
    torch.testing.assert_close(program.module()(X, X), torch.relu(X) + X)
    program = parse_with_executorch(tmp_path / "model.etrecord").edge_dialect_program
    torch.testing.assert_close(program.module()(X, X), torch.relu(X) + X)


def test_a_record_of_a_model_with_infinity_can_be_run(tmp_path: Path) -> None:
    class Masked(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x == float("-inf")) | (x > float("inf"))

    x = torch.tensor([0.0, float("-inf")])
    exported = torch.export.export(Masked(), (x,))
    edgecore.to_edge(exported, generate_etrecord=True).to_executorch().get_etrecord().save(tmp_path / "m.etrecord")
    programs = [parse_etrecord(tmp_path / "m.etrecord").edge_dialect_program]
    programs.append(parse_with_executorch(tmp_path / "m.etrecord").edge_dialect_program)
    for program in programs:
        torch.testing.assert_close(program.module()(x), torch.tensor([False, True]))


def test_a_record_without_weights_is_small_and_still_names_the_events(tmp_path: Path) -> None:
    record = finished([]).get_etrecord()
    sizes = {}
    for weights in (None, True):
        record.save(tmp_path / "model.etrecord", weights=weights)
        sizes[weights] = (tmp_path / "model.etrecord").stat().st_size
        read = parse_etrecord(tmp_path / "model.etrecord")
        tensors = [*read.edge_dialect_program.state_dict.values(), *read.exported_program.state_dict.values()]
        assert {tensor.is_meta for tensor in tensors} == {not weights}
        assert [tuple(tensor.shape) for tensor in tensors] == [(8, 8), (8,)] * 4
        read.save(tmp_path / "again.etrecord", weights=weights)
        again, first = (read_etrecord(tmp_path / f"{name}.etrecord") for name in ("again", "model"))
        assert again.debug_handle_map == first.debug_handle_map
        assert [graph_nodes(graph) for graph in again.graphs.values()] == [
            graph_nodes(first.graphs[name]) for name in again.graphs
        ]
    assert sizes[None] < sizes[True]
    record.update_representative_inputs([X])
    assert record.content() == record.content(weights=True)
    with pytest.raises(ValueError, match="the ETRecord has no weights to run the graph with"):
        Inspector(etdump_data=write_etdump(ETDump()), etrecord=record.content(weights=False)).calculate_numeric_gap(
            "MSE"
        )


def test_compile_and_the_function_write_the_same_record(tmp_path: Path) -> None:
    exported = torch.export.export(Layers().eval(), (X,))
    compiled = edgecore.compile(exported, backends=[], generate_etrecord=True)
    compiled.get_etrecord().save(tmp_path / "compiled.etrecord")
    edge = edgecore.to_edge(exported)
    before = copy.deepcopy(edge)
    finished = edge.to_executorch()
    generate_etrecord(tmp_path / "function.etrecord", before, finished, exported)
    first, second = (read_etrecord(tmp_path / f"{name}.etrecord") for name in ("compiled", "function"))
    for name, graph in first.graphs.items():
        assert graph_nodes(graph) == graph_nodes(second.graphs[name])
    assert first.debug_handle_map == second.debug_handle_map
    suite = edgecore.MethodTestSuite("forward", [edgecore.MethodTestCase((X,), X)])
    record = ETRecord(exported, before)
    record.add_executorch_program(edgecore.BundledProgram(finished, [suite]))
    assert record.content().representative_inputs is not None
    for add in (record.add_exported_program, record.add_edge_dialect_program, record.add_executorch_program):
        with pytest.raises(RuntimeError, match="already"):
            add(exported)
    assert record.copy()._maps is None


def test_executorch_compares_with_the_exported_program_where_it_is_the_edge_program(tmp_path: Path) -> None:
    """A node that a pass has not changed names the node of the exported program by `from_node`."""
    pytest.importorskip("executorch.devtools")
    from executorch.devtools.inspector._inspector_utils import propagate_back_debug_handle

    finished([]).get_etrecord().save(tmp_path / "model.etrecord")
    record = parse_with_executorch(tmp_path / "model.etrecord")
    given = record.exported_program, record.export_graph_id, record.edge_dialect_program
    assert propagate_back_debug_handle(*given)
    handles = [node.meta["debug_handle"] for node in record.exported_program.graph.nodes if node.op == "call_function"]
    assert handles == [1, 2, 3, 4, 5]


def test_inputs_outputs_and_other_programs_are_kept(tmp_path: Path) -> None:
    record = finished([]).get_etrecord()
    record.update_representative_inputs([X])
    record.update_reference_outputs([[X + 1]])
    record.add_extra_export_modules({"again": torch.export.export(Layers().eval(), (X,))})
    with pytest.raises(ValueError, match="is reserved"):
        record.add_extra_export_modules({"exported_program": None})
    record.save(tmp_path / "model.etrecord")
    content = read_etrecord(tmp_path / "model.etrecord")
    assert set(content.graphs) == {"edge_dialect_exported_program/forward", "exported_program", "again/forward"}
    assert content.debug_handle_map == {"forward": {str(index): index + 1 for index in range(5)}}
    assert content.representative_inputs is not None
    assert content.reference_outputs is not None


def test_a_record_that_nobody_asked_for_is_an_error() -> None:
    exported = torch.export.export(Layers().eval(), (X,))
    edge = edgecore.to_edge(exported)
    with pytest.raises(CompileError, match="there is no ETRecord; pass generate_etrecord=True"):
        edge.get_etrecord()
    asked = edgecore.to_edge(exported, generate_etrecord=True)
    with pytest.raises(CompileError, match="an ETRecord needs the edge programs and the finished one"):
        asked.get_etrecord().save("never.etrecord")
    assert asked.to_executorch().get_etrecord().content().methods == ["forward"]


def test_other_programs_of_the_function_and_programs_by_name_are_in_the_record(tmp_path: Path) -> None:
    exported = torch.export.export(Layers().eval(), (X,))
    edge = edgecore.to_edge(exported)
    before = copy.deepcopy(edge)
    program = edge.to_executorch()
    extra = {"aten": exported, "edge": before}
    generate_etrecord(tmp_path / "m.etrecord", before, program, extra_recorded_export_modules=extra, weights=True)
    record = ETRecord()
    record.add_exported_program(exported_program=None)
    record.add_edge_dialect_program(edge_dialect_program=before)
    record.add_executorch_program(program)
    record.add_extra_export_modules(extra)
    read = read_etrecord(tmp_path / "m.etrecord")
    assert [*read.graphs] == ["edge_dialect_exported_program/forward", "aten/forward", "edge/forward"]
    for name, graph in record.content(weights=True).graphs.items():
        assert graph_nodes(graph) == graph_nodes(read.graphs[name])
    for program in parse_etrecord(tmp_path / "m.etrecord").graph_map.values():
        torch.testing.assert_close(program.module()(X), Layers().eval()(X))


class Sign(torch.nn.Module):
    """A condition and a loop, whose results are lists of one tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda x: x.tanh() + x, lambda x: x * x, (torch.relu(x),))
        return torch.sigmoid(control_flow.map(lambda row: row + row, y))


@pytest.mark.parametrize("writer", ["edgecore", "executorch"])
def test_branches_and_loops_of_a_record_compute_what_they_did_for_either_reader(tmp_path: Path, writer: str) -> None:
    peer = pytest.importorskip("executorch.devtools.etrecord")
    lower: Any = edgecore.to_edge if writer == "edgecore" else pytest.importorskip("executorch.exir").to_edge
    exported = torch.export.export(Sign().eval(), (X,))
    edge = lower(exported)
    path, before = str(tmp_path / "m.etrecord"), copy.deepcopy(edge)
    if writer == "edgecore":
        generate_etrecord(path, before, edge.to_executorch(), weights=True)
    else:
        peer.generate_etrecord(path, before, edge.to_executorch())
    for read in (parse_etrecord, peer.parse_etrecord):
        program = read(path).edge_dialect_program
        for x in (X + 1, X - 1):
            torch.testing.assert_close(program.module()(x), exported.module()(x))


class Middle(torch.nn.Module):
    """Two delegates around an operator that the backend does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Layers()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(torch.sort(self.network.first(x), 1).values)


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A record of the copy of a lowered manager, with the copy and the finished program, as the documentation writes it."""
    partitioner = pytest.importorskip("edgecore_xnnpack.partitioner").XnnpackPartitioner()
    edge = edgecore.to_edge_transform_and_lower(torch.export.export(Middle().eval(), (X,)), partitioner=[partitioner])
    before = copy.deepcopy(edge)
    program = edge.to_executorch()
    path = tmp_path_factory.mktemp("lowered") / "model.etrecord"
    generate_etrecord(path, before, program, weights=True)
    return path, before.exported_program(), program


def test_a_record_of_a_copy_of_a_lowered_manager_has_its_delegates_with_their_data(lowered: Any) -> None:
    path, before, _ = lowered
    theirs, ours = parse_with_executorch(path).edge_dialect_program, parse_etrecord(path).edge_dialect_program
    expected = Middle().eval()(X)
    for program in (theirs, ours):
        torch.testing.assert_close(program.module()(X), expected)
    modules = [child for child in theirs.graph_module.children() if hasattr(child, "processed_bytes")]
    assert len(modules) == len(delegates(before)) == 2
    for module, (_, read), (_, own) in zip(modules, delegates(ours), delegates(before), strict=True):
        store = module.named_data_store_output
        data = {key: bytes(store.buffers[entry.buffer_index]) for key, entry in store.pte_data.items()}
        assert data == {key: bytes(blob.data) for key, blob in own.named_data.items()} != {}
        assert data == {key: bytes(blob.data) for key, blob in read.named_data.items()}
        assert {blob.alignment for blob in read.named_data.values()} == {
            entry.alignment for entry in store.pte_data.values()
        }
        assert module.backend_id == read.backend_id == "XnnpackBackend"
        assert module.processed_bytes == bytes(read.processed_bytes) == bytes(own.processed_bytes)
        names = [
            [node.target for node in lowered.original_module.graph.nodes if node.op == "call_function"]
            for lowered in (module, read, own)
        ]
        assert len(names[0]) == len(names[1]) > 0 and names[1] == names[2]


class Branches(torch.nn.Module):
    """Delegates in both branches of a condition, whose submodules have equal names, and one with several results."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
        y = torch.cond(
            x.sum() > 0, lambda x: torch.tanh(self.first(x) + x), lambda x: self.second(x) * x, (torch.relu(x),)
        )
        return torch.sigmoid(y) * 2, y + x, x.shape[0]


def test_delegates_in_branches_and_with_several_results_are_read_again(tmp_path: Path) -> None:
    partitioner = pytest.importorskip("edgecore_xnnpack.partitioner").XnnpackPartitioner()
    shapes = ({0: torch.export.Dim("rows", min=2, max=8)},)
    exported = torch.export.export(Branches().eval(), (X,), dynamic_shapes=shapes)
    edge = edgecore.to_edge_transform_and_lower(exported, partitioner=[partitioner])
    before = copy.deepcopy(edge)
    assert len(delegates(before.exported_program())) >= 4
    generate_etrecord(tmp_path / "m.etrecord", before, edge.to_executorch(), weights=True)
    peer = pytest.importorskip("executorch.devtools.etrecord").parse_etrecord
    for read in (parse_etrecord, peer):
        program = read(str(tmp_path / "m.etrecord")).edge_dialect_program
        for x in (X + 1, X - 1, torch.randn(5, 8)):
            torch.testing.assert_close(program.module()(x), exported.module()(x))


def test_the_inspector_finds_operators_and_values_inside_the_delegates_of_a_record(
    lowered: Any, tmp_path: Path
) -> None:
    path, _, program = lowered
    program.save(tmp_path / "model.pte")
    loaded = edgecore.load(tmp_path / "model.pte", trace=True, debug="values")
    loaded.forward(X)
    loaded.write_trace(tmp_path / "runs.etdp", tmp_path / "values.bin")
    files = {"etdump_path": str(tmp_path / "runs.etdp"), "debug_buffer_path": str(tmp_path / "values.bin")}
    record = parse_etrecord(path)
    record.update_representative_inputs([X])
    record.save(tmp_path / "again.etrecord")
    inspector = Inspector(**files, etrecord=str(tmp_path / "again.etrecord"))
    events = [event for block in inspector.event_blocks for event in block.events if event.name != "DELEGATE_CALL"]
    operators = [name for event in events for name in event.op_types]
    assert operators.count("linear.default") == 3 and {"topk.default", "gelu.default"} <= {*operators}
    assert inspector.find_total_for_module("network.block.1") > 0
    gaps = inspector.calculate_numeric_gap("MSE")
    assert len(gaps) > 4 and all(gap[0] < 1e-9 for gap in gaps["gap"])
    labels = {row.label for row in summarize(Trace.read(tmp_path / "runs.etdp", etrecord=path), "module").rows}
    assert {"network.first", "network.block.0", "network.block.1"} <= labels
    peer = pytest.importorskip("executorch.devtools").Inspector(**files, etrecord=str(tmp_path / "again.etrecord"))
    for block, theirs in zip(inspector.event_blocks, peer.event_blocks, strict=True):
        assert [event.debug_handles for event in block.events] == [event.debug_handles for event in theirs.events]
    assert len(peer.calculate_numeric_gap("MSE")) <= len(gaps)  # it has no row for what delegates compute
