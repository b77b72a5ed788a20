"""Read the graph in OpenVINO's intermediate representation (XML), for tools that show the inside of delegates."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from edgecore.errors import FormatError
from edgecore.plugin import BlobGraph, BlobNode

WHOLE = 0
"""The key of the partition as a whole in `debug_handle_map`: no operator has this number, since an input or a constant
comes before all of them."""

_NUMBERED = re.compile(r"[A-Za-z0-9]+_(\d+)")
_ARGUMENT = re.compile(r"(?:input|output)_(\d+)")


def graph_of(model: bytes) -> BlobGraph:
    """Return the operators of a model, except constants; each key is the number in a name, 7 for `Add_7`.

    Raises:
        FormatError: The model is damaged.
    """
    try:
        # Refuse XML document types, whose entities may expand endlessly. Refuse null bytes, because the search would
        # miss a document type in UTF-16 text.
        if b"<!" in model or b"\0" in model:
            raise ValueError("it has a document type, or is in UTF-16")
        return _read(ElementTree.fromstring(model))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise FormatError(f"the blob is damaged: its model is no XML of OpenVINO: {error}") from None


def _read(root: ElementTree.Element) -> BlobGraph:
    sources: dict[str, list[tuple[str, str]]] = {}
    for edge in root.findall("edges/edge"):
        sources.setdefault(edge.attrib["to-layer"], []).append((edge.attrib["from-layer"], edge.attrib["from-port"]))
    numbers: dict[tuple[str, str], int] = {}
    texts: dict[int, str] = {}
    constants = set[tuple[str, str]]()
    nodes, keys = [], set[int | str]()
    ends: dict[str, dict[int, int]] = {"input": {}, "output": {}}
    for layer in root.findall("layers/layer"):
        number, name, kind = layer.attrib["id"], layer.attrib["name"], layer.attrib["type"]
        if kind == "Const":
            constants.add((number, "0"))
            continue
        read = tuple(numbers[source] for source in sources.get(number, ()) if source in numbers)
        if kind == "Result" and not read and constants.issuperset(sources[number]):
            read = (len(numbers),)
            numbers[sources[number][0]] = read[0]
            nodes.append(BlobNode(f"{name} constant", "Const", (), read))
        computed = []
        for port in layer.findall("output/port"):
            value = numbers[number, port.attrib["id"]] = len(numbers)
            sizes = [int(dim.text or "") for dim in port.findall("dim")]
            texts[value] = f"{port.attrib['precision'].lower()} {sizes}"
            computed.append(value)
        argument = _ARGUMENT.fullmatch(name)
        if kind == "Parameter" and argument:
            ends["input"][int(argument[1])] = computed[0]
        elif kind == "Result" and argument:
            ends["output"][int(argument[1])] = read[0]
        else:
            numbered = _NUMBERED.fullmatch(name)
            key: int | str = int(numbered[1]) if numbered else name
            # Add the layer's number: OpenVINO may give two layers the same name.
            key = f"{name} #{number}" if key in keys else key
            keys.add(key)
            nodes.append(BlobNode(key, kind, read, tuple(computed)))
    inputs, outputs = ([ends[end][index] for index in range(len(ends[end]))] for end in ("input", "output"))
    return BlobGraph(tuple(nodes), tuple(inputs), tuple(outputs), texts)
