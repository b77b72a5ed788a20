"""Test blobs: executorch reads them, and damaged ones raise `FormatError`."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from vulkan_support import lowered, tensor

from edgecore.errors import FormatError
from edgecore_vulkan.blob.describe import describe, graph_of
from edgecore_vulkan.blob.format import read_graph, write_graph
from edgecore_vulkan.compiler import VulkanCompiler
from edgecore_vulkan.schema import graph as s


def block() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )


@pytest.fixture(scope="module")
def result():
    torch.manual_seed(0)
    (result,) = lowered(block(), torch.randn(1, 3, 8, 8)).results
    return result


def test_executorch_reads_the_blob(result):
    serialize = pytest.importorskip("executorch.backends.vulkan.serialization.vulkan_graph_serialize")
    theirs = serialize.flatbuffer_to_vk_graph(serialize.extract_vk_flatbuffer(result.blob))
    ours = read_graph(result.blob)
    assert [(call.name, call.args) for call in theirs.chain] == [(call.name, call.args) for call in ours.chain]
    assert (theirs.input_ids, theirs.output_ids) == (ours.input_ids, ours.output_ids)
    for mine, other in zip(ours.values, theirs.values, strict=True):
        assert type(mine.value).__name__ == type(other.value).__name__
        if isinstance(mine.value, s.VkTensor):
            fields = s.VkTensor.__dataclass_fields__
            assert all(getattr(mine.value, name) == getattr(other.value, name) for name in fields)
    assert [constant.named_key for constant in theirs.constants] == list(result.named_data)
    header = serialize.VulkanDelegateHeader.from_bytes(result.blob[:30])
    assert header.is_valid() and header.flatbuffer_offset % 16 == 0 and header.bytes_offset % 16 == 0


def test_write_inverts_read(result):
    graph = read_graph(result.blob)
    assert read_graph(write_graph(graph)) == graph
    assert VulkanCompiler().verify_blob(result.blob, result.named_data, runtime="executorch-1.5") == []


def test_the_blob_is_the_same_each_time(result):
    torch.manual_seed(0)
    (again,) = lowered(block(), torch.randn(1, 3, 8, 8)).results
    assert again.blob == result.blob


def test_describe_lists_arguments_and_calls(result):
    lines = describe(result.blob)
    assert lines[1].startswith("5 calls: 1 et_vk.conv_with_clamp.default")
    assert lines[3] == "input 0: %0 float32 [1, 3, 8, 8] channels_packed"
    assert "aten.mean.dim(" in lines[6] and "[-1, -2], True, None)" in lines[6]


def test_a_list_in_itself_is_refused(result):
    graph = read_graph(result.blob)
    call = graph.chain[0]
    graph.values.append(s.Value(s.ValueList([len(graph.values)])))
    call.args[0] = len(graph.values) - 1
    for read in (describe, graph_of):
        with pytest.raises(FormatError, match="is a list of lists"):
            read(write_graph(graph))


def test_the_graph_has_the_calls_and_their_variables(result):
    graph, calls = graph_of(result.blob), read_graph(result.blob)
    assert [(node.operation, node.name) for node in graph.nodes] == [(one.node_id, one.name) for one in calls.chain]
    constants = {number for number, entry in enumerate(calls.values)
                 if isinstance(entry.value, s.VkTensor) and entry.value.constant_id >= 0}  # fmt: skip
    known = set(graph.inputs)
    for node in graph.nodes:
        assert known.issuperset(node.inputs) and not constants.intersection(node.inputs)
        known.update(node.outputs)
    assert known.issuperset(graph.outputs) and graph.values[graph.inputs[0]].startswith("float32 [1, 3, 8, 8]")


def test_equal_constants_are_stored_once():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
            self.second.load_state_dict(self.first.state_dict())

        def forward(self, x):
            return self.second(torch.relu(self.first(x)))

    (result,) = lowered(Twice(), torch.randn(2, 8)).results
    assert sorted(len(blob.data) for blob in result.named_data.values()) == [32, 256]


def test_debug_handles_name_each_operator_call(result):
    graph = read_graph(result.blob)
    named = {call.node_id for call in graph.chain if call.name != "aten.clone.default"}
    assert set(result.debug_handle_map) == named
    assert len(result.debug_handle_map[0]) == 2  # the convolution and its clamp


def test_memory_needs_are_those_of_the_graph(result):
    needs = {need.kind: need.bytes for need in result.memory}
    weights = sum(len(blob.data) for blob in result.named_data.values())
    assert needs["staging"] == 4 * (3 * 64 + 4)
    assert needs["persistent"] == weights + 4 * (3 * 64 + 8 * 64)


def changed(result, change) -> bytes:
    graph = read_graph(result.blob)
    change(graph)
    return write_graph(graph)


def _no_value(graph):
    graph.values[0].value = None


def _bad_list(graph):
    graph.values.append(s.Value(s.ValueList([99])))


def _bad_constant(graph):
    tensor(graph, 1).constant_id = 99


def _no_dtype(graph):
    tensor(graph, 0).datatype = s.DataType.UNSET


def _bad_argument(graph):
    graph.chain[0].args[0] = -1


def _no_arguments(graph):
    graph.chain[0].args = []


def _bad_input(graph):
    graph.input_ids = [len(graph.values)]


def _output_is_no_tensor(graph):
    graph.values.append(s.Value(s.Null()))
    graph.output_ids = [len(graph.values) - 1]


def _bytes_outside(graph):
    graph.constants[0].offset, graph.constants[0].named_key = 0, ""


DAMAGE = {
    "value 0 is empty": _no_value,
    "names value 99 of": _bad_list,
    "value 1 reads constant 99": _bad_constant,
    "value 0 has no dtype": _no_dtype,
    r"call 0 \(et_vk.conv_with_clamp.default\) names value -1": _bad_argument,
    "has no arguments": _no_arguments,
    "the list of inputs names value": _bad_input,
    "among the outputs is no tensor": _output_is_no_tensor,
    "constant 0 has no bytes": _bytes_outside,
}


@pytest.mark.parametrize("message", DAMAGE)
def test_a_damaged_graph_is_rejected(result, message):
    blob = changed(result, DAMAGE[message])
    with pytest.raises(FormatError, match=message):
        VulkanCompiler().verify_blob(blob, {}, runtime="edgecore")


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [(4, b"XH00", "VH00 is missing"), (8, b"\0\0", "another length"), (14, b"\xff\xff\xff\xff", "lie outside")],
)
def test_a_damaged_header_is_rejected(result, at, value, message):
    blob = result.blob[:at] + value + result.blob[at + len(value) :]
    with pytest.raises(FormatError, match=message):
        read_graph(blob)


def test_damage_raises_only_format_errors(result):
    draw = random.Random(0)
    for size in range(0, len(result.blob) - 16, 97):
        with pytest.raises(FormatError):
            describe(result.blob[:size])
    for _ in range(2000):
        blob = bytearray(result.blob)
        for _ in range(draw.randint(1, 4)):
            blob[draw.randrange(len(blob))] = draw.randrange(256)
        try:
            describe(bytes(blob))
        except FormatError:
            continue


def test_verify_names_missing_constants_and_operators(result):
    compiler = VulkanCompiler()
    (*_, error) = compiler.verify_blob(result.blob, {}, runtime="edgecore")
    assert "is not in the file: no named data" in error

    def rename(graph):
        graph.chain[0].name = "aten.silu.default"

    blob = changed(result, rename)
    (error,) = compiler.verify_blob(blob, result.named_data, runtime="executorch-1.5")
    assert error == "call 0: executorch 1.5 has no operator aten.silu.default"

    def unknown(graph):
        graph.chain[0].name = "aten.unknown.default"

    (error,) = compiler.verify_blob(changed(result, unknown), result.named_data, runtime="edgecore")
    assert error == "call 0: edgecore's delegate has no operator aten.unknown.default"


def test_verify_names_memories_that_executorch_does_not_support(result):
    def rows(graph):
        tensor(graph, graph.input_ids[0]).memory_layout = s.Layout.WIDTH_PACKED

    errors = VulkanCompiler().verify_blob(changed(result, rows), result.named_data, runtime="executorch-1.5")
    assert errors == [
        "call 0: et_vk.conv_with_clamp.default does not support TEXTURE_3D WIDTH_PACKED",
        "call 0: et_vk.conv_with_clamp.default needs its tensors in one memory",
    ]
