"""TOSA graphs as bytes: written, read, damaged."""

import numpy as np
import pytest

from edgecore.errors import FormatError
from edgecore.sdk import flat
from edgecore_tosa.graph import Graph, Operator, Tensor, decode, encode
from edgecore_tosa.graph.blob_graph import blob_graph
from edgecore_tosa.schema import ATTRIBUTES, DType, Op, TosaGraph, TosaRegion, Transpose, Version


def small_graph():
    x = Tensor((2, 3), DType.FP32)
    weight = Tensor((3, 2), DType.FP32, np.arange(6, dtype=np.float32).reshape(3, 2))
    turned = Tensor((3, 2), DType.FP32)
    total = Tensor((3, 2), DType.FP32)
    flat_shape = Tensor((1,), DType.SHAPE, np.array([6]))
    result = Tensor((6,), DType.FP32)
    unread = Tensor((3, 2), DType.FP32)
    operators = [
        Operator(Op.TRANSPOSE, Transpose([1, 0]), [x], turned),
        Operator(Op.ADD, ATTRIBUTES[Op.ADD](), [turned, weight], total),
        Operator(Op.ABS, ATTRIBUTES[Op.ABS](), [total], unread),
        Operator(Op.RESHAPE, ATTRIBUTES[Op.RESHAPE](), [total, flat_shape], result),
    ]
    return Graph([x], operators, [result])


def test_a_graph_that_is_read_equals_the_one_that_was_written():
    data = small_graph().to_bytes()
    read = Graph.from_bytes(data)
    assert [operator.op for operator in read.operators] == [Op.TRANSPOSE, Op.ADD, Op.ABS, Op.RESHAPE]
    assert read.operators[0].attribute.perms == [1, 0]
    assert [tensor.shape for tensor in read.outputs] == [(6,)]
    np.testing.assert_array_equal(read.operators[1].inputs[1].data, np.arange(6, dtype=np.float32).reshape(3, 2))
    assert read.to_bytes() == data == small_graph().to_bytes()


def test_operators_that_nothing_reads_are_removed():
    graph = small_graph()
    graph.remove_unread()
    assert [operator.op for operator in graph.operators] == [Op.TRANSPOSE, Op.ADD, Op.RESHAPE]


@pytest.mark.parametrize(
    ("dtype", "numbers", "size"),
    [
        (DType.INT4, [-7, 7, 3], 8),
        (DType.INT48, [-(2**47), 2**47 - 1, -1], 24),
        (DType.INT8, [-128, 127, 0], 8),
        (DType.BOOL, [True, False, True], 8),
        (DType.FP16, [0.5, -1.0, 2.0], 8),
    ],
)
def test_constants_keep_their_numbers_in_padded_bytes(dtype, numbers, size):
    data = encode(np.array(numbers), dtype)
    assert len(data) == size
    assert decode(data, dtype, (3,)).tolist() == numbers


def test_a_constant_with_too_few_bytes_is_an_error():
    with pytest.raises(FormatError, match="the constant w has 3 bytes instead of 4"):
        decode(b"abc", DType.INT32, (1,), "w")


def changed(change):
    root = flat.unpack(TosaGraph, small_graph().to_bytes(), b"TOSA")
    change(root, root.regions[0].blocks[0])
    return bytes(flat.pack(root, b"TOSA"))


def set_inputs(root, block):
    block.operators[-1].inputs = ["nowhere"]


def set_outputs(root, block):
    block.operators[-1].outputs = []


def set_shape(root, block):
    block.tensors[0].shape = [-1]


def set_op(root, block):
    block.operators[-1].op = 99


def set_attribute(root, block):
    block.operators[-1].attribute = Transpose([0])


def clear_data(root, block):
    for tensor in block.tensors:
        tensor.data = None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda root, block: setattr(root, "version", Version(2, 0, 0, False)),
            "TOSA version 2: only version 1 is known",
        ),
        (lambda root, block: root.regions.append(TosaRegion("b")), "a TOSA graph with control flow"),
        (set_inputs, "no tensor 'nowhere' in the TOSA graph"),
        (set_outputs, "RESHAPE has 0 results, not one"),
        (set_op, "operator number 99 is not known"),
        (set_attribute, "RESHAPE has the attribute of another operator"),
        (set_shape, "the tensor t0 has a negative size"),
        (clear_data, "the constant t1 has no data"),
    ],
)
def test_a_wrong_graph_is_an_error_that_says_why(change, message):
    with pytest.raises(FormatError, match=message):
        Graph.from_bytes(changed(change))


def test_damaged_bytes_raise_nothing_but_format_errors():
    data, generator = small_graph().to_bytes(), np.random.default_rng(0)
    for _ in range(500):
        damaged = bytearray(data)
        for _ in range(int(generator.integers(1, 4))):
            damaged[int(generator.integers(len(data)))] = int(generator.integers(256))
        try:
            Graph.from_bytes(bytes(damaged))
        except FormatError:
            continue


def test_a_graph_has_nodes_named_like_their_operators_without_constants():
    graph = Graph.from_bytes(small_graph().to_bytes())
    shown = blob_graph(graph)
    assert [node.operation for node in shown.nodes] == [operator.name for operator in graph.operators]
    known = set(shown.inputs)
    for node in shown.nodes:
        assert known.issuperset(node.inputs)
        known.update(node.outputs)
    assert known.issuperset(shown.outputs) and len(shown.values) == len(known)
