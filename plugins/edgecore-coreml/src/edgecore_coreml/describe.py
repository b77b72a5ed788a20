"""Describe a blob: its model's deployment target, arguments, operators and weights."""

from __future__ import annotations

from collections import Counter
from typing import Any

from edgecore.errors import FormatError
from edgecore_coreml.options import TARGETS
from edgecore_coreml.package import unpack

_SCALAR = "const"


def describe_blob(blob: bytes) -> list[str]:
    """Return lines that describe a blob.

    Raises:
        FormatError: The blob is damaged.
    """
    from google.protobuf.message import DecodeError

    package = unpack(blob)
    spec = _messages().Model()
    try:
        spec.ParseFromString(package.specification)
    except DecodeError:
        raise FormatError("the blob is damaged: its model is no specification of Core ML") from None
    version = spec.specificationVersion
    target = next((name for name, number in TARGETS.items() if number == version), "an unknown system")
    lines = [f"model: {target} or later (specification version {version})"]
    for kind, items in (("input", spec.description.input), ("output", spec.description.output)):
        lines += [f"{kind} {item.name}: {_type(item)}" for item in items]
    lines += [f"state {item.name}: {_type(item)}" for item in spec.description.state]
    for name, function in sorted(spec.mlProgram.functions.items()):
        for block in function.block_specializations.values():
            counts = Counter(op.type for op in block.operations if op.type != _SCALAR)
            lines += [f"function {name}: {counts.total()} operators"] if counts else []
            lines += [f"  {kind}: {count}" for kind, count in sorted(counts.items())]
    lines.append(f"weights: {len(package.weights):,} bytes")
    return lines


def _messages() -> Any:
    """Return coremltools' declarations of the specification."""
    import io

    from edgecore_coreml.convert import quiet

    with quiet(io.StringIO()):
        from coremltools.proto import Model_pb2
    return Model_pb2


def _type(item: Any) -> str:
    kind = item.type.WhichOneof("Type")
    if kind not in ("multiArrayType", "stateType"):
        return str(kind)
    array = item.type.multiArrayType if kind == "multiArrayType" else item.type.stateType.arrayType
    name = array.ArrayDataType.Name(array.dataType).lower()
    shapes = [list(shape.shape) for shape in array.enumeratedShapes.shapes]
    if shapes:
        return f"{name}, one of {', '.join(map(str, shapes))}"
    ranges = [(size.lowerBound, size.upperBound) for size in array.shapeRange.sizeRanges]
    sizes = [str(low) if low == high else f"{low} to {high}" for low, high in ranges] or list(map(str, array.shape))
    return f"{name} [{', '.join(sizes)}]"
