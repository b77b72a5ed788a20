"""Read and write ETRecord files: facts from the compiler about a program, for ExecuTorch 1.x's developer tools.

A file is a zip. Graphs are JSON of `torch.export`; weights, constants, inputs and outputs are files of `torch.save`,
whose bytes this module does not interpret. So this module needs no torch.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

from edgecore.errors import FormatError

from .flat import Buffer

IDENTIFIER = "ETRECORD_V0"
EDGE = "edge_dialect_exported_program"
EXPORTED = "exported_program"
_PARTS = ("_state_dict", "_constants", "_example_inputs")
_JSON = ("export_graph_id", "debug_handle_map", "delegate_map", "instruction_id_to_num_outs_map")
_SAVED = ("reference_outputs", "representative_inputs")
_JSON_BYTES = 1 << 30

HandleMap = dict[str, dict[str, Any]]


@dataclass(slots=True)
class Graph:
    """A program of `torch.export`: `program` is its JSON, the other fields are files of `torch.save`."""

    program: bytes
    state_dict: bytes = b""
    constants: bytes = b""
    example_inputs: bytes = b""


@dataclass(slots=True)
class GraphNode:
    """A node of a graph that calls an operator.

    Attributes:
        name: The name in the graph.
        target: The operator, such as `torch.ops.aten.add.Tensor`, as the file spells it.
        handle: The debug handle; 0 without one.
        stack_trace: The lines of code that made the node, as text.
        modules: The modules that contain the node, outermost first: (key, path, class).
    """

    name: str
    target: str
    handle: int
    stack_trace: str
    modules: list[tuple[str, str, str]]


@dataclass(slots=True)
class EtRecordFile:
    """The content of a file.

    Attributes:
        graphs: All graphs by name: `exported_program`, `edge_dialect_exported_program/METHOD`, and others.
        debug_handle_map: Method -> instruction -> a debug handle or a list of handles.
        delegate_map: Method -> instruction -> `{"name": BACKEND, "delegate_map": {ID: [HANDLE, ...]}}`.
        instruction_id_to_num_outs_map: Method -> instruction of a delegate call -> the number of its outputs.
        export_graph_id: The id by which nodes refer to the graph of `exported_program`.
        reference_outputs: The expected outputs for `representative_inputs`, as a file of `torch.save`.
        representative_inputs: The inputs of test runs, as a file of `torch.save`.
    """

    graphs: dict[str, Graph] = field(default_factory=dict)
    debug_handle_map: HandleMap | None = None
    delegate_map: HandleMap | None = None
    instruction_id_to_num_outs_map: HandleMap | None = None
    export_graph_id: int | None = None
    reference_outputs: bytes | None = None
    representative_inputs: bytes | None = None

    @property
    def methods(self) -> list[str]:
        """Names of the methods whose edge-dialect graph the file contains."""
        return [name.partition("/")[2] for name in self.graphs if name.startswith(f"{EDGE}/")]


def write_etrecord(record: EtRecordFile, file: Any, compress: bool = False) -> None:
    """Write an ETRecord file.

    Args:
        record: The content.
        file: A path, or a binary file object.
        compress: True to compress the entries. ExecuTorch writes them uncompressed, but can read both.
    """
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method) as archive:

        def add(name: str, content: bytes | str) -> None:
            entry = zipfile.ZipInfo(name)  # a ZipInfo has a fixed date, so that equal records make equal files
            entry.compress_type = method
            archive.writestr(entry, content)

        add(IDENTIFIER, b"")
        for name, graph in record.graphs.items():
            add(name, graph.program)
            for part in _PARTS:
                add(name + part, getattr(graph, part[1:]))
        for name in _JSON:
            if (value := getattr(record, name)) is not None:
                add(name, json.dumps(value))
        for name in _SAVED:
            if (content := getattr(record, name)) is not None:
                add(name, content)


def read_etrecord(file: str | Buffer | IO[bytes] | Any) -> EtRecordFile:
    """Read an ETRecord: a path, a binary file object, or bytes.

    Raises:
        FormatError: The file is not an ETRecord, or damaged.
        OSError: The file cannot be opened.
    """
    source = io.BytesIO(file) if isinstance(file, (bytes, bytearray, memoryview)) else file
    try:
        with zipfile.ZipFile(source) as archive:
            names = archive.namelist()
            if IDENTIFIER not in names:
                raise FormatError(f"not an ETRecord: the zip has no entry '{IDENTIFIER}'")
            return _read(archive, names)
    except zipfile.BadZipFile as error:
        raise FormatError(f"not an ETRecord, or a damaged one: {error}") from error
    except (zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, struct.error) as error:
        raise FormatError(f"the ETRecord is damaged: {error}") from error


def _read(archive: zipfile.ZipFile, names: list[str]) -> EtRecordFile:
    record = EtRecordFile()
    reserved = {IDENTIFIER, *_JSON, *_SAVED}
    present = set(names)
    for name in names:
        if name in reserved or name.endswith("/"):
            continue
        owner = next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), None)
        if owner in present:
            continue
        parts = [archive.read(name + part) if name + part in present else b"" for part in _PARTS]
        # Older versions store the edge graph of `forward` without the method's name.
        record.graphs[f"{EDGE}/forward" if name == EDGE else name] = Graph(archive.read(name), *parts)
    for name in _JSON:
        if name in present:
            setattr(record, name, _json(archive, name))
    for name in _SAVED:
        if name in present:
            setattr(record, name, archive.read(name))
    for name in _JSON[1:]:
        value = getattr(record, name)
        if value is not None and not (isinstance(value, dict) and all(isinstance(v, dict) for v in value.values())):
            raise FormatError(f"the ETRecord is damaged: '{name}' does not map methods to instructions")
    _check_entries(record.debug_handle_map, _are_handles, "'debug_handle_map' does not map instructions to handles")
    _check_entries(record.delegate_map, _is_delegate, "'delegate_map' does not map operations to lists of handles")
    _check_entries(
        record.instruction_id_to_num_outs_map,
        lambda count: isinstance(count, int),
        "'instruction_id_to_num_outs_map' does not map instructions to numbers",
    )
    return record


def _check_entries(by_method: HandleMap | None, fits: Callable[[Any], bool], reason: str) -> None:
    """Raise `FormatError` if `fits` returns False for an entry of a method."""
    if not all(fits(entry) for entries in (by_method or {}).values() for entry in entries.values()):
        raise FormatError(f"the ETRecord is damaged: {reason}")


def _are_handles(entry: Any) -> bool:
    """Return True for a debug handle, a list of handles, or None (an instruction without a handle)."""
    return entry is None or all(isinstance(handle, int) for handle in (entry if isinstance(entry, list) else [entry]))


def _is_delegate(call: Any) -> bool:
    """Return True for a valid entry of `delegate_map`: a backend's name, and optionally operations with handles."""
    if not isinstance(call, dict) or not isinstance(call.get("name", ""), str):
        return False
    ids = call.get("delegate_map") or {}
    lists = ids.values() if isinstance(ids, dict) else [None]
    return all(isinstance(handles, list) and _are_handles(handles) for handles in lists)


