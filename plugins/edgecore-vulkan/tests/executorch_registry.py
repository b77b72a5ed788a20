"""Compare the calls of a blob with executorch's own registry: operators, dtypes, storages, layouts."""

from __future__ import annotations

import pytest
import torch

from edgecore_vulkan.graph.registry import REGISTRY, UNCHECKED
from edgecore_vulkan.schema import graph as s

op_registry = pytest.importorskip("executorch.backends.vulkan.op_registry")
from executorch.backends.vulkan import utils
from executorch.exir.dialects._ops import ops as exir_ops
from torch._subclasses.fake_tensor import FakeTensorMode

DTYPES = {
    s.DataType.BOOL: torch.bool, s.DataType.INT32: torch.int32, s.DataType.FLOAT32: torch.float32,
    s.DataType.FLOAT16: torch.float16, s.DataType.INT8: torch.int8, s.DataType.UINT8: torch.uint8,
}  # fmt: skip


MOVES = ("aten.clone.default",)
"""Operators that also move int8 tensors, which executorch's check of models does not see."""


def exir_operator(name: str):
    if name.startswith("torchao."):
        pytest.importorskip("torchao.quantization.quant_primitives")
    namespace, operator, overload = name.split(".")
    return getattr(getattr(getattr(exir_ops.edge, namespace), operator), overload)


def features(name: str):
    operator = exir_operator(name)
    known = op_registry.vulkan_supported_ops
    return known[operator] if operator in known else known.get(operator.name())


def repset_fits(repset, tensor: s.VkTensor) -> bool:
    memory = utils.TensorRepr(
        utils.VkStorageType(int(tensor.storage_type)), utils.VkMemoryLayout(int(tensor.memory_layout))
    )
    return repset.is_compatible(memory)


def check(graph: s.Graph) -> None:
    """Check each call: a node with the same arguments gets the memories that executorch allows."""
    mode = FakeTensorMode()
    fx = torch.fx.Graph()
    prepared: set[int] = set()

    def value(number: int):
        entry = graph.values[number].value
        match entry:
            case s.VkTensor():
                node = fx.placeholder(f"value_{number}")
                with mode:
                    node.meta["val"] = torch.empty(entry.dims, dtype=DTYPES[entry.datatype])
                return node
            case s.ValueList():
                return [value(item) for item in entry.items]
            case s.IntList() | s.DoubleList():
                return list(entry.items)
            case s.Int():
                return entry.int_val
            case s.Bool():
                return entry.bool_val
        return None

    for call in graph.chain:
        if call.name == "et_vk.prepack.default":
            prepared.add(call.args[1])
            continue
        operator, known = exir_operator(call.name), features(call.name)
        assert known is not None, call.name
        arguments = [value(number) for number in call.args]
        result = arguments.pop()
        node = fx.call_function(operator, tuple(arguments))
        results = result if isinstance(result, list) else [result]
        vals = [item.meta["val"] for item in results]
        node.meta["val"] = vals if isinstance(result, list) else vals[0]
        valid, reason = known.check_dtypes(node)
        assert valid or REGISTRY[call.name].dtypes == UNCHECKED or call.name in MOVES, (call.name, reason)
        assert known.are_node_inputs_supported_fn(node), call.name
        if call.name == "aten.clone.default":
            continue  # may change the memory
        repsets = known.make_op_repsets(node)
        assert not repsets.any_is_empty(), call.name
        for index, number in enumerate(call.args[:-1]):
            entry = graph.values[number].value
            for item in entry.items if isinstance(entry, s.ValueList) else [number]:
                tensor = graph.values[item].value
                if isinstance(tensor, s.VkTensor) and tensor.constant_id < 0:
                    assert repset_fits(repsets.get_arg_repset(index), tensor), (call.name, index, tensor)
                elif isinstance(tensor, s.VkTensor):
                    assert known.supports_prepacking, call.name
        last = graph.values[call.args[-1]].value
        for index, number in enumerate(last.items if isinstance(last, s.ValueList) else [call.args[-1]]):
            tensor = graph.values[number].value
            assert repset_fits(repsets.get_out_repset(index), tensor), (call.name, index, tensor)
