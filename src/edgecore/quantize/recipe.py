"""From a model and a recipe to an exported program with quantize and dequantize nodes."""

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
    """`exported` with its values and weights quantized where the quantizer of `recipe` annotates them, or rewritten.

    The result keeps the first sample (of a recipe without calibration the example inputs).

    Raises `CompileError` without the calibration that the recipe needs, with one that it has no use for, when a sample
    does not fit the model or makes it compute values that are not finite, or when there is none.
    """
    if isinstance(recipe, RewriteRecipe):
        if calibration is not None:
            raise CompileError(f"quantize={name!r} takes no calibration: it looks at the weights only")
        with failures_named(f"quantize={name!r}"):
            program = recipe.rewrite(exported)
        names = {node.name: node.name for node in program.graph.nodes}
        return Quantized(exported, program, names, exported.example_inputs, recipe.computes_in)
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    if exported.example_inputs is None:
        raise CompileError(f"quantize={name!r}: the exported program has no example inputs; export it again")
    args, kwargs = exported.example_inputs
    if calibration is None and recipe.calibrates:
        raise CompileError(
            f"quantize={name!r} needs calibration: inputs like those of real use, as an iterable, a folder of .npy "
            "files, or a function that calls the model it is given"
        )
    with failures_named(f"quantize={name!r}"):
        observed = prepare_pt2e(exported.module(), recipe.make_quantizer())
    seen: list[Inputs] = []

    def note(_: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        if not seen and named.keys() == kwargs.keys():  # others do not fit the model, which says so itself
            seen.append((positional, {name: named[name] for name in kwargs}))

    hook = observed.register_forward_pre_hook(note, with_kwargs=True)
    with torch.no_grad():
        if calibration is None:
            observed(*args, **kwargs)  # the observers of weights look when the model runs
        elif callable(calibration):
            calibration(observed)
        else:
            _feed(observed, calibration)
    hook.remove()
    with failures_named(f"quantize={name!r}"):
        converted = convert_pt2e(observed)
        program = torch.export.export(converted, args, kwargs, dynamic_shapes=dynamic_shapes)
    # A node of the new program remembers the one of `converted`, which has the name that it had before.
    names = {node.name: node.meta["from_node"][-1].name for node in program.graph.nodes if "from_node" in node.meta}
    return Quantized(exported, program, names, seen[0] if seen else exported.example_inputs)


def _feed(observed: Callable[..., Any], calibration: Any) -> None:
    count = 0
    for count, (args, kwargs) in enumerate(samples(calibration), 1):
        try:
            observed(*args, **kwargs)
        except Exception as error:
            given = ", ".join([*map(_kind, args), *(f"{name}={_kind(value)}" for name, value in kwargs.items())])
            reason = str(error).strip().partition("\n")[0]
            if "is not finite" in reason:  # a histogram observer
                raise CompileError(
                    f"with calibration sample {count} ({given}) the model computes infinite or NaN values, of which no range can "
                    "be observed: leave the sample out, or mend the model if eager computes the same"
                ) from error
            raise CompileError(f"calibration sample {count} ({given}) does not fit the model: {reason}") from error
    if count == 0:
        raise CompileError("calibration has no samples")


def _kind(value: Any) -> str:
    return f"{tuple(value.shape)} {value.dtype}" if isinstance(value, torch.Tensor) else repr(value)


def find_recipe(name: str, compilers: Mapping[str, BackendCompiler]) -> tuple[str, Recipe | RewriteRecipe]:
    """The first of the backends (name -> compiler) that has any recipes, and the one of this name.

    Raises `CompileError` if none has, or if it does not know this one.
    """
    for backend, compiler in compilers.items():
        recipes = compiler.recipes() if isinstance(compiler, QuantizingCompiler) else {}
        if name in recipes:
            return backend, recipes[name]
        if recipes:
            raise CompileError(f"backend {backend!r} has no recipe {name!r}: it has {', '.join(sorted(recipes))}")
    asked = ", ".join(compilers) or "none"
    raise CompileError(f"quantize={name!r} needs a backend with recipes; the backends asked for: {asked}")
