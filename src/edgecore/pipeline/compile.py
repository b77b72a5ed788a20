"""`edgecore.compile`: compile a model to a `.pte` program."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError
from torch.export import ExportedProgram

from edgecore import format as fmt
from edgecore.backend import Backend
from edgecore.emit import ExternalConstants
from edgecore.errors import CompileError
from edgecore.ir.dialect.dense_tensors import check_dense
from edgecore.ir.dialect.func_transforms import check_transforms
from edgecore.ir.failures import failures_named
from edgecore.memory import MemoryPlanningPass
from edgecore.numerics.quality import calls_of
from edgecore.numerics.rounding import rounds
from edgecore.partition import Partitioner
from edgecore.passes.decompose import KERNEL_REWRITES, REWRITES
from edgecore.passes.pass_list import PassList
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.pipeline.compare import Comparison, Reference, compare
from edgecore.pipeline.export import dynamic_shapes_by_argument, export_model
from edgecore.pipeline.finished_program import FinishedProgram
from edgecore.pipeline.lowering import FinishOptions, LowerOptions, PassDump, file_alignments, lower
from edgecore.pipeline.preprocess import compiler_of
from edgecore.pipeline.unheld import unheld_constants, warn_of_unheld
from edgecore.plugin import BackendCompiler, LowPrecisionCompiler, WeightRoundingCompiler, registry
from edgecore.quantize import (
    Calibration,
    Plan,
    Quantized,
    check_rules,
    compute_dtype,
    convert_trained,
    is_prepared,
    layer_qualities,
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
from edgecore.recipe import Quantize, problem_message

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from edgecore.executorch.devtools.etrecord.record import ETRecord
    from edgecore.pipeline.report import DelegationReport

Model = torch.nn.Module | ExportedProgram
_MEMORY = {None: MemoryPlanningPass(), "static": MemoryPlanningPass(alloc_graph_input=True, alloc_graph_output=True)}


class CompiledProgram(FinishedProgram):
    """The program that `edgecore.compile` returns, in memory; `save` writes it to a file.

    Attributes:
        seconds: The time of lowering and making the file, without export and quantization, in seconds.
        quantized: Method name -> the program before and after quantization; empty without `quantize`.
        backends: The backends, with their options and those that the recipes need.
    """

    def __init__(
        self,
        finished: FinishedProgram,
        seconds: float,
        quantized: Mapping[str, Quantized],
        references: Mapping[str, Reference],
        backends: Sequence[Backend],
        unheld: Sequence[str] = (),
    ) -> None:
        report = replace(finished.report(), unheld=list(unheld))
        super().__init__(finished.pte, finished.data, report, finished.programs, finished.config_methods, finished.kept)
        self._etrecord: ETRecord | None = None
        self.seconds = seconds
        self.quantized = quantized
        self.backends = list(backends)
        self._references = references

    def get_etrecord(self) -> ETRecord:
        """Return the record for ExecuTorch's developer tools.

        Raises:
            CompileError: The model was not compiled with `generate_etrecord=True`.

        Example:
            >>> program.get_etrecord().save("model.etrecord")
        """
        from edgecore.executorch.devtools.etrecord.record import ETRecord, present_record

        if self._etrecord is None and self.kept is not None:
            self._etrecord = ETRecord(self.kept.exported, self.kept.edge)
            self._etrecord.add_executorch_program(self)
        return present_record(self._etrecord)

    @property
    def computes_in(self) -> str:
        """The dtype in which the backends compute floating-point values: "float32" or "float16"."""
        return next(iter(self._references.values())).computes_in

    @property
    def steps(self) -> int:
        """The difference that the recipes allow an operator's quantized result, in steps: the least of their `steps`."""
        return next(iter(self._references.values())).steps

    def report(self, *, quantization: bool = False) -> DelegationReport:
        """Return the delegation report: the backend that runs each operator, and why others are not delegated.

        Args:
            quantization: True to add the loss of each layer of a quantized program: the SQNR in dB, measured on the
                first calibration sample, or on the example inputs if there is none. The first such call runs the model
                twice in eager mode.

        Raises:
            CompileError: The quantized program has neither a calibration sample nor example inputs.

        Example:
            >>> print(program.report(quantization=True))
        """
        if quantization and self._report.quantization is None:
            qualities = [layer_qualities(program, name) for name, program in self.quantized.items()]
            rows = sorted((row for rows in qualities for row in rows), key=lambda row: row.sqnr)
            self._report = replace(self._report, quantization=rows)
        return self._report

    def compare(
        self, model: Model | Mapping[str, Model], inputs: Any = None, *, tolerance: float | None = None
    ) -> Comparison:
        """Run the program on this machine and `model` in eager mode, and compare their outputs.

        For a program that a recipe quantized, each output has two differences: from `model` (the loss of the recipe and
        of the runtime), and from the quantized program in PyTorch (the error of the runtime alone).

        `Comparison.ok` is True if the error of the runtime stays within a bound for every output. The bound allows for
        adding the terms of sums in another order: it is 1e-3 of the largest magnitude of the output in float32. If the
        program rounds values, or a backend says that it computes in fp16 or that its integers differ by some steps, the
        bound is at least three times the change that noise of this size causes
        (`edgecore.numerics.rounding.perturbed_eager`).

        Args:
            model: The model that was compiled: a module in eval mode, an ExportedProgram, or a mapping from names of
                methods to these.
            inputs: A tuple with one entry per argument, a tensor, or a list of these for several calls in a row; for
                several methods a mapping by name. By default the example inputs; three times in a row if the program
                has state.
            tolerance: Use another bound: the maximum error of the runtime, relative to the largest magnitude of an
                output. Needed for a backend that computes in lower precision and does not say so.

        Returns:
            The comparison, to be printed: a row for each output, the worst first, with its errors (relative to the
            largest magnitude, and as SQNR in dB). `ok` and `verdict` summarize the rows.

        Raises:
            BackendError: A backend that the program needs cannot run on this machine.
            CompileError: `model` or `inputs` do not match the program.
            ExecutionError: The program fails.

        Example:
            >>> assert program.compare(model).ok
        """
        comparison = compare(self, model, inputs, self._references, tolerance)
        ratios = {f"{row.method}, output {row.output}": row.eager.sqnr for row in comparison.rows if row.quantized}
        warn_of_losses(ratios, stacklevel=2)
        return comparison


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
            `torch.export.ExportedProgram`, or a mapping from method names to these; `example_inputs`, `example_kwargs`
            and `dynamic_shapes` are then mappings by method name too.
        example_inputs: A tuple with one entry per positional argument, or a mapping of keyword arguments, such as a
            tokenizer of transformers returns. The program accepts inputs with these dtypes and shapes (apart from
            dynamic dims). Not needed for an `ExportedProgram`.
        example_kwargs: Additional keyword arguments. The inputs of the program are the positional arguments, then the
            keyword arguments in the order of the parameters of `forward`.
        backends: Names or `Backend` objects in order of priority, or a single one. Each backend gets the operators that
            the backends before it do not support.
        dynamic_shapes: As for `torch.export.export`. Each Dim needs a `max`.
        runtime: The target runtime: `executorch-1.5` (the file also runs on ExecuTorch 1.5) or `edgecore`.
        memory: None (the caller supplies the memory of inputs and outputs), `static` (the arena also holds inputs and
            outputs), or a `MemoryPlanningPass`.
        external_data: The weights to store in `.ptd` files, which `save` writes into the folder of the `.pte`. True:
            all of them, in one file. A name: all of them, in the file of that name. A mapping from patterns of
            qualified names to file names: `{"*lora*": "adapter", "*": "base"}`. Load the files with
            `edgecore.load("m.pte", data=["base.ptd", ...])`.
        segment_alignment: As in `ExecutorchBackendConfig`: 4096 for segments that are mapped, locked or read on their own.
        constant_tensor_alignment: As in `ExecutorchBackendConfig`.
        share_state: True if all methods use one copy of the mutable buffers with the same qualified name, such as a
            cache that `prefill` fills and `decode` reads; otherwise each method has its own copy.
        constant_methods: Additional methods without inputs that return a constant, as a mapping from the name of the
            method to the constant: a number, string, tensor, or a list of these.
        quantize: A recipe of the first backend that has recipes: its name, such as `int8` or `int4-weights`, or
            `edgecore.Recipe("int4-weights", group=64, skip=["head"])` with parameters and rules; or a recipe for each
            backend by its name, where each operator gets the recipe of the first backend that quantizes it. With
            `runtime="edgecore"` edgecore's own kernels are the last backend, named `kernels`, with the recipes `int8` and
            `int16x8`. None to compile without quantization.
        calibration: Samples for `quantize`: an iterable of inputs (tuples, or a tensor if there is only one input), a
            folder of `.npy` files, or a function that calls the model that it gets as its argument. For several methods
            a mapping by name.
        passes: The passes that lower the model: `edgecore.passes.EDGE_PASSES`, or a list made from it with
            `insert_before`, `insert_after`, `replace` and `skip`.
        dump_passes: A new or empty folder, into which the graph is written as text after each pass that changed it.
        generate_etrecord: Keep the programs for `get_etrecord`, which ExecuTorch's developer tools read; edgecore's need
            only the `.pte`.

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
        PrecisionWarning: The model has numbers that the float16 of a backend does not hold, other than in masks.

    Example:
        >>> program = edgecore.compile(model, (torch.randn(1, 3, 224, 224),), backends=["xnnpack"])
        >>> program.save("model.pte")
        >>> edgecore.load("model.pte").forward(torch.randn(1, 3, 224, 224))
    """
    dump = None if dump_passes is None else PassDump(dump_passes)
    if runtime not in (fmt.EXECUTORCH_1_5, fmt.EDGECORE):
        raise CompileError(f"no target runtime {runtime!r}; use {fmt.EXECUTORCH_1_5!r} or {fmt.EDGECORE!r}")
    planning = _MEMORY.get(memory) if memory is None or isinstance(memory, str) else memory
    if planning is None:
        raise CompileError(f"memory={memory!r} is not valid; use None, 'static' or a MemoryPlanningPass")
    alignments = file_alignments(segment_alignment, constant_tensor_alignment)  # an error now, not after export
    chosen = _backend_list(backends)
    plan: Plan = ()
    if quantize is not None:
        plan = make_plan(quantize, _compilers(chosen), with_kernels=runtime == fmt.EDGECORE)
        chosen = [_with_options(backend, options_of(plan, backend.name)) for backend in chosen]
    computes_in = compute_dtype(plan, {backend.name: backend.options for backend in chosen})
    partitioners = [_partitioner(backend, runtime) for backend in chosen]
    models = dict(model) if isinstance(model, Mapping) else {"forward": model}
    exported, shapes_of = dict[str, ExportedProgram](), dict[str, Any]()
    quantized = dict[str, Quantized]()
    for name, given in models.items():
        method_model = convert_trained(given) if is_prepared(given) else given
        if plan and method_model is not given:
            raise CompileError(
                "the model was prepared by edgecore.prepare_qat, which chose its recipe; remove quantize"
            )
        inputs = example_inputs[name] if isinstance(model, Mapping) and example_inputs is not None else example_inputs
        shapes = dynamic_shapes[name] if isinstance(model, Mapping) and dynamic_shapes is not None else dynamic_shapes
        kwargs = example_kwargs[name] if isinstance(model, Mapping) and example_kwargs is not None else example_kwargs
        exported[name] = (
            method_model
            if isinstance(method_model, ExportedProgram)
            else export_model(method_model, inputs, kwargs, shapes)
        )
        shapes_of[name] = dynamic_shapes_by_argument(method_model, shapes) if plan else None
    check_rules(plan, exported)
    for name, program in exported.items():
        if plan:
            check_dense(program)  # without a recipe, lowering checks
            check_transforms(program)
            samples = calibration[name] if isinstance(calibration, Mapping) else calibration
            quantized[name] = quantize_model(program, plan, samples, shapes_of[name], computes_in)
            exported[name] = quantized[name].program
    if any(recipe.method.calibrates for recipe in recipes_of(plan)):
        ratios = [output_ratios(program, name) for name, program in quantized.items()]
        warn_of_losses({name: ratio for by_output in ratios for name, ratio in by_output.items()}, stacklevel=2)
        lost = [row for name, program in quantized.items() for row in lost_layers(program, name)]
        warn_of_lost_layers(lost, stacklevel=2)
    if quantize is None and calibration is not None:
        raise CompileError("calibration has no effect without quantize; name a recipe, such as quantize='int8'")
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
    _check_required(chosen, lowered.report())
    if share_state:
        planning = replace(planning, share_mutable_buffers=True)
    finished = lowered.finish(
        FinishOptions(runtime=runtime, planning=planning, external_constants=external_data, alignments=alignments)
    )
    used = {delegate.id for method in finished.pte.program.execution_plan for delegate in method.delegates}
    float_dtype = _float_dtype(chosen, used)
    references = {name: _reference(one, quantized.get(name), plan, float_dtype) for name, one in exported.items()}
    seconds = time.perf_counter() - start
    half = (
        used
        if computes_in == "float16"
        else {backend for backend in used if _float_dtype(chosen, {backend}) != "float32"}
    )
    unheld = unheld_constants(finished.programs, torch.float16, half - _rounding_weights_only(chosen))
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
    `model`. Train it with your own loop, then pass it to `edgecore.compile` without `quantize`. The ranges of activations
    are moving averages over the training, so the parameter `observer` of the recipe has no effect.

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
    plan = make_plan(quantize, _compilers(_backend_list(backends)), with_kernels=True)
    was_training = {module: module.training for module in model.modules()}
    try:
        exported = export_model(model.train(), example_inputs, example_kwargs, dynamic_shapes, is_training=True)
    finally:
        for module, training in was_training.items():
            module.training = training
    return prepare_training(exported, plan)


def _compilers(backends: Sequence[Backend]) -> dict[str, BackendCompiler]:
    return {backend.name: compiler_of(registry.find_by_name(backend.name)) for backend in backends}


def _float_dtype(backends: Sequence[Backend], used: Set[str]) -> str:
    """Return the dtype in which backends compute floating-point values without a recipe: "float16" if one of them does.

    Args:
        backends: The backends that were asked for.
        used: Ids of those that the program uses; the others do not matter.
    """
    for backend in backends:
        info = registry.find_by_name(backend.name)
        compiler = compiler_of(info)
        if isinstance(compiler, LowPrecisionCompiler) and info.backend_id in used:
            with failures_named(f"backend {backend.name!r}"):
                found = compiler.computes_in(compiler.Options(**backend.options))
            if found != "float32":
                return found
    return "float32"


def _rounding_weights_only(backends: Sequence[Backend]) -> set[str]:
    """Return the ids of the backends that compute in float32 with weights of a lower precision."""
    ids = set()
    for backend in backends:
        info = registry.find_by_name(backend.name)
        compiler = compiler_of(info)
        if isinstance(compiler, WeightRoundingCompiler):
            with failures_named(f"backend {backend.name!r}"):
                if compiler.rounds_weights_only(compiler.Options(**backend.options)):
                    ids.add(info.backend_id)
    return ids


def _reference(exported: ExportedProgram, quantized: Quantized | None, plan: Plan, float_dtype: str) -> Reference:
    """Make the reference program with which `CompiledProgram.compare` compares a method, besides the user's model.

    Where activations are quantized, their steps matter more than `float_dtype`. The least of the recipes' steps counts,
    so that no recipe is judged by the steps of another one.
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


