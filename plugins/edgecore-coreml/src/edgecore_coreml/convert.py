"""Convert a partition with coremltools, whose output is kept off the terminal."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore_coreml.aten import to_aten
from edgecore_coreml.options import FUNCTIONS_TARGET, TARGETS, CoreMLOptions
from edgecore_coreml.package import Package, State

_PALETTE = "palette"
_CONSTANT_EXPRESSIONS = "iOS16"  # the first system with compressed weights
_GROUPED_SHAPES = "iOS18"  # the first with enumerated shapes of several inputs
_STATES = "iOS18"  # the first with states
_OUTSIDE_BIASES = "iOS18"  # the first with convolutions whose bias is an input
_DTYPES = {torch.float32: np.float32, torch.float16: np.float16}  # Core ML has no integers but those of 32 bits
_HALF = "iOS16"  # the first with inputs and outputs of float16


@dataclass(frozen=True)
class Converted:
    """A Core ML model, the oldest system that runs it, and what coremltools wrote to the terminal."""

    package: Package
    target: str
    log: str


def convert(program: ExportedProgram, options: CoreMLOptions) -> Converted:
    """Convert a partition to a Core ML model for the oldest deployment target that has all that it needs.

    Raises:
        CompileError: coremltools cannot convert the partition. The message is coremltools' own.
    """
    rewritten, log = to_aten(program), io.StringIO()
    needed = options.minimum_deployment_target or _oldest_target(program, options)
    candidates = [needed] if options.minimum_deployment_target else list(TARGETS)[list(TARGETS).index(needed) :]
    with quiet(log):
        for target in candidates:
            try:
                package = _convert(rewritten, options, target)
                break
            except Exception as error:
                if target == candidates[-1] or "iOS" not in str(error):
                    said = " ".join(str(error).split())[:500] or type(error).__name__
                    raise CompileError(f"coremltools cannot convert the partition for {target}: {said}") from error
    return Converted(package, target, log.getvalue())


def _oldest_target(program: ExportedProgram, options: CoreMLOptions) -> str:
    """Return the oldest deployment target that the signature and the options of a partition allow."""
    signature = program.graph_signature
    vals = [node.meta.get("val") for node in program.graph.nodes]
    enumerated = options.enumerated_shapes or {}
    if options.multimethod_weight_sharing_strategy == "POSITIONAL":
        return FUNCTIONS_TARGET
    if signature.buffers_to_mutate or len(enumerated) > 1:
        return _STATES if signature.buffers_to_mutate else _GROUPED_SHAPES
    if not options.take_over_constant_data and any(map(_has_bias, program.graph.nodes)):
        return _OUTSIDE_BIASES
    if any(isinstance(val, torch.Tensor) and val.dtype == torch.float16 for val in vals):
        return _HALF
    return _CONSTANT_EXPRESSIONS if options.weight_compression != "none" else "iOS15"


def _has_bias(node: Node) -> bool:
    return node.target is torch.ops.aten.convolution.default and node.args[2] is not None


def _convert(program: ExportedProgram, options: CoreMLOptions, target: str) -> Package:
    import coremltools as ct

    precision = options.compute_precision or "FLOAT32"  # which leaves values of float16 as they are
    model = ct.convert(
        program,
        source="pytorch",
        convert_to="mlprogram",
        inputs=_inputs(program, options),
        outputs=_outputs(program),
        compute_precision=ct.precision[precision],
        minimum_deployment_target=ct.target[target],
        compute_units=ct.ComputeUnit[options.compute_unit],
        skip_model_load=True,
    )
    model = _compressed(model, options.weight_compression)
    spec = model.get_spec()
    return Package(
        *contents(model),
        tuple(item.name for item in spec.description.input),
        tuple(item.name for item in spec.description.output),
        _states(program, [item.name for item in spec.description.state]),
    )


def contents(model: Any) -> tuple[bytes, bytes]:
    """Return the specification and the file of the weights of a model of coremltools."""
    weights = Path(model.weights_dir or "") / "weight.bin"
    data = weights.read_bytes() if model.weights_dir and weights.is_file() else b""
    return model.get_spec().SerializeToString(deterministic=True), data


def _states(program: ExportedProgram, names: Sequence[str]) -> tuple[State, ...]:
    """Return the mutable buffers of a partition with the names of their states in the model.

    Raises:
        CompileError: A buffer is no state of the model.
    """
    vals = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    mutated = set(program.graph_signature.buffers_to_mutate.values())
    states = []
    for name, buffer in program.graph_signature.inputs_to_buffers.items():
        if buffer not in mutated:
            continue
        state = re.sub(r"\W", "_", buffer)  # as coremltools names it
        if state not in names:
            raise CompileError(f"coremltools made no state of the buffer {buffer}; its states: {', '.join(names)}")
        val = vals[name]
        states.append(State(buffer, state, str(val.dtype).removeprefix("torch."), tuple(val.shape)))
    return tuple(states)


def _inputs(program: ExportedProgram, options: CoreMLOptions) -> list[Any] | None:
    """Return the types of the inputs if some have enumerated shapes, else None: coremltools derives them."""
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
    """Return the types of the outputs, which have the dtypes of the program also if Core ML computes in others."""
    import coremltools as ct

    vals = {node.name: node.meta["val"] for node in program.graph.nodes if node.op != "output"}
    dtypes = [vals[name].dtype for name in program.graph_signature.user_outputs]
    return [ct.TensorType(dtype=_DTYPES.get(dtype, np.int32)) for dtype in dtypes]


def _compressed(model: Any, compression: str) -> Any:
    if compression == "none":
        return model
    import coremltools.optimize.coreml as cto

    if compression.startswith(_PALETTE):
        palette = cto.OpPalettizerConfig(mode="uniform", nbits=int(compression.removeprefix(_PALETTE)))
        return cto.palettize_weights(model, cto.OptimizationConfig(global_config=palette))
    linear = cto.OpLinearQuantizerConfig(mode="linear_symmetric", dtype="int8")
    return cto.linear_quantize_weights(model, cto.OptimizationConfig(global_config=linear))


@contextmanager
def quiet(log: io.StringIO) -> Iterator[None]:
    """Write to `log` all that coremltools prints or logs, also when it is imported."""
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
