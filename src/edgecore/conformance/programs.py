"""Functions with which checks compile and run models and compare the results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

import edgecore
from edgecore.conformance.check import BackendUnderTest, Failed
from edgecore.conformance.samples.network_models import NETWORKS, Inputs
from edgecore.conformance.workers.remote import RemoteProgram
from edgecore.errors import NothingToQuantize
from edgecore.ir.dialect.dtypes import dtype_name
from edgecore.ir.torch_compat import pytree, quantized_operators
from edgecore.numerics.metrics import errors, magnitude, measure
from edgecore.quantize import make_plan, quantize_model

TOLERANCES = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 3e-2}
"""Maximum difference of two results, relative to the largest value, by dtype. Other dtypes must give equal results."""

DEQUANTIZE = quantized_operators().dequantize_per_tensor.default

STEPS = 2
"""Maximum difference of quantized results, in steps (multiples of the scale)."""

UNKNOWN_STEP = 2 / 255
"""Maximum step of an int8 result whose scale is unknown, relative to its largest absolute value.

The range has 255 steps, and the largest absolute value is at least half of the range.
"""


def integer_recipe(subject: BackendUnderTest) -> str | None:
    """Return the recipe that quantizes the suite's models for an integer-only backend; None for other backends.

    A backend counts as integer-only if it has a recipe that calibrates, and delegates no operator with a floating-point
    input or output in the suite's networks. The suite then quantizes its models by the first such recipe.
    """
    if "integer recipe" not in subject.cache:
        recipe = calibrating_recipe(subject)
        has_floats = recipe is None or any(_computes_with_floats(subject, name) for name in NETWORKS)
        subject.cache["integer recipe"] = None if has_floats else recipe
    cached: str | None = subject.cache["integer recipe"]
    return cached


def _computes_with_floats(subject: BackendUnderTest, name: str) -> bool:
    rows = _in_float(subject, name)[2].report().rows
    return any("float" in dtype for row in rows if row.where == subject.backend_id for dtype in row.dtypes)


def calibrating_recipe(subject: BackendUnderTest) -> str | None:
    """Return the backend's first quantization recipe that needs calibration samples, or None."""
    recipes: Mapping[str, Any] = getattr(subject.compiler, "recipes", dict)()
    return next((name for name, recipe in recipes.items() if recipe.calibrates), None)


def as_supported(
    subject: BackendUnderTest, model: torch.nn.Module, inputs: Inputs, dynamic_shapes: Any = None
) -> torch.nn.Module:
    """Return a model in the form that the backend supports: unchanged, or quantized by `integer_recipe`.

    Args:
        subject: The backend under test.
        model: The model in floating point.
        inputs: Its example inputs, which are also the calibration sample.
        dynamic_shapes: As for `torch.export.export`.

    Returns:
        `model`; or a module that computes the same in eager with quantize and dequantize operators.
    """
    recipe = integer_recipe(subject)
    return model if recipe is None else quantized(subject, recipe, model, inputs, dynamic_shapes)


def quantized(
    subject: BackendUnderTest, recipe: str, model: torch.nn.Module, inputs: Inputs, dynamic_shapes: Any = None
) -> torch.nn.Module:
    """Quantize a model with a recipe of the backend; return `model` if the recipe matches no layer."""
    exported = torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes)
    plan = make_plan(recipe, {subject.backend.name: subject.compiler})
    try:
        program = quantize_model(exported, plan, [inputs], dynamic_shapes).program
    except NothingToQuantize:
        return model
    module = program.module()
    for part in module.modules():
        part.training = False  # set the flag directly, because `eval` of an exported module raises
    return module


def network(subject: BackendUnderTest, name: str) -> tuple[torch.nn.Module, Inputs, Any]:
    """Return a network (quantized if `as_supported` quantizes it), its inputs, and its cached program."""
    if integer_recipe(subject) is None:
        return _in_float(subject, name)
    key = ("compiled", name)
    if key not in subject.cache:
        model, inputs = network_model(subject, name)
        subject.cache[key] = (model, inputs, compiled(subject, model, inputs))
    cached: tuple[torch.nn.Module, Inputs, Any] = subject.cache[key]
    return cached


def network_model(subject: BackendUnderTest, name: str) -> tuple[torch.nn.Module, Inputs]:
    """Return a network of the suite (quantized if `as_supported` quantizes it), and its inputs."""
    model, inputs = NETWORKS[name]()
    if integer_recipe(subject) is None:
        return model, inputs
    key = ("quantized", name)
    if key not in subject.cache:
        subject.cache[key] = as_supported(subject, model, inputs)
    quantized: torch.nn.Module = subject.cache[key]
    return quantized, inputs


def _in_float(subject: BackendUnderTest, name: str) -> tuple[torch.nn.Module, Inputs, Any]:
    key = ("float", name)
    if key not in subject.cache:
        subject.trying(f"compiling {name}")
        model, inputs = NETWORKS[name]()
        subject.cache[key] = (model, inputs, compiled(subject, model, inputs))
    cached: tuple[torch.nn.Module, Inputs, Any] = subject.cache[key]
    return cached


def compiled(subject: BackendUnderTest, model: Any, inputs: Any, **settings: Any) -> Any:
    """Compile a model with the backend, which need not support all operators."""
    return edgecore.compile(model, inputs, backends=[subject.backend], **settings)


