"""ETRecord files: what is written is read, without torch; damage is one sentence."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecore.errors import FormatError
from edgecore.format.etrecord import EtRecordFile, Graph, GraphNode, graph_nodes, read_etrecord, write_etrecord

NODE = """{"name": "%s", "target": "torch.ops.aten.add.Tensor", "inputs": [%s], "outputs": [{"as_tensor": {"name": "a"}}],
"metadata": {"stack_trace": "File \\"m.py\\", line 3, in forward", "debug_handle": "7",
"nn_module_stack": "L__self__,,__main__.M;L__self__a,a,torch.nn.modules.Linear"}}"""
GRAPH = '{"graph_module": {"graph": {"nodes": [%s]}}}'
MODULES = [("L__self__", "", "__main__.M"), ("L__self__a", "a", "torch.nn.modules.Linear")]


def sample() -> EtRecordFile:
    graph = Graph((GRAPH % (NODE % ("add", ""))).encode(), b"weights", b"constants", b"inputs")
    return EtRecordFile(
        {"edge_dialect_exported_program/forward": graph, "exported_program": Graph(b"{}", b"s", b"c", b"i")},
        {"forward": {"0": 7, "1": [7, 8]}},
        {"forward": {"1": {"name": "XnnpackBackend", "delegate_map": {"Add [0]": [8]}}}},
        {"forward": {"1": 1}},
        12345,
        b"outputs",
        b"inputs",
    )


def written(record: EtRecordFile, compress: bool = False) -> bytes:
    buffer = io.BytesIO()
    write_etrecord(record, buffer, compress)
    return buffer.getvalue()


@pytest.mark.parametrize("compress", [False, True])
def test_a_record_is_read_as_it_was_written(compress: bool) -> None:
    content = written(sample(), compress)
    assert read_etrecord(content) == sample()
    assert sample().methods == ["forward"]
    assert content == written(sample(), compress)


def test_a_graph_tells_the_origin_of_its_nodes() -> None:
    trace = 'File "m.py", line 3, in forward'
    add = GraphNode("add", "torch.ops.aten.add.Tensor", 7, trace, MODULES)
    assert graph_nodes(sample().graphs["edge_dialect_exported_program/forward"]) == [add]
    branch = '{"name": "true", "arg": {"as_graph": {"name": "g", "graph": {"nodes": [%s]}}}}' % (NODE % ("inner", ""))
    nodes = graph_nodes(Graph((GRAPH % (NODE % ("cond", branch))).encode()))
    assert [node.name for node in nodes] == ["cond", "inner"]


def test_an_edge_graph_without_a_method_is_that_of_forward() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("ETRECORD_V0", "")
        archive.writestr("edge_dialect_exported_program", "{}")
    assert read_etrecord(buffer.getvalue()).methods == ["forward"]


def test_foreign_and_damaged_files_are_refused_in_one_sentence() -> None:
    with pytest.raises(FormatError, match="not an ETRecord, or a damaged one"):
        read_etrecord(b"12345")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("word/document.xml", "")
    with pytest.raises(FormatError, match="no entry 'ETRECORD_V0'"):
        read_etrecord(buffer.getvalue())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("ETRECORD_V0", "")
        archive.writestr("debug_handle_map", "[" * 100_000)
    with pytest.raises(FormatError, match="'debug_handle_map' is no JSON"):
        read_etrecord(buffer.getvalue())
    record = sample()
    record.delegate_map = {"forward": 3}  # type: ignore[dict-item]
    with pytest.raises(FormatError, match="'delegate_map' does not map methods to instructions"):
        read_etrecord(written(record))
    for call in ([1], {"delegate_map": "a"}, {"delegate_map": {"[1]": 5}}):
        record.delegate_map = {"forward": {"0": call}}
        with pytest.raises(FormatError, match="'delegate_map' does not map operations to lists of handles"):
            read_etrecord(written(record))
    record.delegate_map = {"forward": {"0": {"name": "x", "delegate_map": None}, "1": {}}}
    assert read_etrecord(written(record)).delegate_map == record.delegate_map
    for text in (b"[]", b"{", b'{"graph_module": {"graph": {"nodes": [3]}}}'):
        with pytest.raises(FormatError, match="a graph of the ETRecord is damaged"):
            graph_nodes(Graph(text))
    for inputs in ([], [{}], [{"arg": 3}], [{"arg": {"as_string": 3}}], [{"arg": {"as_string": "{}"}}]):
        call = {"target": "torch.ops.higher_order.executorch_call_delegate", "name": "call", "inputs": inputs}
        with pytest.raises(FormatError, match="a graph of the ETRecord is damaged"):
            graph_nodes(Graph(json.dumps({"graph_module": {"graph": {"nodes": [call]}}}).encode()))


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damage_gives_a_format_error_or_a_record(data: st.DataObject) -> None:
    content = bytearray(written(sample(), data.draw(st.booleans())))
    places = st.integers(0, len(content) - 1)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=5)):
        content[place] = value
    with contextlib.suppress(FormatError):
        for graph in read_etrecord(content).graphs.values():
            graph_nodes(graph)
