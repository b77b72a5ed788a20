"""Run a blob on the CPU with PyTorch's operators: a reference for the meaning of the calls, without a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F

from edgecore.plugin import NamedBlob
from edgecore_vulkan.schema import graph as s

aten = torch.ops.aten
DTYPES = {
    s.DataType.BOOL: torch.bool, s.DataType.INT32: torch.int32, s.DataType.FLOAT32: torch.float32,
    s.DataType.FLOAT16: torch.float16,
}  # fmt: skip


def run(
    graph: s.Graph, named_data: Mapping[str, NamedBlob], inputs: Sequence[torch.Tensor | int]
) -> list[torch.Tensor]:
    """Return the outputs of a graph for inputs in the model's dtypes."""
    values: dict[int, object] = {}
    for number, given in zip(graph.input_ids, inputs, strict=True):
        value = graph.values[number].value
        values[number] = given.to(DTYPES[value.datatype]) if isinstance(value, s.VkTensor) else int(given)

    def read(number: int):
        value = graph.values[number].value
        if number in values:
            return values[number]
        match value:
            case s.VkTensor():
                assert value.constant_id >= 0, f"value {number} is read before it is written"
                data = bytearray(named_data[graph.constants[value.constant_id].named_key].data)
                return torch.frombuffer(data, dtype=DTYPES[value.datatype]).reshape(value.dims)
            case s.ValueList():
                return [read(item) for item in value.items]
            case s.IntList() | s.DoubleList() | s.BoolList():
                return list(value.items)
            case s.Null():
                return None
            case s.Int():
                return value.int_val
            case s.Double():
                return value.double_val
            case s.Bool():
                return value.bool_val
            case s.String():
                return value.string_val
        raise AssertionError(value)

    for call in graph.chain:
        *args, output = call.args
        result = _call(call.name, [read(number) for number in args], graph, output)
        target = graph.values[output].value
        numbers = target.items if isinstance(target, s.ValueList) else [output]
        for number, tensor in zip(numbers, result if isinstance(result, (list, tuple)) else [result], strict=True):
            expected = graph.values[number].value
            assert len(expected.dims) == tensor.dim(), (call.name, expected.dims, tensor.shape)
            assert all(size <= most for size, most in zip(tensor.shape, expected.dims, strict=True)), call.name
            values[number] = tensor.to(DTYPES[expected.datatype])
    return [values[number] for number in graph.output_ids]


def _call(name: str, args: list, graph: s.Graph, output: int):
    match name:
        case "et_vk.prepack.default" | "aten.clone.default" | "aten._to_copy.default":
            return args[0].clone()
        case "et_vk.conv_with_clamp.default":
            low, high = (limit if abs(limit) < torch.finfo(torch.float32).max else None for limit in args[-2:])
            result = aten.convolution.default(*args[:-2])
            return result if low is None and high is None else result.clamp(low, high)
        case "et_vk.sdpa.default":
            return F.scaled_dot_product_attention(*args[:4], scale=args[4])
        case "et_vk.rms_norm.default":
            return F.rms_norm(args[0], args[0].shape[-1:], args[1], args[2])
        case "aten.index_select.default" | "aten.embedding.default" | "aten.gather.default":
            args = [arg.long() if isinstance(arg, torch.Tensor) and arg.dtype == torch.int32 else arg for arg in args]
    namespace, operator, overload = name.split(".")
    function = getattr(getattr(getattr(torch.ops, namespace), operator), overload)
    if name.startswith(("aten.full", "aten.arange")):
        dtype = DTYPES[graph.values[output].value.datatype]
        return function(*[arg for arg in args if arg is not None], dtype=dtype)
    names = function._schema.arguments
    keywords = {argument.name: value for argument, value in zip(names, args, strict=True) if argument.kwarg_only}
    return function(*[v for argument, v in zip(names, args, strict=True) if not argument.kwarg_only], **keywords)
