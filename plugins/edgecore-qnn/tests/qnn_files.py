"""Files with one QNN delegate whose blob a test writes itself; they have no metadata, so they need `trust=True`."""

from __future__ import annotations

from math import prod
from typing import Any

from onnx import TensorProto, helper

from edgecore import format as fmt
from edgecore_qnn.blob import Header, Tensor, encode
from edgecore_qnn.provider.process import ask
from edgecore_qnn.provider.socs import SOCS

SHAPE = [1, 4, 4, 8]
SCALE, ZERO_POINT = 0.5, 100

_TYPES = {"float32": (TensorProto.FLOAT, fmt.ScalarType.FLOAT, 4), "uint8": (TensorProto.UINT8, fmt.ScalarType.BYTE, 1)}


def relu_blob(dtype: str = "float32", soc: str = "SM8650", **facts: Any) -> bytes:
    """Return a blob that computes relu of a tensor of `SHAPE`; `facts` replace fields of its header.

    A tensor of uint8 has the scale `SCALE` and the zero point `ZERO_POINT`.
    """
    names = ("x", "y")
    values = [helper.make_tensor_value_info(name, _TYPES[dtype][0], SHAPE) for name in names]
    if dtype == "float32":
        nodes, constants = [helper.make_node("Relu", ["x"], ["y"], name="relu")], []
    else:
        constants = [
            helper.make_tensor("scale", TensorProto.FLOAT, [], [SCALE]),
            helper.make_tensor("zero", TensorProto.UINT8, [], [ZERO_POINT]),
        ]
        nodes = [
            helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["a"], name="from_uint8"),
            helper.make_node("Relu", ["a"], ["b"], name="relu"),
            helper.make_node("QuantizeLinear", ["b", "scale", "zero"], ["y"], name="to_uint8"),
        ]
    graph = helper.make_graph(nodes, "relu", values[:1], values[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    target = SOCS[soc]
    answer = ask("compile", model.SerializeToString(), target, {}, seconds=120)
    fields = {name: answer.result[name] for name in ("sdk_build", "core_api", "graph", "partition_name")}
    inputs, outputs = ([Tensor(name, dtype, SHAPE)] for name in names)
    header = Header(
        **{
            "provider": "test",
            "soc": target.name,
            "soc_id": target.number,
            "htp_arch": target.htp_arch,
            "inputs": inputs,
            "outputs": outputs,
            **fields,
            **facts,
        }
    )
    return encode(header, answer.context)


def file_of(*blobs: bytes, dtype: str = "float32", shape: list[int] | None = None) -> bytes:
    """Return a file that gives its input to each delegate and returns all results."""
    sizes = SHAPE if shape is None else shape
    scalar_type, size = _TYPES[dtype][1:]
    step = -(-prod(sizes) * size // 64) * 64
    count = len(blobs) + 1
    tensors = [
        fmt.Tensor(
            scalar_type,
            sizes=sizes,
            dim_order=list(range(len(sizes))),
            allocation_info=fmt.AllocationDetails.at(1, index * step),
        )
        for index in range(count)
    ]
    calls = [fmt.Instruction(fmt.DelegateCall(index, [0, index + 1])) for index in range(len(blobs))]
    plan = fmt.ExecutionPlan(
        name="forward",
        values=[fmt.EValue(tensor) for tensor in tensors],
        inputs=[0],
        outputs=list(range(1, count)),
        chains=[fmt.Chain(inputs=[], outputs=[], instructions=calls)],
        operators=[],
        delegates=[
            fmt.BackendDelegate("QnnBackend", fmt.BackendDelegateDataReference(index=index))
            for index in range(len(blobs))
        ],
        non_const_buffer_sizes=[0, step * count],
    )
    return fmt.write_pte(fmt.PteFile(fmt.Program(execution_plan=[plan]), delegate_blobs=list(blobs)))
