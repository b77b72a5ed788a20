"""`edgecore.compile`: compile a model to a `.pte` program."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from edgecore import format as fmt
from edgecore.backend import Backend
from edgecore.emit import ExternalConstants
from edgecore.errors import CompileError
from edgecore.ir.dialect.dense_tensors import check_dense
from edgecore.ir.dialect.func_transforms import check_transforms
from edgecore.memory import MemoryPlanningPass
from edgecore.numerics.quality import calls_of
from edgecore.numerics.rounding import rounds
from edgecore.passes.decompose import KERNEL_REWRITES, REWRITES
from edgecore.passes.pass_list import PassList
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.pipeline.chosen_backends import (
    backend_list,
    check_required,
    compilers_of,
    float_dtype,
    half_precision_ids,
    partitioner_of,
    with_options,
)
from edgecore.pipeline.compare import Reference
from edgecore.pipeline.compiled_program import CompiledProgram, Model
from edgecore.pipeline.export import dynamic_shapes_by_argument, export_model
from edgecore.pipeline.lowering import FinishOptions, LowerOptions, PassDump, file_alignments, lower
from edgecore.pipeline.unheld import unheld_constants, warn_of_unheld
from edgecore.progress import task, track
from edgecore.quantize import (
    Calibration,
    Plan,
    Quantized,
    check_rules,
    compute_dtype,
    convert_trained,
    is_prepared,
    lost_layers,
    make_plan,
    options_of,
    output_ratios,
    prepare_training,
    quantize_model,
    recipes_of,
    warn_of_losses,
    warn_of_lost_layers,
)
from edgecore.recipe import Quantize

_MEMORY = {None: MemoryPlanningPass(), "static": MemoryPlanningPass(alloc_graph_input=True, alloc_graph_output=True)}


def compile(
    model: Model | Mapping[str, Model],
    example_inputs: Any = None,
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    backends: str | Backend | Sequence[str | Backend] = (),
    dynamic_shapes: Any = None,
    runtime: str = fmt.EXECUTORCH_1_5,
    memory: str | MemoryPlanningPass | None = None,
    external_data: ExternalConstants = False,
    segment_alignment: int = fmt.DEFAULT_ALIGNMENTS.segment,
    constant_tensor_alignment: int | None = None,
    share_state: bool = False,
    constant_methods: Mapping[str, object] | None = None,
    quantize: Quantize | None = None,
    calibration: Calibration | None = None,
    passes: PassList = EDGE_PASSES,
    dump_passes: str | Path | None = None,
    generate_etrecord: bool = False,
) -> CompiledProgram:
    """Compile a model to a `.pte` program; needs the extra `edgecore[compile]`.

    Args:
        model: A `torch.nn.Module` in eval mode, a module of `edgecore.prepare_qat`, a
            `torch.export.ExportedProgram`, or a mapping from method names to these. With a mapping, `example_inputs`,
            `example_kwargs` and `dynamic_shapes` are also mappings by method name.
        example_inputs: A tuple with one entry per positional argument, or a mapping of keyword arguments, such as a
            tokenizer of transformers returns. The program accepts inputs with these dtypes and shapes (apart from
            dynamic dims). Not needed for an `ExportedProgram`.
        example_kwargs: Additional keyword arguments. The inputs of the program are the positional arguments, then the
            keyword arguments in the order of the parameters of `forward`.
        backends: Names or `Backend` objects in order of priority, or a single one. Each backend receives the operators
            that the backends before it do not support.
        dynamic_shapes: As for `torch.export.export`. Each Dim needs a `max`.
        runtime: The target runtime: `executorch-1.5` (the file also runs on ExecuTorch 1.5) or `edgecore`.
        memory: None (the caller supplies the memory of inputs and outputs), `static` (the arena also holds inputs and
            outputs), or a `MemoryPlanningPass`.
        external_data: The weights to store in `.ptd` files, which `save` writes into the folder of the `.pte`. True:
            all of them, in one file. A name: all of them, in the file of that name. A mapping from patterns of
            qualified names to file names: `{"*lora*": "adapter", "*": "base"}`. Load the files with
            `edgecore.load("m.pte", data=["base.ptd", ...])`.
        segment_alignment: Alignment of each segment of a file, in bytes: a power of two of at least 128. Use 4096 if
            segments are mapped, locked or read on their own.
        constant_tensor_alignment: Smallest alignment of constant tensors, in bytes: a power of two of at least 16.
        share_state: True if all methods use one copy of the mutable buffers with the same qualified name, such as a
            cache that `prefill` fills and `decode` reads; otherwise each method has its own copy.
        constant_methods: Additional methods without inputs that return a constant, as a mapping from the name of the
            method to the constant: a number, string, tensor, or a list of these.
        quantize: A recipe of the first backend that has recipes: its name, such as `int8` or `int4-weights`, or
            `edgecore.Recipe("int4-weights", group=64, skip=["head"])` with parameters and rules; or a recipe for each
            backend by its name, where each operator takes the recipe of the first backend that quantizes it. With
            `runtime="edgecore"` edgecore's own kernels are the last backend, named `kernels`, with the recipes `int8`
            and `int16x8`. None to compile without quantization.
        calibration: Samples for `quantize`: an iterable of inputs (tuples, or a tensor if there is only one input), a
            folder of `.npy` files, or a function that is passed the model and calls it. For several methods
            a mapping by name.
        passes: The passes that lower the model: `edgecore.passes.EDGE_PASSES`, or a list made from it with
            `insert_before`, `insert_after`, `replace` and `skip`.
        dump_passes: A new or empty folder, into which the graph is written as text after each pass that changed it.
        generate_etrecord: Keep the programs for `get_etrecord`, which ExecuTorch's developer tools read. The tools of
            edgecore need only the `.pte`.

    Returns:
        The program, in memory. `save` writes it to a file, `report` says where each operator runs, and `compare`
        compares its outputs with the model's.

    Raises:
        BackendError: A backend is not installed, broken or disabled.
        CompileError: The model cannot be exported, an operator has no kernel, an option is wrong, or a required backend
            failed.
        WriteError: The folder `dump_passes` cannot be written, or is not empty.

    Warns:
        FallbackWarning: A backend failed on a part of the model; the next backend or edgecore's kernels run this part.
        QuantizationWarning: An output of the quantized program has an SQNR below 10 dB.
        PrecisionWarning: A backend computes in float16, which cannot represent some numbers of the model outside masks.

    Example:
        >>> program = edgecore.compile(model, (torch.randn(1, 3, 224, 224),), backends=["xnnpack"])
        >>> program.save("model.pte")
        >>> edgecore.load("model.pte").forward(torch.randn(1, 3, 224, 224))
    """
    dump = None if dump_passes is None else PassDump(dump_passes)
    if runtime not in (fmt.EXECUTORCH_1_5, fmt.EDGECORE):
        raise CompileError(f"no target runtime {runtime!r}; use {fmt.EXECUTORCH_1_5!r} or {fmt.EDGECORE!r}")
    planning = _planning(memory, share_state)
    # check the alignments before the slow export, so that errors are reported early
    alignments = file_alignments(segment_alignment, constant_tensor_alignment)
    chosen = backend_list(backends)
    plan: Plan = ()
    if quantize is not None:
        plan = make_plan(quantize, compilers_of(chosen), with_kernels=runtime == fmt.EDGECORE)
        chosen = [with_options(backend, options_of(plan, backend.name)) for backend in chosen]
    elif calibration is not None:
        raise CompileError("calibration has no effect without quantize; name a recipe, such as quantize='int8'")
    recipe_dtype = compute_dtype(plan, {backend.name: backend.options for backend in chosen})
    partitioners = [partitioner_of(backend, runtime) for backend in chosen]
    exported, shapes = _export_methods(model, example_inputs, example_kwargs, dynamic_shapes, with_recipe=bool(plan))
    quantized = _quantize_methods(exported, plan, calibration, shapes, recipe_dtype) if plan else {}
    exported.update({name: method.program for name, method in quantized.items()})
    start = time.perf_counter()
    pairs = list(zip(chosen, partitioners, strict=True))
    lowered = lower(
        exported,
        partitioners,
        LowerOptions(
            passes=passes,
            constant_methods=constant_methods,
            required=[partitioner for backend, partitioner in pairs if backend.required],
            skip_mutable_buffer=[partitioner for backend, partitioner in pairs if backend.skip_mutable_buffer],
            rewrites=KERNEL_REWRITES if runtime == fmt.EDGECORE else REWRITES,
            dump=dump,
            keep_programs=generate_etrecord,
        ),
    )
    check_required(chosen, lowered.report())
    with task("planning memory and making the program"):
        finished = lowered.finish(
            FinishOptions(runtime=runtime, planning=planning, external_constants=external_data, alignments=alignments)
        )
    used = {delegate.id for method in finished.pte.program.execution_plan for delegate in method.delegates}
    dtype = float_dtype(chosen, used)
    references = {name: _reference(program, quantized.get(name), plan, dtype) for name, program in exported.items()}
    seconds = time.perf_counter() - start
    unheld = unheld_constants(finished.programs, torch.float16, half_precision_ids(chosen, used, recipe_dtype))
    warn_of_unheld(unheld, torch.float16, stacklevel=2)
    return CompiledProgram(finished, seconds, quantized, references, chosen, [str(constant) for constant in unheld])


def prepare_qat(
    model: torch.nn.Module,
    example_inputs: Any,
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    backends: str | Backend | Sequence[str | Backend],
    dynamic_shapes: Any = None,
    quantize: Quantize = "int8",
) -> torch.fx.GraphModule:
    """Prepare a module for quantization-aware training; needs the extra `edgecore[compile]`.

    The returned module rounds weights and activations as the quantized program will, and shares the parameters of
    `model`. Train it with your own loop, then pass it to `edgecore.compile` without `quantize`. The ranges of
    activations are moving averages over the training, so the parameter `observer` of the recipe has no effect.

    Args:
        model: The module, trained or not.
        example_inputs: As for `edgecore.compile`.
        example_kwargs: As for `edgecore.compile`.
        backends: As for `edgecore.compile`.
        dynamic_shapes: As for `edgecore.compile`; needed if batches of the training have different sizes.
        quantize: As for `edgecore.compile`: recipes with static ranges of activations.

    Returns:
        The module to train, in training mode; it has `train()` and `eval()`.

    Raises:
        BackendError: A backend is not installed, broken or disabled.
        CompileError: The model cannot be exported, or a recipe has no quantization-aware training.

    Example:
        >>> trained = edgecore.prepare_qat(model, (images,), backends=["xnnpack"])
        >>> train(trained)
        >>> program = edgecore.compile(trained, (images,), backends=["xnnpack"])
    """
    plan = make_plan(quantize, compilers_of(backend_list(backends)), with_kernels=True)
    was_training = {module: module.training for module in model.modules()}
    try:
        exported = export_model(model.train(), example_inputs, example_kwargs, dynamic_shapes, is_training=True)
    finally:
        for module, training in was_training.items():
            module.training = training
    return prepare_training(exported, plan)


def _planning(memory: str | MemoryPlanningPass | None, share_state: bool) -> MemoryPlanningPass:
    """Return the memory planning pass for the arguments `memory` and `share_state` of `compile`."""
    planning = _MEMORY.get(memory) if memory is None or isinstance(memory, str) else memory
    if planning is None:
        raise CompileError(f"memory={memory!r} is not valid; use None, 'static' or a MemoryPlanningPass")
    return replace(planning, share_mutable_buffers=True) if share_state else planning


def _export_methods(
    model: Model | Mapping[str, Model],
    example_inputs: Any,
    example_kwargs: Any,
    dynamic_shapes: Any,
    *,
    with_recipe: bool,
) -> tuple[dict[str, ExportedProgram], dict[str, Any]]:
    """Export each method that is not an `ExportedProgram`; with a recipe, also return each method's dynamic shapes."""
    by_method = isinstance(model, Mapping)
    exported, shapes_of = dict[str, ExportedProgram](), dict[str, Any]()
    for name, module in dict(model if isinstance(model, Mapping) else {"forward": model}).items():
        if with_recipe and is_prepared(module):
            raise CompileError(
                "the model was prepared by edgecore.prepare_qat, which chose its recipe; remove quantize"
            )
        inputs, kwargs, shapes = (
            argument[name] if by_method and argument is not None else argument
            for argument in (example_inputs, example_kwargs, dynamic_shapes)
        )
        trained = convert_trained(module) if is_prepared(module) else module
        if isinstance(trained, ExportedProgram):
            exported[name] = trained
        else:
            with task(f"exporting {name}"):
                exported[name] = export_model(trained, inputs, kwargs, shapes)
        if with_recipe:
            shapes_of[name] = dynamic_shapes_by_argument(trained, shapes)
    return exported, shapes_of


