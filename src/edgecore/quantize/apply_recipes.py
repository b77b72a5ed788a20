"""Apply recipes to an exported program: insert quantize and dequantize nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch.export import ExportedProgram

from edgecore.errors import CalibrationMissing, CompileError
from edgecore.ir.failures import failures_named
from edgecore.ir.graph import calls
from edgecore.ir.program.copying import copy_program, unchanged_buffers
from edgecore.ir.program.lazy_constants import load_all
from edgecore.ir.program.outputs import has_gradients
from edgecore.ir.torch_compat import pytree
from edgecore.numerics.evaluate import copied
from edgecore.numerics.quality import Inputs, Quantized
from edgecore.passes.quantized import dequantized_inputs
from edgecore.plugin import QuantizerRecipe, RewriteRecipe
from edgecore.quantize.calibration import Calibration, sample_name, tracked_samples
from edgecore.quantize.embeddings import quantize_embeddings
from edgecore.quantize.masks import collect_hidden_observers, remove_observers
from edgecore.quantize.plan import MARK, ChosenRecipe, Plan, marks_of, recipes_of, takes_calibration
from edgecore.quantize.pt2e import convert, counter_reads, functional_copy, written_weights
from edgecore.quantize.rules import mark


def quantize_model(
    exported: ExportedProgram,
    plan: Plan,
    calibration: Calibration | None,
    dynamic_shapes: Any = None,
    computes_in: str = "float32",
) -> Quantized:
    """Quantize an exported program.

    Args:
        exported: The program; it is not changed.
        plan: The recipes of the backends. A recipe is either a quantizer, which annotates the values and weights to
            quantize, or a function that rewrites the program.
        calibration: The samples; None if no recipe needs them.
        dynamic_shapes: The `dynamic_shapes` of `torch.export.export` for the quantized module.
        computes_in: The dtype in which the backends compute floating-point values.

    Returns:
        The programs before and after quantization, and the first calibration sample; without calibration, the example
        inputs.

    Raises:
        CompileError: A recipe needs calibration and there is none, or there is calibration although all recipes only
            rewrite the program; a sample does not match the model; or the model computes infinite or NaN values for a
            sample.
    """
    recipes = recipes_of(plan)
    title = f"quantize={' and '.join(repr(backend.recipes[0].name) for backend in plan)}"
    quantizers = [recipe for recipe in recipes if isinstance(recipe.method, QuantizerRecipe)]
    if calibration is not None and not takes_calibration(plan):
        raise CompileError(f"{title} uses no calibration, because it depends on the weights only; remove calibration")
    if calibration is None and any(recipe.method.calibrates for recipe in quantizers):
        raise CalibrationMissing(
            f"{title} needs calibration: samples of real inputs, as an iterable, a folder of .npy files, or a function "
            "that calls the model that it gets as its argument"
        )
    program, excluded = mark(exported, plan) if len(recipes) > 1 or plan[0].rules else (exported, {})
    is_whole = program is exported
    program, origins = functional_copy(program)
    weights: dict[str, str] = {}
    for recipe in recipes:
        with failures_named(title):
            if recipe.embeddings:
                program = quantize_embeddings(program, recipe.embeddings, recipe.selects)
            if isinstance(recipe.method, RewriteRecipe):
                program = recipe.method.rewrite(program, recipe.selects)
                texts = {node.name: recipe.method.describe_weights(node) for node in calls(program.graph_module)}
                weights |= {origins.get(name, name): text for name, text in texts.items() if text is not None}
            if len(plan) > 1:
                claim(program, recipe)
    if quantizers:
        load_all(exported)
        counters = counter_reads(program) if any(recipe.method.calibrates for recipe in quantizers) else []
        floats = [*counters, *written_weights(program)]
        for node in floats:
            node.meta["custom"] = {**(node.meta.get("custom") or {}), MARK: ()}
        is_whole = is_whole and len(recipes) == 1 and not quantizers[0].embeddings and not floats
        quantizer = make_quantizer(quantizers, is_whole=is_whole)
        sample, quantized = _convert(program, exported.example_inputs, quantizer, title, calibration, dynamic_shapes)
        # `from_node` of an exported node names a node of the converted module. The nodes of `program` have the same
        # names.
        sources = {node.name: node.meta["from_node"] for node in quantized.graph.nodes if "from_node" in node.meta}
        names = {name: origins.get(source[-1].name, source[-1].name) for name, source in sources.items()}
        return Quantized(exported, quantized, names, sample, computes_in, excluded, weights)
    names = {node.name: origins.get(node.name, node.name) for node in program.graph.nodes}
    return Quantized(exported, program, names, exported.example_inputs, computes_in, excluded, weights)


def _convert(
    program: ExportedProgram,
    example: Inputs | None,
    quantizer: Any,
    title: str,
    calibration: Calibration | None,
    dynamic_shapes: Any,
) -> tuple[Inputs, ExportedProgram]:
    """Quantize a functional program by torchao; return a sample and the result. `example` has the example inputs."""
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    from edgecore.quantize.select import OutsideBodies

    if example is None:
        raise CompileError(
            f"{title}: the exported program has no example inputs; export the model again with example inputs"
        )
    if has_gradients(program):
        raise CompileError(
            f"{title}: the program computes gradients, whose ranges no calibration foresees; quantize the model alone, "
            "or train it quantized with edgecore.prepare_qat"
        )
    args, kwargs = pytree.tree_map(copied, example)  # copy the inputs, because the model may write to them
    with failures_named(title):
        # Copy the program: torchao changes loop bodies, which all modules made from one program share.
        module = copy_program(program).module()
        observed = prepare_pt2e(module, OutsideBodies(quantizer, module))
    first_sample: list[Inputs] = []

    def record(_: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        if not first_sample and named.keys() == kwargs.keys():  # the model rejects other keyword arguments
            first_sample.append(pytree.tree_map(copied, (positional, {name: named[name] for name in kwargs})))

    hook = observed.register_forward_pre_hook(record, with_kwargs=True)
    with torch.no_grad(), unchanged_buffers(program), collect_hidden_observers(observed) as hidden:
        if calibration is None:
            observed(*args, **kwargs)  # observers of weights, too, record ranges only when the model runs
        elif callable(calibration):
            calibration(observed)
        else:
            _calibrate(observed, calibration)
    hook.remove()
    with failures_named(title):
        remove_observers(observed, hidden)
        quantized = torch.export.export(convert(observed), args, kwargs, dynamic_shapes=dynamic_shapes)
    return first_sample[0] if first_sample else example, quantized


def make_quantizer(recipes: Sequence[ChosenRecipe], *, is_whole: bool) -> Any:
    """Make one torchao quantizer for all recipes; `is_whole` is True for a single recipe without rules."""
    quantizers = [(cast(QuantizerRecipe, recipe.method).make_quantizer(), recipe.selects) for recipe in recipes]
    if is_whole:
        return quantizers[0][0]
    from edgecore.quantize.select import SelectingQuantizer

    return SelectingQuantizer(quantizers)


def claim(program: ExportedProgram, recipe: ChosenRecipe) -> None:
    """Reserve the nodes that `recipe` quantizes; leave the other nodes that it selects to later recipes."""
    if isinstance(recipe.method, QuantizerRecipe):
        module = program.module()
        make_quantizer([recipe], is_whole=False).annotate(module)
        claimed = {node.name for node in module.graph.nodes if "quantization_annotation" in node.meta}
    else:
        claimed = {node.name for node in calls(program.graph_module) if dequantized_inputs(node)}
    for node in filter(recipe.selects, calls(program.graph_module)):
        marks = marks_of(node)[:1] if node.name in claimed else marks_of(node)[1:]
        node.meta["custom"] = {**(node.meta.get("custom") or {}), MARK: marks}


def _calibrate(observed: Callable[..., Any], calibration: Any) -> None:
    """Run all samples through the model with observers."""
    count = 0
    for count, (args, kwargs) in enumerate(tracked_samples(calibration), 1):
        try:
            copies, named = pytree.tree_map(copied, (args, kwargs))  # copy the inputs, because the model may write them
            observed(*copies, **named)
        except Exception as error:
            inputs = ", ".join([*map(_text, args), *(f"{name}={_text(value)}" for name, value in kwargs.items())])
            sample = f"calibration sample {sample_name(calibration, count)} ({inputs})"
            reason = str(error).strip().partition("\n")[0]
            if "is not finite" in reason:  # raised by torchao's histogram observer
                raise CompileError(
                    f"with {sample} the model computes infinite or NaN values, which "
                    "have no range to observe; leave the sample out, or correct the model if it computes the same "
                    "values in eager mode"
                ) from error
            raise CompileError(f"{sample} does not match the model: {reason}") from error
    if count == 0:
        raise CompileError("calibration has no samples; pass at least one")


def _text(value: Any) -> str:
    return f"{tuple(value.shape)} {value.dtype}" if isinstance(value, torch.Tensor) else repr(value)
