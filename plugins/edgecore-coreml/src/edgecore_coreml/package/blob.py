"""Write and read blobs. A blob is a folder as one byte string, in the format of ExecuTorch's Core ML delegate.

The blob has the contents of all files, then a JSON object whose bytes are in reverse order, so that a reader starts at
the end of the blob:

    {"nodes": [{"name", "kind", "dataRegion": {"offset", "size"}, "children": {name: index of a node}}, ...]}

The `kind` is 0 for a file and 1 for a folder. The last node is the folder itself; ExecuTorch calls it `lowered_module`.

If several methods share a model, its folder is stored once, as named data of the `.pte`. The blob of each method then
refers to the named data: `CMJR` and a JSON object `{"version": 1, "key", "functionName"}`. This module imports neither
torch nor coremltools.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from edgecore.errors import FormatError

MODEL = "model.mlpackage"
COMPILED = "model.mlmodelc"
METADATA = "metadata.json"

_FILE, _FOLDER = 0, 1
_ROOT = "lowered_module"
_MAX_TEXT = 1 << 20
"""Maximum size of a JSON text in bytes. A model package has fewer than ten files."""
_MAX_DEPTH = 16
"""Maximum depth of nested folders."""
_REFERENCE = b"CMJR"
"""First bytes of a blob that refers to a folder in the named data."""
_VERSION = 1

Files = dict[str, bytes]
"""The files of a folder: maps the path of each file, with `/`, to its content."""


def write_blob(files: Mapping[str, bytes]) -> bytes:
    """Return the blob of a folder. Entries are sorted by name, so equal folders give equal blobs.

    Args:
        files: Maps the path of each file, with `/`, to its content.

    Raises:
        ValueError: A path is absolute, leads out of the folder, or is both a file and a folder.
    """
    tree: dict[str, Any] = {}
    for path, content in files.items():
        *folders, name = path.split("/")
        if not all(map(_is_name, (*folders, name))):
            raise ValueError(f"{path!r} is no path inside a folder")
        inner = tree
        for folder in folders:
            inner = inner.setdefault(folder, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{folder!r} in {path!r} is a file and a folder")
        if inner.setdefault(name, content) is not content:
            raise ValueError(f"{path!r} is a file and a folder")
    contents, nodes = list[bytes](), list[dict[str, Any]]()
    _append(_ROOT, tree, contents, nodes, 0)
    text = json.dumps({"nodes": nodes}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return b"".join((*contents, text.encode()[::-1]))


def write_reference(key: str, function: str) -> bytes:
    """Return the blob of a method that calls `function` of a shared model, whose folder is the named data `key`."""
    return _REFERENCE + json.dumps({"version": _VERSION, "key": key, "functionName": function}).encode()


def resolve(blob: bytes | memoryview, named_data: Mapping[str, Any]) -> tuple[bytes | memoryview, str]:
    """Return the packed folder of a blob, and the name of the model's function to call; "" if it has only one.

    Args:
        blob: A packed folder, or a reference to a packed folder in the named data.
        named_data: Maps each key of the file's named data to an object with the bytes as `data`.

    Raises:
        FormatError: The reference is damaged, or the file has no such named data.
    """
    if bytes(blob[: len(_REFERENCE)]) != _REFERENCE:
        return blob, ""
    try:
        reference = parse(bytes(blob[len(_REFERENCE) :]))
        version, key, function = (reference[name] for name in ("version", "key", "functionName"))
    except (ValueError, RecursionError, TypeError, KeyError):
        raise FormatError("the blob is damaged: it is no reference to a model") from None
    if version != _VERSION:
        raise FormatError(f"the blob refers to its model in an unknown way, version {version!r}")
    if not isinstance(key, str) or not isinstance(function, str) or key not in named_data:
        raise FormatError(f"the file has no named data {key!r}, which has the model of a blob")
    return named_data[key].data, function


def read_blob(blob: bytes | memoryview, named_data: Mapping[str, Any]) -> Files:
    """Return the files of a blob's folder; empty folders are omitted.

    Args:
        blob: A packed folder, or a reference to a packed folder in the named data.
        named_data: Maps each key of the file's named data to an object with the bytes as `data`.

    Raises:
        FormatError: The blob is damaged, or is not the blob of a Core ML delegate.
    """
    blob, _ = resolve(blob, named_data)
    nodes, data = _nodes(blob)
    files: Files = {}
    used: set[int] = set()
    _collect(nodes, len(nodes) - 1, "", data, files, used)
    return files


def parse(text: bytes) -> Any:
    """Parse a JSON text of a blob.

    Raises:
        ValueError: The text is not JSON, is larger than 1 MiB, or repeats a key in an object: readers could use
            different values of that key.
        RecursionError: The text is nested too deeply.
    """
    if len(text) > _MAX_TEXT:
        raise ValueError(f"JSON of {len(text)} bytes")
    return json.loads(text.decode(), object_pairs_hook=_object)


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(members)
    if len(content) < len(members):
        raise ValueError("an object has the same key twice")
    return content


def _is_name(name: str) -> bool:
    return name not in ("", ".", "..") and not set(name) & set("/\\\0")


def _append(name: str, content: Any, contents: list[bytes], nodes: list[dict[str, Any]], start: int) -> int:
    """Append the node and bytes of a file; for a folder, append its entries, then its node.

    Returns:
        The offset at which the bytes of the file or folder end; they begin at `start`. The last of `nodes` is the file
        or folder itself.
    """
    children, end = dict[str, int](), start
    region = {"offset": 0, "size": 0}
    if isinstance(content, dict):
        for child in sorted(content):
            end = _append(child, content[child], contents, nodes, end)
            children[child] = len(nodes) - 1
    else:
        region = {"offset": start, "size": len(content)}
        contents.append(content)
        end += len(content)
    kind = _FOLDER if isinstance(content, dict) else _FILE
    nodes.append({"children": children, "dataRegion": region, "kind": kind, "name": name})
    return end


def _nodes(blob: bytes | memoryview) -> tuple[Sequence[Any], memoryview]:
    """Return the nodes of a blob's file tree, and the bytes of the files, which precede the tree."""
    end = bytes(blob[-_MAX_TEXT:])[::-1]
    try:
        # Where the JSON text ends is not known yet, and any bytes may follow it: decode as Latin-1, which accepts all
        # bytes.
        _, size = json.JSONDecoder().raw_decode(end.decode("latin-1"))
        tree = parse(end[:size])
    except (ValueError, RecursionError):
        raise FormatError("the blob was not written for a Core ML delegate: no tree of files is at its end") from None
    nodes = tree.get("nodes") if isinstance(tree, dict) else None
    if not isinstance(nodes, list) or not nodes:
        raise FormatError("the blob is damaged: its tree of files has no nodes")
    return nodes, memoryview(blob)[: len(blob) - size]


