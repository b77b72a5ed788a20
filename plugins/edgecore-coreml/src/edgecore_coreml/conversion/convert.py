"""Convert a partition with coremltools, and keep coremltools' output off the terminal."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from edgecore.errors import CompileError
from edgecore.sdk import PartitionView, mutable_buffers
from edgecore_coreml.conversion.aten import to_aten
from edgecore_coreml.conversion.converters import register
from edgecore_coreml.conversion.masks import IN_FLOAT32
from edgecore_coreml.conversion.targets import candidates
from edgecore_coreml.options import CoreMLOptions
from edgecore_coreml.package.files import Package, State
from edgecore_coreml.weights.palettes import PASS, Palette, palette_config, palettes_of

# Dtypes of outputs besides int32, the only integer dtype of Core ML's inputs and outputs.
_DTYPES = {torch.float32: np.float32, torch.float16: np.float16}
aten = torch.ops.aten
_ROUNDING = (aten.floor.default, aten.ceil.default, aten.round.default, aten.div.Tensor_mode, aten._to_copy.default)
"""Operators that round 41 / 41 to 0 if coremltools multiplies by the reciprocal: 41 * (1 / 41) is 0.99999994."""


@dataclass(frozen=True)
class Converted:
    """A Core ML model, the oldest system that runs it, the reason for that system, and what coremltools printed."""

    package: Package
    target: str
    reason: str
    log: str


def convert(program: ExportedProgram, options: CoreMLOptions) -> Converted:
    """Convert a partition to a Core ML model for the oldest deployment target that supports it.

    Raises:
        CompileError: coremltools cannot convert the partition (with coremltools' message); or the user's deployment
            target lacks a feature that the partition needs.
    """
    rewritten, log = to_aten(program, in_half=options.compute_precision == "FLOAT16"), io.StringIO()
    palettes = palettes_of(PartitionView(program))
    targets = candidates(program, options, palettes)
    with quiet(log):
        register()
        for target, reason in targets:
            try:
                package = _convert(rewritten, options, target, palettes)
                break
            except Exception as error:
                if target == targets[-1][0] or "iOS" not in str(error):
                    message = " ".join(str(error).split())[:500] or type(error).__name__
                    raise CompileError(f"coremltools cannot convert the partition for {target}: {message}") from error
    return Converted(package, target, reason, log.getvalue())


def _convert(program: ExportedProgram, options: CoreMLOptions, target: str, palettes: Mapping[str, Palette]) -> Package:
    import coremltools as ct

    precision = options.compute_precision or "FLOAT32"  # "FLOAT32" leaves float16 values unchanged
    passes = ct.PassPipeline()
    if any(node.target in _ROUNDING for node in program.graph.nodes):
        passes.remove_passes({"common::divide_to_multiply"})
    if palettes:  # insert the pass first, because other passes change weights
        passes.insert_pass(0, PASS)
        passes.set_options(PASS, {"config": palette_config(palettes)})
    model = ct.convert(
        program,
        source="pytorch",
        convert_to="mlprogram",
        inputs=_inputs(program, options),
        outputs=_outputs(program),
        compute_precision=_in_half(ct) if precision == "FLOAT16" else ct.precision[precision],
        minimum_deployment_target=ct.target[target],
        compute_units=ct.ComputeUnit[options.compute_unit],
        pass_pipeline=passes,
        skip_model_load=True,
    )
    spec = model.get_spec()
    return Package(
        *contents(model),
        tuple(item.name for item in spec.description.input),
        tuple(item.name for item in spec.description.output),
        _states(program, [item.name for item in spec.description.state]),
    )


def _in_half(ct: Any) -> Any:
    """Return float16 precision for all operators of a model, except those whose names begin with `IN_FLOAT32`."""
    return ct.transform.FP16ComputePrecision(op_selector=lambda op: not op.name.startswith(IN_FLOAT32))


def contents(model: Any) -> tuple[bytes, bytes]:
    """Return the serialized specification of a coremltools model, and its weight file's bytes (b"" without weights)."""
    weights = Path(model.weights_dir or "") / "weight.bin"
    data = weights.read_bytes() if model.weights_dir and weights.is_file() else b""
    return model.get_spec().SerializeToString(deterministic=True), data


def _states(program: ExportedProgram, names: Sequence[str]) -> tuple[State, ...]:
    """Return each mutable buffer of a partition with the name of its state in the Core ML model.

    Raises:
        CompileError: coremltools made no state for a buffer.
    """
    states = []
    for buffer in mutable_buffers(program):
        state = re.sub(r"\W", "_", buffer.name)  # coremltools names the state like this
        if state not in names:
            raise CompileError(f"coremltools made no state of the buffer {buffer.name}; its states: {', '.join(names)}")
        dtype = str(buffer.initial.dtype).removeprefix("torch.")
        states.append(State(buffer.name, state, dtype, tuple(buffer.initial.shape), bool(buffer.initial.any())))
    return tuple(states)


def _inputs(program: ExportedProgram, options: CoreMLOptions) -> list[Any] | None:
    """Return the types of the inputs if shapes are enumerated; otherwise None, and coremltools derives the types."""
    if not options.enumerated_shapes:
        return None
    import coremltools as ct

    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    vals = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    if missing := sorted(set(options.enumerated_shapes) - set(names)):
        raise CompileError(f"enumerated_shapes has {', '.join(missing)}; the inputs are {', '.join(names)}")
    types = []
    for name in names:
        shapes = options.enumerated_shapes.get(name)
        shape = ct.EnumeratedShapes(shapes=shapes) if shapes else ct.Shape(list(vals[name].shape))
        types.append(ct.TensorType(name=name, shape=shape))
    return types


def _outputs(program: ExportedProgram) -> list[Any]:
    """Return the types of the outputs: the program's dtypes, even if Core ML computes in other dtypes."""
    import coremltools as ct

    vals = {node.name: node.meta["val"] for node in program.graph.nodes if node.op != "output"}
    dtypes = [vals[name].dtype for name in program.graph_signature.user_outputs]
    return [ct.TensorType(dtype=_DTYPES.get(dtype, np.int32)) for dtype in dtypes]


@contextmanager
def quiet(log: io.StringIO) -> Iterator[None]:
    """Redirect what coremltools prints or logs, also while it is imported, to `log`."""
    logger, handler = logging.getLogger("coremltools"), logging.StreamHandler(log)
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        with redirect_stdout(log), redirect_stderr(log), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
