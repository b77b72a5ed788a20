"""Read the graph of an ML program (the operators of a Core ML model) for tools that show the inside of delegates."""

from __future__ import annotations

from typing import Any

from edgecore.errors import FormatError
from edgecore.plugin import BlobGraph, BlobNode
from edgecore_coreml.package.compiled import ONLY_CORE_ML
from edgecore_coreml.package.describe import dtype_of, specification_of
from edgecore_coreml.package.files import Package

_CONSTANTS = ("const", "constexpr_")


def graph_of(package: Package) -> BlobGraph:
    """Return the graph of the function that a blob calls: its operators, and any constant that is an output.

    The key of an operator is the name of its first result.

    Raises:
        FormatError: The model is compiled, or damaged.
    """
    if package.compiled:
        raise FormatError(ONLY_CORE_ML)
    spec = specification_of(package)
    name = package.function or spec.description.defaultFunctionName or "main"
    function = spec.mlProgram.functions.get(name)
    if function is None or function.opset not in function.block_specializations:
        raise FormatError(f"the blob is damaged: its model has no function {name!r}")
    block = function.block_specializations[function.opset]
    numbers: dict[str, int] = {}
    texts: dict[int, str] = {}

    def add(value: Any) -> int:
        number = numbers[value.name] = len(numbers)
        texts[number] = _text(value)
        return number

    for value in function.inputs:
        add(value)
    nodes = []
    for op in block.operations:
        names = {value.name for value in op.outputs}
        if not names or (op.type.startswith(_CONSTANTS) and names.isdisjoint(block.outputs)):
            continue
        read = [argument.name for value in op.inputs.values() for argument in value.arguments]
        inputs = tuple(numbers[name] for name in read if name in numbers)
        nodes.append(BlobNode(op.outputs[0].name, op.type, inputs, tuple(add(value) for value in op.outputs)))
    lost = [name for name in (*package.inputs, *block.outputs) if name not in numbers]
    if lost:
        raise FormatError(f"the blob is damaged: its model does not compute {lost[0]!r}")
    return BlobGraph(
        tuple(nodes),
        tuple(numbers[name] for name in package.inputs),
        tuple(numbers[name] for name in block.outputs),
        texts,
    )


def _text(value: Any) -> str:
    """Describe the dtype and sizes of a value, such as "float16 [1, ?]"; "?" is a size that is not fixed."""
    kind = value.type.WhichOneof("type")
    tensor = value.type.stateType.wrappedType.tensorType if kind == "stateType" else value.type.tensorType
    sizes = [str(dim.constant.size) if dim.HasField("constant") else "?" for dim in tensor.dimensions]
    return f"{dtype_of(tensor)} [{', '.join(sizes)}]"
