"""Compile a partition into a blob: build an OpenVINO model operator by operator, then serialize or compile it."""

from __future__ import annotations

import operator
import re
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
from edgecore.plugin import CompileSpec, MemoryNeed, PreprocessResult, exit_text, run_command
from edgecore.sdk import PartitionView, debug_handles, reaches_softmax
from edgecore_openvino.blob.format import VERSION, Argument, Kind, Payload, encode
from edgecore_openvino.blob.graph import WHOLE, graph_of
from edgecore_openvino.operators import TABLE
from edgecore_openvino.operators.builder import OV_TYPES, Builder, whole

DEVICE, PAYLOAD, HALF_WEIGHTS = "device", "payload", "half_weights"
"""Keys of compile specs. All other keys are names of OpenVINO properties.

ExecuTorch's OpenVINO backend has the key `device`, too.
"""

PRECISION = "INFERENCE_PRECISION_HINT"

_KINDS = {"portable": Kind.PORTABLE, "blob": Kind.DEVICE, "executorch": Kind.BARE}


def preprocess(program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
    """Compile one partition into a blob.

    Raises:
        CompileError: With `payload="blob"` or `"executorch"`, OpenVINO cannot compile the model for the device.
    """
    properties = {spec.key: spec.value.decode() for spec in specs}
    device, kind = properties.pop(DEVICE, "CPU"), properties.pop(PAYLOAD, "portable")
    half_weights = properties.pop(HALF_WEIGHTS, "") == "yes"
    partition = PartitionView(program)
    inputs, outputs = (
        tuple(_argument(partition, node) for node in nodes) for nodes in (partition.inputs, partition.outputs)
    )
    model, handles = build(partition, inputs, half_weights, properties.get(PRECISION, "f32"))
    with tempfile.TemporaryDirectory() as name:
        content, weights = _serialize(model, Path(name))
        ir = content
        compatibility = f"openvino-ir {VERSION}"
        if kind != "portable":
            content, weights, compatibility = _compile(Path(name), device, properties), b"", _blob_compatibility(device)
    payload = Payload(_KINDS[kind], inputs, outputs, device, content, weights, properties)
    max_bytes = sum(partition.max_bytes(node) for node in partition.calls if isinstance(node.meta["val"], torch.Tensor))
    return PreprocessResult(
        blob=encode(payload),
        debug_handle_map={WHOLE: debug_handles(*partition.calls), **handles},
        graph=graph_of(ir) if kind != "portable" else None,
        compatibility=compatibility,
        memory=(MemoryNeed("persistent", max_bytes),) if max_bytes else (),
    )


def build(
    partition: PartitionView, inputs: Sequence[Argument], half_weights: bool = False, precision: str = "f32"
) -> tuple[ov.Model, dict[int | str, tuple[int, ...]]]:
    """Build the OpenVINO model of a partition, and list the debug handles of its operators.

    Operators have numbered names such as `Convolution_3`. So equal partitions give equal bytes, and traces can identify
    operators by number. Constants have no handles.
    """
    builder = Builder(partition, half_weights, precision)
    parameters = []
    for node, argument in zip(partition.inputs, inputs, strict=True):
        sizes = [ov.Dimension(lower, upper) for lower, upper in argument.sizes]
        parameters.append(ops.parameter(ov.PartialShape(sizes), OV_TYPES[argument.dtype]))
        value = whole(parameters[-1], argument.dtype)
        builder.values[node] = (
            builder.scores(value) if argument.dtype == torch.float32 and reaches_softmax(node) else value
        )
        builder.owners[parameters[-1].get_name()] = None
    for node in partition.calls:
        if node.target is operator.getitem:
            producer: Any = node.args[0]
            results = builder.values[producer]
            index: Any = node.args[1]
            if index < len(results):  # a lowering function may omit results that nothing reads
                builder.values[node] = results[index]
            continue
        builder.values[node] = TABLE.rows[node.target].lower(builder, node)
        builder.own(builder.values[node], node)
    results = [ops.result(_returned(builder.values[node], node, parameters)) for node in partition.outputs]
    # Name inputs and outputs before creating `ov.Model`, which derives its tensor names from these friendly names.
    for letter, ends in (("input", parameters), ("output", results)):
        for index, end in enumerate(ends):
            end.set_friendly_name(f"{letter}_{index}")
    model = ov.Model(results, parameters, "edgecore")
    handles: dict[int | str, tuple[int, ...]] = {}
    for index, op in enumerate(model.get_ordered_ops()):
        if op not in (*parameters, *results):
            op.set_friendly_name(f"{op.get_type_name()}_{index}")
            owner = builder.owners.get(op.get_name())
            if owner is not None and op.get_type_name() != "Constant" and (of_owner := debug_handles(owner)):
                handles[index] = of_owner
    return model, handles


def _returned(value: Any, node: Node, parameters: Sequence[Any]) -> Any:
    """Convert `value` to the dtype of the partition's result `node`; also convert an input that is returned unchanged.

    Such a conversion copies the input: OpenVINO 2026.4 on CPU does not write an output that is directly an input.
    """
    dtype = OV_TYPES[node.meta["val"].dtype]
    needs_conversion = value in parameters or value.get_element_type() != dtype
    return ops.convert(value, dtype.to_string()) if needs_conversion else value


def _argument(partition: PartitionView, node: Node) -> Argument:
    sizes = zip(partition.min_shape(node), partition.max_shape(node), strict=True)
    return Argument(node.meta["val"].dtype, tuple(sizes))


_CONVERT = re.compile(rb'name="(\w+)" type="Convert"[^>]*>\s*<data [^>]*/>')
_DECOMPRESSION = b'<rt_info><attribute name="decompression" version="0" /></rt_info>'


def _serialize(model: ov.Model, folder: Path) -> tuple[bytes, bytes]:
    """Write a model into a folder, and return its XML text and its weights.

    Each conversion of a float16 constant to float32 is marked. Without a mark, OpenVINO would fold the conversion when
    it compiles the model. OpenVINO's Python interface cannot set the mark, so it is inserted into the XML text.
    """
    text, weights = folder / "model.xml", folder / "model.bin"
    ov.serialize(model, text, weights)
    marked = {op.get_friendly_name().encode() for op in model.get_ordered_ops() if _is_decompression(op)}

    def mark(layer: re.Match[bytes]) -> bytes:
        return layer[0] + (_DECOMPRESSION if layer[1] in marked else b"")

    content = _CONVERT.sub(mark, text.read_bytes())
    text.write_bytes(content)
    return content, weights.read_bytes()


def _is_decompression(op: Any) -> bool:
    if op.get_type_name() != "Convert":
        return False
    source = op.input_value(0)
    return bool(source.get_node().get_type_name() == "Constant" and source.get_element_type() == ov.Type.f16)


def _compile(folder: Path, device: str, properties: dict[str, str]) -> bytes:
    """Compile the model in a folder in a separate process, and return the compiled model."""
    # By default, OpenVINO on CPU quantizes the inputs of layers with integer weights while the model runs: turn it off.
    if device == "CPU" or device.startswith("AUTO"):
        properties = {**properties, "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    if device == "CPU" and "NUM_STREAMS" in properties:
        # OpenVINO 2026.4 crashes while it fuses some networks with one thread per stream, so disable this fusion.
        properties = {**properties, "SNIPPETS_MODE": "DISABLE"}
    pairs = [f"{key}={value}" for key, value in properties.items()]
    command = [sys.executable, "-m", "edgecore_openvino.blob.compile", str(folder), device, *pairs]
    done = run_command(command)
    if done.status:
        raise CompileError(
            f"OpenVINO cannot compile for {device}: {done.err.strip()[-500:] or exit_text(done.status)}; "
            "with payload='portable' the machine that runs the file compiles instead"
        )
    return (folder / "model.blob").read_bytes()


def _blob_compatibility(device: str) -> str:
    return f"openvino-blob {VERSION} {device} {ov.get_version()}"