def _backend_list(backends: str | Backend | Sequence[str | Backend]) -> list[Backend]:
    """Return the argument `backends` as a list of `Backend` objects."""
    items = [backends] if isinstance(backends, (str, Backend)) else backends
    for item in items:
        if not isinstance(item, (str, Backend)):
            raise CompileError(f"backends contains a {type(item).__name__}; use names of backends or Backend objects")
    return [Backend(item) if isinstance(item, str) else item for item in items]


def _with_options(backend: Backend, options: Mapping[str, Any]) -> Backend:
    """Return a backend with additional options; the backend's own options have priority."""
    return Backend(
        backend.name,
        required=backend.required,
        skip_mutable_buffer=backend.skip_mutable_buffer,
        **{**options, **backend.options},
    )


def _partitioner(backend: Backend, runtime: str) -> Partitioner:
    info = registry.find_by_name(backend.name)
    compiler = compiler_of(info)
    try:
        options = compiler.Options(**backend.options)
    except ValidationError as error:
        problems = "; ".join(_option_problem(problem) for problem in error.errors())
        names = ", ".join(compiler.Options.model_fields) or "none"
        raise CompileError(f"options of backend {backend.name!r}: {problems} (it has: {names})") from error
    with failures_named(f"backend {backend.name!r}"):
        return compiler.partitioner(options, runtime=runtime)


def _option_problem(problem: ErrorDetails) -> str:
    name = ".".join(map(str, problem["loc"]))
    message = problem_message(problem)
    if problem["type"] == "extra_forbidden":
        return f"no option {name!r}"
    return f"{name}: {message}" if name else message  # of several options together, which the message names


def _check_required(backends: Sequence[Backend], report: DelegationReport) -> None:
    """Raise `CompileError` if a backend is required and an operator is not delegated."""
    required = [backend.name for backend in backends if backend.required]
    if required and report.left_outside:
        lines = report.outside_nodes()
        count = f"{len(lines)} operators are" if len(lines) > 1 else "1 operator is"
        raise CompileError(f"backend {required[0]!r} is required, but {count} not delegated:\n  " + ";\n  ".join(lines))
