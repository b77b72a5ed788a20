"""Compile a partition into a blob: build an OpenVINO model operator by operator, then write or compile the model."""

from __future__ import annotations

import operator
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openvino as ov
import torch
from openvino import opset15 as ops
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.plugin import CompileSpec, MemoryNeed, PreprocessResult
from edgecore.sdk import PartitionView, debug_handles
from edgecore_openvino.blob import VERSION, Argument, Kind, Payload, encode
from edgecore_openvino.ir import WHOLE, graph_of
from edgecore_openvino.operators import TABLE
from edgecore_openvino.operators.builder import OV_TYPES, Builder

DEVICE, PAYLOAD, HALF_WEIGHTS = "device", "payload", "half_weights"
"""Keys of compile specs. The keys of all other compile specs are names of OpenVINO's properties.

ExecuTorch's OpenVINO backend has the key `device` too.
"""


def preprocess(program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
    """Compile one partition into a blob.

    Raises:
        CompileError: With `payload="blob"`, OpenVINO cannot compile the model for the device.
    """
    properties = {spec.key: spec.value.decode() for spec in specs}
    device, kind = properties.pop(DEVICE, "CPU"), properties.pop(PAYLOAD, "portable")
    half_weights = properties.pop(HALF_WEIGHTS, "") == "yes"
    partition = PartitionView(program)
    inputs, outputs = (
        tuple(_argument(partition, node) for node in nodes) for nodes in (partition.inputs, partition.outputs)
    )
    model, handles = build(partition, inputs)
    if half_weights:
        _compress_to_fp16(model)
    with tempfile.TemporaryDirectory() as name:
        content, weights = _serialize(model, Path(name))
        ir = content
        compatibility = f"openvino-ir {VERSION}"
        if kind == "blob":
            content, weights, compatibility = _compile(Path(name), device, properties), b"", _blob_compatibility(device)
    payload = Payload(
        Kind.DEVICE if kind == "blob" else Kind.PORTABLE, inputs, outputs, device, content, weights, properties
    )
    max_bytes = sum(partition.max_bytes(node) for node in partition.calls if isinstance(node.meta["val"], torch.Tensor))
    return PreprocessResult(
        blob=encode(payload),
        debug_handle_map={WHOLE: debug_handles(*partition.calls), **handles},
        graph=graph_of(ir) if kind == "blob" else None,
        compatibility=compatibility,
        memory=(MemoryNeed("persistent", max_bytes),) if max_bytes else (),
    )


def build(partition: PartitionView, inputs: Sequence[Argument]) -> tuple[ov.Model, dict[int | str, tuple[int, ...]]]:
    """Build the OpenVINO model of a partition, and list the debug handles of its operators.

    Operators get numbered names such as `Convolution_3`, so equal partitions give equal bytes, and traces name them by
    their numbers. A constant has no handles.
    """
    builder = Builder(partition)
    parameters = []
    for node, argument in zip(partition.inputs, inputs, strict=True):
        sizes = [ov.Dimension(lower, upper) for lower, upper in argument.sizes]
        parameters.append(ops.parameter(ov.PartialShape(sizes), OV_TYPES[argument.dtype]))
        builder.values[node] = parameters[-1]
        builder.owners[parameters[-1].get_name()] = None
    for node in partition.calls:
        if node.target is operator.getitem:
            producer: Any = node.args[0]
            results = builder.values[producer]
            index: Any = node.args[1]
            if index < len(results):  # a `Build` may leave out results that nothing reads
                builder.values[node] = results[index]
            continue
        builder.values[node] = TABLE.rows[node.target].lower(builder, node)
        builder.own(builder.values[node], node)
    results = [ops.result(_copied(builder.values[node], parameters)) for node in partition.outputs]
    # `ov.Model` derives the names of tensors from these names, so set them first.
    for letter, ends in (("input", parameters), ("output", results)):
        for index, end in enumerate(ends):
            end.set_friendly_name(f"{letter}_{index}")
    model = ov.Model(results, parameters, "edgecore")
    handles: dict[int | str, tuple[int, ...]] = {}
    for index, op in enumerate(model.get_ordered_ops()):
        if op not in (*parameters, *results):
            op.set_friendly_name(f"{op.get_type_name()}_{index}")
            owner = builder.owners.get(op.get_name())
            if owner is not None and op.get_type_name() != "Constant" and (found := debug_handles(owner)):
                handles[index] = found
    return model, handles


def _copied(value: Any, parameters: Sequence[Any]) -> Any:
    """Add a conversion to the same dtype, which copies, if `value` is an input of the model.

    Without this operator between an input and an output, OpenVINO 2026.4 on CPU does not write the output.
    """
    return ops.convert(value, value.get_element_type().to_string()) if value in parameters else value


def _argument(partition: PartitionView, node: Node) -> Argument:
    sizes = zip(partition.min_shape(node), partition.max_shape(node), strict=True)
    return Argument(node.meta["val"].dtype, tuple(sizes))


def _compress_to_fp16(model: ov.Model) -> None:
    """Store float32 weights of a model as fp16."""
    from openvino._offline_transformations import compress_model_transformation

    compress_model_transformation(model)


def _serialize(model: ov.Model, folder: Path) -> tuple[bytes, bytes]:
    """Write a model into a folder, and return its XML text and its weights."""
    text, weights = folder / "model.xml", folder / "model.bin"
    ov.serialize(model, text, weights)
    return text.read_bytes(), weights.read_bytes()


def _compile(folder: Path, device: str, properties: dict[str, str]) -> bytes:
    """Compile the model in a folder in a separate process, and return the compiled model."""
    pairs = [f"{key}={value}" for key, value in properties.items()]
    command = [sys.executable, "-m", "edgecore_openvino.compile_blob", str(folder), device, *pairs]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise CompileError(
            f"OpenVINO cannot compile for {device}: {done.stderr.strip()[-500:] or f'status {done.returncode}'}; "
            "with payload='portable' the machine that runs the file compiles instead"
        )
    return (folder / "model.blob").read_bytes()


def _blob_compatibility(device: str) -> str:
    return f"openvino-blob {VERSION} {device} {ov.get_version()}"
