"""Origins of events: records with damaged parts, whose zip is sound."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from edgecore.devtools import Inspector, Trace, summarize
from edgecore.errors import FormatError
from edgecore.format.etdump import ETDump, Event, ProfileEvent, RunData, write_etdump
from edgecore.format.etrecord import EDGE, EtRecordFile, Graph, write_etrecord

VALUES: list[Any] = [
    None, True, 3, -1, 1.5, 10**30, "", "a", "forward", [], [1], [[1]], [None], {}, {"a": 1}, {"forward": None},
    {"0": [[1]]},
]  # fmt: skip


def node(name: str, handle: int) -> dict[str, Any]:
    metadata = {"stack_trace": 'File "m.py", line 3, in forward', "debug_handle": str(handle),
                "nn_module_stack": "L__self__,,__main__.M;L__self__a,a,torch.nn.modules.Linear"}  # fmt: skip
    inputs = [{"arg": {"as_tensor": {"name": "x"}}}, {"arg": {"as_graph": {"graph": {"nodes": []}}}}]
    outputs = [{"as_tensor": {"name": name}}]
    return {"name": name, "target": "torch.ops.aten.add.Tensor", "inputs": inputs, "outputs": outputs,
            "metadata": metadata}  # fmt: skip


PARTS: list[Any] = [
    {"graph_module": {"graph": {"nodes": [node("a", 1), node("b", 2)]}}},
    {"forward": {"0": 1, "1": [1, 2], "2": None}},
    {"forward": {"1": {"name": "XnnpackBackend", "delegate_map": {"0": [1], "[3]": [2]}}}},
    {"forward": {"1": 2}},
    1,
]
"""The graph, the maps and the id of the exported graph of a record."""


def dump() -> bytes:
    events = [
        ProfileEvent("Method::execute", 0, -1, start_time=1, end_time=9),
        ProfileEvent("native_call_add.out", 0, 0, start_time=1, end_time=3),
        ProfileEvent("native_call_relu.out", 0, 2, start_time=3, end_time=4),
        ProfileEvent("DELEGATE_CALL", 0, 1, start_time=4, end_time=9),
        ProfileEvent(None, 0, 1, 0, start_time=4, end_time=5),
        ProfileEvent(None, 0, 1, -1, "Conv [3]", start_time=5, end_time=6),
    ]
    return write_etdump(ETDump(0, [RunData("Execute", events=[Event(event) for event in events])]))


def record(parts: list[Any]) -> bytes:
    file = io.BytesIO()
    write_etrecord(EtRecordFile({f"{EDGE}/forward": Graph(json.dumps(parts[0]).encode())}, *parts[1:]), file)
    return file.getvalue()


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the keys that lead to each part of a value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from paths(one, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def read(content: bytes) -> set[str]:
    """Read all that a record says about the events; returns the operators."""
    trace = Trace.read(dump(), etrecord=content)
    summarize(trace, "line")
    inspector = Inspector(etdump_data=dump(), etrecord=content)
    assert len(inspector.rows()) == 6
    inspector.find_total_for_module("a")
    return {origin.operator for event in trace.runs[0].events for origin in event.origins}


def test_a_sound_record_gives_the_origins() -> None:
    assert read(record(PARTS)) == {"aten.add.Tensor"}


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damage_of_a_record_gives_a_format_error_or_origins(data: st.DataObject) -> None:
    parts = [*PARTS]
    for index in data.draw(st.lists(st.integers(0, len(parts) - 1), min_size=1, max_size=3)):
        path = data.draw(st.sampled_from(list(paths(parts[index]))))
        parts[index] = replaced(parts[index], path, data.draw(st.sampled_from(VALUES)))
    with contextlib.suppress(FormatError):
        read(record(parts))
