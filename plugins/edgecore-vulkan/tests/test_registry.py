"""Test that blobs for executorch 1.5 agree with executorch's own registry: operators, dtypes, storages, layouts."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from vulkan_support import lowered

from edgecore_vulkan.registry import REGISTRY, UNCHECKED
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


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {"et_vk.prepack.default", "et_vk.sdpa.default"}))
def test_entries_agree_with_executorch(name):
    theirs, ours = features(name), REGISTRY[name]
    assert theirs is not None
    assert (theirs.supports_resize, theirs.supports_highdim, theirs.supports_prepacking) == (
        ours.resizes, ours.high_rank, ours.prepares,
    )  # fmt: skip
    if ours.dtypes == UNCHECKED:
        return
    dtypes = ours.dtypes if isinstance(ours.dtypes, tuple) else (ours.dtypes,)
    assert [set(allowed) for allowed in dtypes] == list(theirs.inputs_dtypes.vals)


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


X, Y = torch.randn(1, 8, 12, 12), torch.randn(1, 8, 12, 12)
V, B = torch.randn(4, 16), torch.randn(4, 16) > 0
CASES = {
    "add": (lambda a, b: torch.add(a, b, alpha=2), X, Y),
    "broadcast": (torch.mul, X, torch.randn(8, 1, 1)),
    "rsub": (lambda a: 3 - a, X),
    "int": (lambda a: a * 2 - 1, torch.arange(5)),
    "maximum": (torch.maximum, X, Y),
    "silu": (F.silu, X),
    "hardsigmoid": (F.hardsigmoid, X),
    "leaky": (F.leaky_relu, X),
    "reciprocal": (torch.reciprocal, X),
    "clamp": (lambda a: a.clamp(min=0.5), X),
    "power": (lambda a: a.abs() ** 3, X),
    "softmax": (lambda a: a.softmax(1), X),
    "layer norm": (nn.LayerNorm(16), V),
    "group norm": (nn.GroupNorm(2, 8), X),
    "batch norm": (nn.BatchNorm2d(8), X),
    "rms norm": (nn.RMSNorm(16), V),
    "mean": (lambda a: a.mean((2, 3)), X),
    "sum": (lambda a: a.sum(), X),
    "amax": (lambda a: a.amax((1, 2)), X),
    "argmax": (lambda a: a.argmax(1), V),
    "argmax of all": (lambda a: a.argmax(), V),
    "max pool": (nn.MaxPool2d(3, 2, 1), X),
    "average pool": (nn.AvgPool2d(2), X),
    "adaptive": (nn.AdaptiveAvgPool2d(3), X),
    "nearest": (nn.Upsample(scale_factor=2), X),
    "bilinear": (nn.Upsample(size=(20, 20), mode="bilinear"), X),
    "convolution": (nn.Sequential(nn.Conv2d(8, 4, 3), nn.ReLU()), X),
    "transposed": (nn.ConvTranspose2d(8, 4, 2, 2), X),
    "line": (nn.Conv1d(8, 4, 3, padding=1), torch.randn(1, 8, 20)),
    "linear": (nn.Linear(16, 4), torch.randn(2, 3, 16)),
    "bmm": (torch.bmm, torch.randn(2, 3, 4), torch.randn(2, 4, 5)),
    "addmm": (torch.addmm, torch.randn(4, 4), V, torch.randn(16, 4)),
    "attention": (partial(F.scaled_dot_product_attention, is_causal=True), *torch.randn(3, 1, 2, 4, 8)),
    "cat": (lambda a, b: torch.cat([a, b], 1) + 1, X, Y),
    "stack": (lambda a, b: torch.stack([a, b]) + 1, V, V * 2),
    "slice": (lambda a: a[:, 2:-1:2] + 1, X),
    "select": (lambda a: a[:, -1] + 1, X),
    "split": (lambda a: [part + 1 for part in a.split(3, 1)], X),
    "expand": (lambda a: a.expand(3, 4, 16) + 1, V),
    "permute": (lambda a: a.permute(0, 2, 3, 1) + 1, X),
    "pad": (lambda a: F.pad(a, (1, 2, 3, 4)) + 1, X),
    "repeat": (lambda a: a.repeat(2, 3) + 1, V),
    "flip": (lambda a: a.flip(1) + 1, V),
    "gather": (lambda a, i: a.gather(1, i) + 1, V, torch.zeros(4, 3, dtype=torch.long)),
    "index_select": (lambda a, i: a.index_select(0, i) + 1, V, torch.tensor([0, 2])),
    "embedding": (nn.Embedding(10, 4), torch.tensor([0, 2])),
    "where": (lambda c, a: torch.where(c, a, 0.0), B[:1], V),
    "compare": (lambda a, b: (a == b, a != b, a > 0.5, a != 0.5), V, V * 2),
    "logic": (lambda a, b: (a & b) | ~a, B, ~B[:, :1]),
    "any": (lambda a: a.any(1), B),
    "convert": (lambda a: a.to(torch.int32) * 2, V),
    "half": (nn.Sequential(nn.Linear(16, 4), nn.ReLU()).half(), V.half()),
}


@pytest.mark.parametrize("name", CASES)
def test_calls_agree_with_executorch(name):
    model, *inputs = CASES[name]
    compiled = lowered(model, *inputs)
    assert compiled.results, compiled.report
    for graph in compiled.graphs:
        check(graph)


def test_a_tensor_beyond_the_texture_limits_lies_in_a_buffer():
    (graph,) = lowered(lambda a: a + 1, torch.randn(20000, 4)).graphs
    check(graph)
    value = graph.values[graph.input_ids[0]].value
    assert (value.storage_type, value.memory_layout) == (s.Storage.BUFFER, s.Layout.WIDTH_PACKED)


def test_a_linear_layer_with_many_rows_lies_in_a_buffer():
    (graph,) = lowered(nn.Linear(8, 20000), torch.randn(1, 8)).graphs
    check(graph)


def test_networks_agree_with_executorch():
    from zoo import make

    for name in ("mobilenet_v3_small", "unet"):
        for graph in lowered(*_flat(make(name))).graphs:
            check(graph)


def _flat(example):
    model, inputs = example
    return (model, *inputs)
