"""Compile a partition into a blob: build the model operator by operator, and write or compile it."""

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
from edgecore_openvino.operators import TABLE
from edgecore_openvino.operators.builder import OV_TYPES, Builder

DEVICE, PAYLOAD, HALF_WEIGHTS = "device", "payload", "half_weights"
"""Keys of compile specs; all others are OpenVINO's properties. executorch's backend has `device`, too."""


def preprocess(program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
    """Compile one partition: a program of its own whose weights are placeholders, as its inputs are.

    Raises:
        CompileError: OpenVINO does not compile the model for the device (`payload="blob"`).
    """
    properties = {spec.key: spec.value.decode() for spec in specs}
    device, kind = properties.pop(DEVICE, "CPU"), properties.pop(PAYLOAD, "portable")
    half_weights = properties.pop(HALF_WEIGHTS, "") == "yes"
    part = PartitionView(program)
    inputs, outputs = (tuple(_argument(part, node) for node in nodes) for nodes in (part.inputs, part.outputs))
    model = build(part, inputs)
    if half_weights:
        _halve(model)
    with tempfile.TemporaryDirectory() as name:
        content, weights = _written(model, Path(name))
        compatibility = f"openvino-ir {VERSION}"
        if kind == "blob":
            content, weights, compatibility = _compiled(Path(name), device, properties), b"", _compiled_for(device)
    payload = Payload(
        Kind.DEVICE if kind == "blob" else Kind.PORTABLE, inputs, outputs, device, content, weights, properties
    )
    held = sum(part.max_bytes(node) for node in part.calls if isinstance(node.meta["val"], torch.Tensor))
    return PreprocessResult(
        blob=encode(payload),
        debug_handle_map={0: debug_handles(*part.calls)},
        compatibility=compatibility,
        memory=(MemoryNeed("persistent", held),) if held else (),
    )


def build(part: PartitionView, inputs: Sequence[Argument]) -> ov.Model:
    """Build the model of a partition. Its names depend on nothing else, so equal partitions give equal bytes."""
    builder = Builder(part)
    parameters = []
    for node, argument in zip(part.inputs, inputs, strict=True):
        sizes = [ov.Dimension(lower, upper) for lower, upper in argument.sizes]
        parameters.append(ops.parameter(ov.PartialShape(sizes), OV_TYPES[argument.dtype]))
        builder.values[node] = parameters[-1]
    for node in part.calls:
        if node.target is operator.getitem:
            producer: Any = node.args[0]
            results = builder.values[producer]
            index: Any = node.args[1]
            if index < len(results):  # results that nobody uses are not computed
                builder.values[node] = results[index]
            continue
        builder.values[node] = TABLE.rows[node.target].lower(builder, node)
    results = [ops.result(_computed(builder.values[node], parameters)) for node in part.outputs]
    # Before there is a model, which makes tensor names of these.
    for letter, ends in (("input", parameters), ("output", results)):
        for index, end in enumerate(ends):
            end.set_friendly_name(f"{letter}_{index}")
    model = ov.Model(results, parameters, "edgecore")
    for index, op in enumerate(model.get_ordered_ops()):
        if op not in (*parameters, *results):
            op.set_friendly_name(f"{op.get_type_name()}_{index}")
    return model


def _computed(value: Any, parameters: Sequence[Any]) -> Any:
    """Pass a result that is an input through an operator; OpenVINO 2026.4's CPU device does not copy it otherwise."""
    return ops.convert(value, value.get_element_type().to_string()) if value in parameters else value


def _argument(part: PartitionView, node: Node) -> Argument:
    sizes = zip(part.min_shape(node), part.max_shape(node), strict=True)
    return Argument(node.meta["val"].dtype, tuple(sizes))


def _halve(model: ov.Model) -> None:
    from openvino._offline_transformations import compress_model_transformation

    compress_model_transformation(model)


def _written(model: ov.Model, folder: Path) -> tuple[bytes, bytes]:
    text, weights = folder / "model.xml", folder / "model.bin"
    ov.serialize(model, text, weights)
    return text.read_bytes(), weights.read_bytes()


def _compiled(folder: Path, device: str, properties: dict[str, str]) -> bytes:
    pairs = [f"{key}={value}" for key, value in properties.items()]
    command = [sys.executable, "-m", "edgecore_openvino.compile_blob", str(folder), device, *pairs]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise CompileError(
            f"OpenVINO does not compile for {device}: {done.stderr.strip()[-500:] or f'status {done.returncode}'}; "
            "payload='portable' leaves it to the machine that runs the file"
        )
    return (folder / "model.blob").read_bytes()


def _compiled_for(device: str) -> str:
    return f"openvino-blob {VERSION} {device} {ov.get_version()}"