def load(subject: BackendUnderTest, program: Any, **settings: Any) -> Any:
    """Load a compiled program, or the bytes of a file, with the load options under test.

    The options are left out if the program has no delegate of the backend. `settings` are passed to `edgecore.load`. If
    `subject.runner` (a command) runs the files, the result is a `RemoteProgram`, which loads its file when called.
    """
    has_delegates = isinstance(program, bytes) or subject.backend_id in program.report().delegates
    file = program if isinstance(program, bytes) else program.buffer
    settings = {"options": subject.options_of_load if has_delegates else None, "trust": True, **settings}
    if subject.runner is not None:
        return RemoteProgram(subject, file, **settings)
    return edgecore.load(file, **settings)


def outputs(result: Any) -> list[torch.Tensor]:
    """Convert the result of a call, one tensor or several, to a list."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


def eager(model: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Run a model in eager PyTorch, and return its results as a list."""
    with torch.no_grad():
        return outputs(model(*inputs))


def output_steps(model: torch.nn.Module) -> list[float | None]:
    """Return the scale of each output that a dequantize operator of `model` returns; None for other outputs.

    The list is empty for a floating-point model, which is not a graph.
    """
    if not isinstance(model, torch.fx.GraphModule):
        return []
    leaves = pytree.tree_leaves(model.graph.output_node().args[0])
    return [float(leaf.args[1]) if getattr(leaf, "target", None) is DEQUANTIZE else None for leaf in leaves]


def difference(subject: BackendUnderTest, got: torch.Tensor, want: torch.Tensor, step: float | None = None) -> str:
    """Compare a result with the expected one.

    Args:
        subject: The backend under test; its `tolerance` replaces a smaller default.
        got: The result.
        want: The expected result.
        step: The scale of a quantized result, if it is known.

    Returns:
        A sentence that says where and by how much the results differ; empty if they agree.
    """
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"is {dtype_name(got.dtype)}{list(got.shape)} instead of {dtype_name(want.dtype)}{list(want.shape)}"
    if got.numel() == 0:
        return ""
    if want.dtype not in TOLERANCES:
        wrong = got != want
        if not wrong.any():
            return ""
        index = _first(wrong)
        return f"{int(wrong.sum())} of {got.numel()} values differ, at {index} {got[index]} instead of {want[index]}"
    tolerance = TOLERANCES[want.dtype] if integer_recipe(subject) is None else STEPS * UNKNOWN_STEP
    if subject.tolerance is not None:
        tolerance = max(tolerance, subject.tolerance)
    scale = max(magnitude(want), 1e-6)
    if step is not None:
        margin = STEPS + 0.01  # allow 0.01 quantization steps more, because both results are rounded to float32
        tolerance = max(tolerance, margin * step / scale)
    wrong = errors(want, got) > tolerance * scale
    if not wrong.any():
        return ""
    index = _first(wrong)
    return (
        f"{int(wrong.sum())} of {got.numel()} values differ by more than {tolerance:g} of the largest, "
        f"at {index} {float(got[index]):.6g} instead of {float(want[index]):.6g}"
    )


def error_by_norm(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return the norm of the difference of two results, relative to the norm of the expected one."""
    return math.pow(10, -measure(want, got).sqnr / 20)


def check_results(
    subject: BackendUnderTest, description: str, got: Sequence[torch.Tensor], want: Sequence[torch.Tensor]
) -> None:
    """Raise `Failed` if the results `got` differ from the expected results `want`."""
    if len(got) != len(want):
        raise Failed(f"{description}: {len(got)} results instead of {len(want)}")
    for index, (actual, expected) in enumerate(zip(got, want, strict=True)):
        if problem := difference(subject, actual, expected):
            raise Failed(f"{description}, result {index}: {problem}")


def delegated_calls(subject: BackendUnderTest, program: Any) -> list[str]:
    """List the operators of all calls that run in a delegate of the backend, one entry for each call."""
    return [row.operator for row in program.report().rows if row.where == subject.backend_id]


def delegated_dtypes(subject: BackendUnderTest, program: Any, operator: str) -> set[str]:
    """Return the input and output dtypes of all delegated calls of an operator."""
    rows = [row for row in program.report().rows if row.where == subject.backend_id and row.operator == operator]
    return {dtype for row in rows for dtype in row.dtypes}


def undelegated_calls(subject: BackendUnderTest, program: Any) -> list[tuple[str, str]]:
    """Return (operator, the backend's reason or "") of each call that is not delegated."""
    calls = []
    for row in program.report().left_outside:
        reasons = [text for source, text in row.reasons if subject.backend_id in source or source == "edgecore"]
        calls.append((row.operator, "; ".join(reasons)))
    return calls


def check_reasons(subject: BackendUnderTest, program: Any, description: str) -> None:
    """Raise `Failed` if a call is not delegated and the backend gave no reason."""
    unexplained = [operator for operator, reason in undelegated_calls(subject, program) if not reason.strip()]
    if unexplained:
        raise Failed(
            f"{description}: {unexplained[0]} is not delegated, without a reason in PartitionResult.unsupported_nodes"
        )


def _first(wrong: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(index) for index in wrong.nonzero()[0])
