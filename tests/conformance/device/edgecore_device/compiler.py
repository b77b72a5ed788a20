"""The compiler of the device for tests: the operator table, the options, and the blob of a partition."""

import os
import struct

import torch
from pydantic import BaseModel, ConfigDict, Field

from edgecore.plugin import CompileSpec, MemoryNeed, NamedBlob, PreprocessResult
from edgecore.sdk import OperatorRow, OperatorTable, PartitionView, at_most_dims, contiguous_only, debug_handles

aten = torch.ops.aten
FLOAT = (torch.float32,)
KEY = "initial." if os.environ.get("EDGECORE_DEVICE_FAULT") == "own-key" else ""
DTYPES = {torch.float32: 0, torch.int64: 1}


def _equal_shapes(query):
    shapes = [source.meta["val"].shape for source in query.node.args[:2] if isinstance(source, torch.fx.Node)]
    if len(shapes) < 2:
        return "an operand is a number"
    if query.node.kwargs:
        return "it has an alpha"
    return None if shapes[0] == shapes[1] else f"the shapes are {list(shapes[0])} and {list(shapes[1])}"


def _rows(query):
    indices = query.argument("indices")
    if query.argument("accumulate"):
        return "it accumulates"
    if len(indices) != 1 or indices[0] is None:
        return "the indices are not those of rows"
    matrix, index, values = (
        node.meta["val"] for node in (query.argument("self"), indices[0], query.argument("values"))
    )
    if index.dtype != torch.int64 or (matrix.dim(), index.dim(), values.dim()) != (2, 1, 2):
        return "it does not put whole rows into a matrix"
    return None if tuple(values.shape) == (index.shape[0], matrix.shape[1]) else "the values are broadcast"


TABLE = OperatorTable(
    [
        OperatorRow(aten.add.Tensor, FLOAT, "equal shapes", _equal_shapes, lower=0),
        OperatorRow(aten.mul.Tensor, FLOAT, "equal shapes", _equal_shapes, lower=1),
        OperatorRow(aten.mm.default, FLOAT, lower=2),
        OperatorRow(aten.index_put.default, FLOAT, "whole rows", _rows, lower=3, any_dtype=("indices",)),
    ],
    common=[contiguous_only, at_most_dims(4)],
)


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    hold_state: bool = Field(False, description="Keep mutable buffers in a state set of the backend.")


class DeviceCompiler:
    Options = Options

    def partitioner(self, options, *, runtime):
        can_hold = (lambda buffer: buffer.initial.dtype == torch.float32) if options.hold_state else None
        specs = [CompileSpec("hold_state", str(options.hold_state).encode())]
        return TABLE.partitioner("DeviceBackend", compile_specs=specs, can_hold=can_hold)

    def preprocess(self, program, specs):
        part = PartitionView(program)
        held = [buffer.node for buffer in part.buffers]
        values = {node: index for index, node in enumerate([*part.inputs, *part.constants, *held, *part.calls])}
        counts = (len(part.inputs), len(part.constants), len(held), len(part.calls), len(part.outputs))
        blob = [b"DEVICE\0\0", _numbers(1, *counts)]
        for node in part.inputs:
            blob.append(_numbers(DTYPES[node.meta["val"].dtype], node.meta["val"].dim()))
        for tensor in part.constants.values():
            blob += [_numbers(DTYPES[tensor.dtype], tensor.dim(), *tensor.shape), tensor.contiguous().numpy().tobytes()]
        for buffer in part.buffers:
            name = buffer.name.encode()
            blob += [_numbers(len(name)), name, _numbers(buffer.initial.dim(), *buffer.initial.shape)]
            blob.append(_numbers(values[buffer.update]))
        for node in part.calls:
            operands = [values[source] for source in _operands(node)]
            blob.append(_numbers(TABLE.rows[node.target].lower, *operands, *operands[-1:] * (3 - len(operands))))
        blob.append(_numbers(*(values[node] for node in part.outputs)))
        return PreprocessResult(
            b"".join(blob),
            named_data={
                KEY + buffer.name: NamedBlob(buffer.initial.contiguous().numpy().tobytes()) for buffer in part.buffers
            },
            debug_handle_map={index: debug_handles(node) for index, node in enumerate(part.calls)},
            memory=[MemoryNeed("scratch", sum(part.max_bytes(node, 16) for node in part.calls), space=1)],
        )

    def operator_support(self):
        return TABLE.support()

    def check(self):
        return []


def _operands(node):
    if node.target is aten.index_put.default:
        return [node.args[0], node.args[1][0], node.args[2]]
    return list(node.args[:2])


def _numbers(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)