def _quantize_methods(
    exported: Mapping[str, ExportedProgram], plan: Plan, calibration: Any, shapes: Mapping[str, Any], dtype: str
) -> dict[str, Quantized]:
    """Quantize each method by the recipes of `plan`, and warn of outputs and layers that lose too much accuracy."""
    check_rules(plan, exported)
    quantized = dict[str, Quantized]()
    for name, program in exported.items():
        check_dense(program)  # check before quantization; without a recipe, lowering makes both checks
        check_transforms(program)
        samples = calibration[name] if isinstance(calibration, Mapping) else calibration
        with task(f"quantizing {name}"):
            quantized[name] = quantize_model(program, plan, samples, shapes[name], dtype)
    if any(recipe.method.calibrates for recipe in recipes_of(plan)):
        ratios = [output_ratios(program, name) for name, program in track(quantized.items(), "measuring accuracy")]
        warn_of_losses({name: ratio for by_output in ratios for name, ratio in by_output.items()}, stacklevel=3)
        lost = [row for name, program in quantized.items() for row in lost_layers(program, name)]
        warn_of_lost_layers(lost, stacklevel=3)
    return quantized


def _reference(exported: ExportedProgram, quantized: Quantized | None, plan: Plan, float_dtype: str) -> Reference:
    """Make the reference program with which `CompiledProgram.compare` compares a method, besides the user's model.

    If activations are quantized, `float_dtype` is ignored, because the quantization steps of activations are larger
    than the rounding errors of `float_dtype`. `Reference.steps` is the minimum over all recipes, so that no recipe is
    judged by the tolerance of another one.
    """
    is_rounded, calls = rounds(exported), calls_of(exported)
    dtype = "float32" if is_rounded else float_dtype
    if quantized is not None:
        dtype = dtype if quantized.computes_in == "float32" else quantized.computes_in
        steps = min((recipe.steps for recipe in recipes_of(plan)), default=0)
        return Reference(quantized.original.example_inputs, exported, dtype, steps, by_recipe=True, calls=calls)
    return Reference(
        exported.example_inputs, exported if is_rounded or dtype != "float32" else None, dtype, calls=calls
    )
