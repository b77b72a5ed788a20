"""Describe a blob: its model's deployment target, arguments, operators, precision and weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from edgecore.errors import FormatError
from edgecore_coreml.options import TARGETS
from edgecore_coreml.package import unpack
from edgecore_coreml.weights import stored_weights

_SCALAR = "const"
_PRECISIONS = ("FLOAT32", "FLOAT16")


def describe_blob(blob: bytes, named_data: Mapping[str, Any]) -> list[str]:
    """Return lines that describe a blob, and of a model with several functions the one that the blob calls.

    Args:
        blob: A folder, or a reference to one.
        named_data: Named data of the file: key -> object with the bytes as `data`.

    Raises:
        FormatError: The blob is damaged.
    """
    from google.protobuf.message import DecodeError

    package = unpack(blob, named_data)
    spec = _messages().Model()
    try:
        spec.ParseFromString(package.specification)
    except DecodeError:
        raise FormatError("the blob is damaged: its model is no specification of Core ML") from None
    version = spec.specificationVersion
    target = next((name for name, number in TARGETS.items() if number == version), "an unknown system")
    lines = [f"model: {target} or later (specification version {version})"]
    functions = {item.name: item for item in spec.description.functions}
    if package.function:
        lines.append(f"function {package.function} of {', '.join(functions)}")
    description = functions.get(package.function, spec.description)
    for kind, items in (("input", description.input), ("output", description.output), ("state", description.state)):
        lines += [f"{kind} {item.name}: {_type(item)}" for item in items]
    stored = Counter[str]()
    for name, function in sorted(spec.mlProgram.functions.items()):
        if package.function not in ("", name):
            continue
        stored.update(weight.precision for weight in stored_weights(function))
        for block in function.block_specializations.values():
            counts = Counter(op.type for op in block.operations if op.type != _SCALAR)
            lines += [f"function {name}: {counts.total()} operators"] if counts else []
            lines += [f"  {kind}: {count}" for kind, count in sorted(counts.items())]
            computed = Counter(precision for op in block.operations if (precision := _precision(op)))
            lines += [f"  in {precision}: {count}" for precision, count in sorted(computed.items())]
    lines.append(f"weights: {len(package.weights):,} bytes")
    return lines + [f"  as {kind}: {count}" for kind, count in sorted(stored.items())]


def _messages() -> Any:
    """Return coremltools' declarations of the specification."""
    import io

    from edgecore_coreml.convert import quiet

    with quiet(io.StringIO()):
        from coremltools.proto import Model_pb2
    return Model_pb2


def _precision(op: Any) -> str | None:
    """Return the float type of an operator's first result; None for constants and other types."""
    if op.type == _SCALAR or not op.outputs:
        return None
    data_type = op.outputs[0].type.tensorType.DESCRIPTOR.fields_by_name["dataType"].enum_type
    name = data_type.values_by_number[op.outputs[0].type.tensorType.dataType].name
    return name.lower() if name in _PRECISIONS else None


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