def _collect(
    nodes: Sequence[Any], index: int, path: str, data: memoryview, files: Files, used: set[int], depth: int = 0
) -> None:
    """Add the file of node `index`, or all files in its folder, to `files`; refuse a node that was already reached."""
    if depth > _MAX_DEPTH:
        raise FormatError(f"the blob is damaged: its tree has more than {_MAX_DEPTH} folders in each other")
    kind, offset, size, children = _fields(nodes, index, used)
    if kind == _FILE:
        if path == "" or children:
            raise FormatError(f"the blob is damaged: node {index} of its tree of files is no file")
        if offset + size > len(data):
            raise FormatError(f"the blob is damaged: the file {path!r} lies outside its {len(data)} bytes of contents")
        files[path] = bytes(data[offset : offset + size])
        return
    for name, child in children.items():
        if not _is_name(name):
            raise FormatError(f"the blob is damaged: {name!r} is no name of a file")
        _collect(nodes, child, f"{path}/{name}" if path else name, data, files, used, depth + 1)


def _fields(nodes: Sequence[Any], index: Any, used: set[int]) -> tuple[int, int, int, dict[str, Any]]:
    """Validate a node of the file tree, and return its kind (file or folder), offset, size and children."""
    if type(index) is not int or not 0 <= index < len(nodes) or index in used:
        raise FormatError(f"the blob is damaged: {index!r} is no node of its tree of files, or two folders have it")
    used.add(index)
    node = nodes[index]
    region = node.get("dataRegion") if isinstance(node, dict) else None
    if not isinstance(region, dict) or not isinstance(node.get("children"), dict):
        raise FormatError(f"the blob is damaged: node {index} of its tree of files lacks a field")
    fields = (node.get("kind"), region.get("offset"), region.get("size"))
    numbers = [number for number in fields if type(number) is int and number >= 0]
    if len(numbers) < len(fields) or numbers[0] not in (_FILE, _FOLDER):
        raise FormatError(f"the blob is damaged: node {index} of its tree of files has a wrong number")
    return numbers[0], numbers[1], numbers[2], node["children"]