def _json(archive: zipfile.ZipFile, name: str) -> Any:
    if archive.getinfo(name).file_size > _JSON_BYTES:
        raise FormatError(f"the ETRecord is damaged: '{name}' is larger than 1 GiB")
    try:
        return json.loads(archive.read(name))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the ETRecord is damaged: '{name}' is no JSON: {error}") from error


def graph_nodes(graph: Graph) -> list[GraphNode]:
    """Return the nodes that call operators in a graph, including its branches, loops and delegates.

    Raises:
        FormatError: The JSON is damaged.
    """
    try:
        return list(_nodes(json.loads(graph.program)["graph_module"]["graph"]))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise FormatError(f"a graph of the ETRecord is damaged: {error!r}") from error


def _nodes(graph: Any) -> Any:
    for node in graph["nodes"]:
        metadata = node.get("metadata") or {}
        outputs = node.get("outputs") or [{}]
        results = [value for value in outputs[0].values() if isinstance(value, dict)]
        name = node.get("name") or (results[0].get("name", "") if results else "")
        stack = []
        for entry in filter(None, metadata.get("nn_module_stack", "").split(";")):
            key, path, kind = [*_split(entry), "", "", ""][:3]
            stack.append((key, path, kind))
        handle = str(metadata.get("debug_handle", "0"))
        target, trace = node["target"], metadata.get("stack_trace") or ""
        if not all(isinstance(text, str) for text in (name, target, trace)):
            raise TypeError(f"the node {name!r} has no text where a name is needed")
        yield GraphNode(name, target, int(handle) if handle.isdecimal() else 0, trace, stack)
        if target.endswith(".executorch_call_delegate"):
            delegate = json.loads(node["inputs"][0]["arg"]["as_string"])
            yield from _nodes(delegate["original_module"]["graph_module"]["graph"])
        for argument in node.get("inputs", ()):
            inner = argument["arg"].get("as_graph") if isinstance(argument.get("arg"), dict) else None
            if inner:
                yield from _nodes(inner["graph"])


def _split(text: str) -> list[str]:
    """Split a text at commas outside of parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
