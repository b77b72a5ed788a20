"""Apply a recipe to an exported program, which then contains quantize and dequantize nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.ir.failures import failures_named
from edgecore.plugin import BackendCompiler, QuantizingCompiler, Recipe, RewriteRecipe
from edgecore.quantize.calibration import Calibration, samples
from edgecore.quantize.quality import Inputs, Quantized


def quantize_model(
    exported: ExportedProgram,
    name: str,
    recipe: Recipe | RewriteRecipe,
    calibration: Calibration | None,
    dynamic_shapes: Any = None,
) -> Quantized:
    """Quantize an exported program.

    Args:
        exported: The program; it is not changed.
        name: The name of the recipe, for error messages.
        recipe: A recipe with a quantizer, which annotates the values and weights to quantize, or with a function that
            rewrites the program.
        calibration: The samples; None for a recipe that needs none.
        dynamic_shapes: The `dynamic_shapes` to export the quantized module with.

    Returns:
        The program before and after quantization, and the first calibration sample, or the example inputs if there is
        none.

    Raises:
        CompileError: The recipe needs calibration and there is none, or there is calibration for a recipe that rewrites
            the program; or a sample does not match the model, or the model computes infinite or NaN values for a
            sample.
    """
    if isinstance(recipe, RewriteRecipe):
        if calibration is not None:
            raise CompileError(
                f"quantize={name!r} uses no calibration, because it depends on the weights only; remove calibration"
            )
        with failures_named(f"quantize={name!r}"):
            program = recipe.rewrite(exported)
        names = {node.name: node.name for node in program.graph.nodes}
        return Quantized(exported, program, names, exported.example_inputs, recipe.computes_in)
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    if exported.example_inputs is None:
        raise CompileError(
            f"quantize={name!r}: the exported program has no example inputs; export the model again with example inputs"
        )
    args, kwargs = exported.example_inputs
    if calibration is None and recipe.calibrates:
        raise CompileError(
            f"quantize={name!r} needs calibration: samples of real inputs, as an iterable, a folder of .npy files, or "
            "a function that calls the model that it gets as its argument"
        )
    with failures_named(f"quantize={name!r}"):
        observed = prepare_pt2e(exported.module(), recipe.make_quantizer())
    first_sample: list[Inputs] = []

    def record(_: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        if not first_sample and named.keys() == kwargs.keys():  # with other keywords the model raises an error
            first_sample.append((positional, {name: named[name] for name in kwargs}))

    hook = observed.register_forward_pre_hook(record, with_kwargs=True)
    with torch.no_grad():
        if calibration is None:
            observed(*args, **kwargs)  # the observers of weights record ranges only when the model runs
        elif callable(calibration):
            calibration(observed)
        else:
            _calibrate(observed, calibration)
    hook.remove()
    with failures_named(f"quantize={name!r}"):
        converted = convert_pt2e(observed)
        program = torch.export.export(converted, args, kwargs, dynamic_shapes=dynamic_shapes)
    # `from_node` of a node in the new program is a node of `converted`, which has the same name as in `exported`.
    names = {node.name: node.meta["from_node"][-1].name for node in program.graph.nodes if "from_node" in node.meta}
    return Quantized(exported, program, names, first_sample[0] if first_sample else exported.example_inputs)


def _calibrate(observed: Callable[..., Any], calibration: Any) -> None:
    """Run all samples through the model with observers."""
    count = 0
    for count, (args, kwargs) in enumerate(samples(calibration), 1):
        try:
            observed(*args, **kwargs)
        except Exception as error:
            inputs = ", ".join([*map(_text, args), *(f"{name}={_text(value)}" for name, value in kwargs.items())])
            reason = str(error).strip().partition("\n")[0]
            if "is not finite" in reason:  # from torchao's histogram observer
                raise CompileError(
                    f"with calibration sample {count} ({inputs}) the model computes infinite or NaN values, which "
                    "have no range to observe; leave the sample out, or correct the model if it computes the same "
                    "values in eager mode"
                ) from error
            raise CompileError(f"calibration sample {count} ({inputs}) does not match the model: {reason}") from error
    if count == 0:
        raise CompileError("calibration has no samples; pass at least one")


def _text(value: Any) -> str:
    return f"{tuple(value.shape)} {value.dtype}" if isinstance(value, torch.Tensor) else repr(value)


def find_recipe(name: str, compilers: Mapping[str, BackendCompiler]) -> tuple[str, Recipe | RewriteRecipe]:
    """Find a recipe by name in the first backend that has recipes.

    Args:
        name: The name of the recipe.
        compilers: Name of the backend -> compiler, in order of priority.

    Returns:
        The name of the backend, and the recipe.

    Raises:
        CompileError: No backend has recipes, or the first backend with recipes has none of this name.
    """
    for backend, compiler in compilers.items():
        recipes = compiler.recipes() if isinstance(compiler, QuantizingCompiler) else {}
        if name in recipes:
            return backend, recipes[name]
        if recipes:
            raise CompileError(f"backend {backend!r} has no recipe {name!r}; it has {', '.join(sorted(recipes))}")
    backends = ", ".join(compilers) or "none"
    raise CompileError(f"quantize={name!r} needs a backend with recipes; the chosen backends are: {backends}")
