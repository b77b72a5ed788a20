"""Describe the model of a blob: its deployment target, arguments, operators, precision and weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from edgecore.errors import FormatError
from edgecore_coreml.options import TARGETS
from edgecore_coreml.package.blob import COMPILED, parse
from edgecore_coreml.package.compiled import ONLY_CORE_ML
from edgecore_coreml.package.files import Package, unpack
from edgecore_coreml.weights.stored import stored_weights

_SCALAR = "const"
_PRECISIONS = ("FLOAT32", "FLOAT16")


def describe_blob(blob: bytes, named_data: Mapping[str, Any]) -> list[str]:
    """Describe a blob in lines; of a model with several functions, describe only the one that the blob calls.

    Args:
        blob: A packed folder, or a reference to a packed folder in the named data.
        named_data: Maps each key of the file's named data to an object with the bytes as `data`.

    Raises:
        FormatError: The blob is damaged.
    """
    package = unpack(blob, named_data)
    if package.compiled:
        return _describe_compiled(package)
    spec = specification_of(package)
    lines = [_system(spec.specificationVersion)]
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


def specification_of(package: Package) -> Any:
    """Parse the specification of a model that is not compiled; return coremltools' protobuf message.

    Raises:
        FormatError: The specification is damaged.
    """
    from google.protobuf.message import DecodeError

    spec = _messages().Model()
    try:
        spec.ParseFromString(package.specification)
    except DecodeError:
        raise FormatError("the blob is damaged: its model is no specification of Core ML") from None
    return spec


def _describe_compiled(package: Package) -> list[str]:
    """Describe a compiled model in lines, but not its operators, because their format is Apple's own."""
    described = _metadata_of_core_ml(package)
    version = described.get("specificationVersion")
    lines = [_system(version)] if isinstance(version, int) else ["model: for the system that the compatibility names"]
    lines.append(ONLY_CORE_ML)
    lines += [f"function {package.function}"] if package.function else []
    for kind, names in (("input", package.inputs), ("output", package.outputs)):
        types = {} if package.function else _types_of_core_ml(described.get(f"{kind}Schema"))
        lines += [f"{kind} {name}{types.get(name, '')}" for name in names]
    lines += [f"state {state.state}: float16 {list(state.shape)}" for state in package.states]
    return [*lines, f"{COMPILED}: {sum(map(len, package.compiled.values())):,} bytes"]


def _metadata_of_core_ml(package: Package) -> dict[str, Any]:
    """Return the metadata that Apple's compiler adds to a model, in an undocumented format; {} if there are none."""
    try:
        (described,) = parse(package.compiled.get(f"{COMPILED}/metadata.json", b""))
    except (ValueError, TypeError, RecursionError):
        return {}
    return described if isinstance(described, dict) else {}


def _types_of_core_ml(schema: Any) -> dict[str, str]:
    """Map each name in Apple's list of inputs or outputs to its dtype and shape as text; skip unexpected items."""
    types = {}
    for item in schema if isinstance(schema, list) else ():
        if isinstance(item, dict) and {"name", "dataType", "shape"} <= item.keys():
            others = " and other shapes" if item.get("hasShapeFlexibility") == "1" else ""
            types[str(item["name"])] = f": {str(item['dataType']).lower()} {item['shape']}{others}"
    return types


def _system(version: int) -> str:
    target = next((name for name, number in TARGETS.items() if number == version), "an unknown system")
    return f"model: {target} or later (specification version {version})"


def _messages() -> Any:
    import io

    from edgecore_coreml.conversion.convert import quiet

    with quiet(io.StringIO()):
        from coremltools.proto import Model_pb2
    return Model_pb2


def _precision(op: Any) -> str | None:
    """Return the float dtype of an operator's first result; None for constants and for other dtypes."""
    if op.type == _SCALAR or not op.outputs:
        return None
    name = dtype_of(op.outputs[0].type.tensorType)
    return name if name.upper() in _PRECISIONS else None


def dtype_of(tensor: Any) -> str:
    """Return the name of a tensor type's dtype, such as "float16"; "dtype 99" for the unknown number 99."""
    names = tensor.DESCRIPTOR.fields_by_name["dataType"].enum_type.values_by_number
    return names[tensor.dataType].name.lower() if tensor.dataType in names else f"dtype {tensor.dataType}"


def _type(item: Any) -> str:
    kind = item.type.WhichOneof("Type")
    if kind not in ("multiArrayType", "stateType"):
        return str(kind)
    array = item.type.multiArrayType if kind == "multiArrayType" else item.type.stateType.arrayType
    name = dtype_of(array)
    shapes = [list(shape.shape) for shape in array.enumeratedShapes.shapes]
    if shapes:
        return f"{name}, one of {', '.join(map(str, shapes))}"
    ranges = [(size.lowerBound, size.upperBound) for size in array.shapeRange.sizeRanges]
    sizes = [str(low) if low == high else f"{low} to {high}" for low, high in ranges] or list(map(str, array.shape))
    return f"{name} [{', '.join(sizes)}]"
