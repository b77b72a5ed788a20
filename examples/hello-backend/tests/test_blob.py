"""Test that Python and the delegate reject damaged blobs with an error message, and never crash."""

from __future__ import annotations

import struct

import pytest
import torch

import edgecore
from edgecore.errors import ExecutionError, FormatError
from edgecore_hello.blob import Constant, Graph, Op, Operation, decode, describe, encode
from edgecore_hello.compiler import HelloCompiler

GRAPH = Graph(
    input_ranks=[2, 1],
    constants=[Constant((3,), struct.pack("<3f", 1.0, 2.0, 3.0))],
    nodes=[Operation(Op.MUL, (0, 2)), Operation(Op.ADD, (3, 1), relu=True)],
    outputs=[4],
)
COUNTS = 12  # offset of the numbers of inputs, constants, nodes and outputs


@pytest.fixture(scope="module")
def pte(tmp_path_factory) -> bytes:
    """Compile a file whose only delegate has the blob of `GRAPH`."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, a, b):
            return torch.relu(a * self.weight + b)

    path = tmp_path_factory.mktemp("blob") / "model.pte"
    edgecore.compile(Model().eval(), (torch.randn(2, 3), torch.randn(3)), backends=["hello"]).save(path)
    content = path.read_bytes()
    assert content.count(encode(GRAPH)) == 1
    return content


def changed(at: int, value: int) -> bytes:
    blob = bytearray(encode(GRAPH))
    struct.pack_into("<I", blob, at, value)
    return bytes(blob)


def test_decode_inverts_encode():
    assert decode(encode(GRAPH)) == GRAPH
    assert HelloCompiler().verify_blob(encode(GRAPH), {}, runtime="edgecore") == []


def test_describe():
    assert describe(encode(GRAPH)) == [
        "input %0: rank 2",
        "input %1: rank 1",
        "constant %2: float32 [3]",
        "node %3: mul(%0, %2)",
        "node %4: relu(add(%3, %1)), an output",
    ]


DAMAGED = [
    (changed(0, 0), "not written by edgecore-hello"),
    (changed(8, 2), "version 2"),
    *((changed(COUNTS + 4 * i, n), "damaged") for i in range(4) for n in (0, 3, 1000, 0xFFFFFFFF)),
    (changed(28, 9), "damaged"),  # the rank of an input
    (changed(36, 0xFFFFFFFF), "damaged"),  # the rank of a constant
    (changed(40, 0x80000000), "damaged"),  # its size
    (changed(56, 3), "damaged"),  # an operator
    (changed(60, 2), "damaged"),  # its relu
    (changed(64, 3), "damaged"),  # an operand that is computed later
    (changed(88, 2), "damaged"),  # an output that is not the result of a node
]


@pytest.mark.parametrize(("blob", "message"), DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_blob_is_rejected(tmp_path, pte, blob, message):
    with pytest.raises(FormatError, match=message):
        HelloCompiler().verify_blob(blob, {}, runtime="edgecore")
    path = tmp_path / "model.pte"
    path.write_bytes(pte.replace(encode(GRAPH), blob))
    with pytest.raises(ExecutionError, match=message):
        edgecore.load(path)


def test_a_truncated_blob_is_rejected():
    blob = encode(GRAPH)
    for size in range(len(blob)):
        with pytest.raises(FormatError):
            decode(blob[:size])
    with pytest.raises(FormatError, match="1 bytes follow"):
        decode(blob + b"\0")


def test_no_changed_byte_crashes_the_process(tmp_path, pte):
    """Change each byte of the blob: the file is rejected or runs."""
    start, blob = pte.index(encode(GRAPH)), encode(GRAPH)
    inputs = (torch.randn(2, 3), torch.randn(3))
    for index in range(len(blob)):
        content = bytearray(pte)
        content[start + index] ^= 0x81
        path = tmp_path / "model.pte"
        path.write_bytes(content)
        try:
            edgecore.load(path).forward(*inputs)
        except ExecutionError:
            continue
