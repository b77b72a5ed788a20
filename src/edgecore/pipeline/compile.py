"""`edgecore.compile`: a model in, a `.pte` out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
from edgecore.ir.failures import failures_named
from edgecore.memory import MemoryPlanningPass
from edgecore.partition import Partitioner
from edgecore.passes.pass_list import PassList
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.pipeline.compare import Comparison, Reference, compare
from edgecore.pipeline.export import dynamic_shapes_by_argument, export_model
from edgecore.pipeline.lower import lower
from edgecore.pipeline.managers import ExecutorchBackendConfig, ExecutorchProgramManager
from edgecore.pipeline.pass_dump import PassDump
from edgecore.pipeline.preprocess import compiler_of
from edgecore.plugin import Recipe, RewriteRecipe, registry
from edgecore.quantize import (
    Calibration,
    Quantized,
    find_recipe,
    layer_qualities,
    output_ratios,
    quantize_model,
    warn_of_losses,
)
from edgecore.quantize.rounding import rounds

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from edgecore.pipeline.report import DelegationReport

Model = torch.nn.Module | ExportedProgram
_MEMORY = {None: MemoryPlanningPass(), "static": MemoryPlanningPass(alloc_graph_input=True, alloc_graph_output=True)}


class CompiledProgram(ExecutorchProgramManager):
    """A finished program with what it was made from: `save`, `buffer`, `report`, `compare`.

    `seconds` is the time of lowering, without export, in seconds; `quantized` the programs that a recipe made, by method.
    """

    def __init__(
        self,
        finished: ExecutorchProgramManager,
        seconds: float,
        quantized: Mapping[str, Quantized],
        references: Mapping[str, Reference],
    ) -> None:
        super().__init__(finished.pte, finished.data, finished.report(), finished.methods, finished.config_methods)
        self.seconds = seconds
        self.quantized = quantized
        self._references = references

    def report(self, *, quantization: bool = False) -> DelegationReport:
        """Return which operators run on which backend, and why others do not; `print` shows it as a table.

        Args:
            quantization: Add the loss of each layer of a quantized program, as a signal to noise ratio in dB on the first
                sample of the calibration (without one on the example inputs). The first call with it runs the model twice
                in eager mode.

        Raises:
            CompileError: The quantized program has neither a sample nor example inputs.

        Example:
            >>> print(program.report(quantization=True))
        """
        if quantization and self._report.quantization is None:
            found = [layer_qualities(one, name) for name, one in self.quantized.items()]
            rows = sorted((row for rows in found for row in rows), key=lambda row: row.sqnr)
            self._report = replace(self._report, quantization=rows)
        return self._report

    def compare(
        self, model: Model | Mapping[str, Model], inputs: Any = None, *, tolerance: float | None = None
    ) -> Comparison:
        """Run the file here and `model` in eager mode, and measure how far their outputs lie apart, the worst output first.

        Of a program that a recipe quantized, two differences: from `model`, which is what the recipe and the runtime
        lose, and from the quantized program in torch, which is the runtime's own error. `Comparison.ok` says whether the
        runtime's own error is within what other orders of sums explain, for every output: 1e-3 of the largest magnitude
        of an output in float32; where values are rounded, up to three times what noise in these roundings changes
        (`edgecore.quantize.rounding.perturbed_eager`).

        Args:
            model: What was compiled: a module in eval mode or an ExportedProgram, or a mapping by method.
            inputs: A tuple with one entry per argument, a tensor, or a list of these for several calls in a row; of
                several methods, a mapping by name. By default the example inputs.
            tolerance: Largest error of the runtime relative to the largest magnitude of an output, for a backend that was
                told to compute in less precision.

        Returns:
            A row for each output with its errors (relative to the largest magnitude, and in dB), printable; `ok` and
            `verdict` sum them up.

        Raises:
            BackendError: A backend that the program needs cannot run here.
            CompileError: `model` or `inputs` do not fit the program.
            ExecutionError: The program does not run.

        Example:
            >>> assert program.compare(model).ok
        """
        found = compare(self, model, inputs, self._references, tolerance)
        ratios = {f"{row.method}, output {row.output}": row.eager.sqnr for row in found.rows if row.quantized}
        warn_of_losses(ratios, stacklevel=2)
        return found


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
    share_state: bool = False,
    constant_methods: Mapping[str, object] | None = None,
    quantize: str | None = None,
    calibration: Calibration | None = None,
    passes: PassList = EDGE_PASSES,
    dump_passes: str | Path | None = None,
) -> CompiledProgram:
    """Compile a model to a `.pte` program; needs the extra `edgecore[compile]`.

    Args:
        model: A `torch.nn.Module` in eval mode, a `torch.export.ExportedProgram`, or a mapping from method names to
            these; then `example_inputs`, `example_kwargs` and `dynamic_shapes` are mappings too.
        example_inputs: A tuple with one entry per positional argument, or a mapping of keyword arguments, as a tokenizer
            of transformers gives it. Shapes (but for dynamic dims) and dtypes of these inputs are those of the program.
            Not needed for an `ExportedProgram`.
        example_kwargs: Keyword arguments beside those. When the program runs, they follow the positional ones, in the
            order of the arguments of `forward`.
        backends: Names or `Backend` objects in order of priority, or a single one; each takes what the ones before it left.
        dynamic_shapes: As for `torch.export.export`. Dims need a `max`.
        runtime: The target runtime: `executorch-1.5` (the file also runs on ExecuTorch 1.5) or `edgecore`.
        memory: None (the caller supplies inputs and outputs), `static` (they are planned too), or a planning pass.
        external_data: Which weights go to `.ptd` files, which `save` writes beside the `.pte`: True all of them to one file,
            a name all to the file of that name, or a mapping from patterns of qualified names to files:
            `{"*lora*": "adapter", "*": "base"}`. Load them with `edgecore.load("m.pte", data=["base.ptd", ...])`.
        share_state: All methods use one copy of the mutable buffers that have the same qualified name, such as a cache
            that `prefill` fills and `decode` reads; otherwise each method has its own.
        constant_methods: Methods without inputs that return a value, by name: numbers, strings, tensors, lists of these.
        quantize: A recipe of the first backend that has any, such as `int8` or `int4-weights`; None compiles the model as
            it is.
        calibration: For `quantize`: an iterable of inputs (tuples, or the only tensor), a folder of `.npy` files, or a
            function that calls the model it is given. Of several methods: a mapping by name.
        passes: The passes that lower the model: `edgecore.passes.EDGE_PASSES`, or a list made from it with `insert_before`,
            `insert_after`, `replace` and `skip`.
        dump_passes: A new or empty folder for the graph after each pass that changed it, as text.

    Returns:
        The program, still in memory: `save` writes it, `report` says what runs where, `compare` runs it beside the model.

    Raises:
        BackendError: A backend is not installed, broken or disabled.
        CompileError: The model does not export, an operator has no kernel, an option is wrong, a required backend failed.
        WriteError: `dump_passes` cannot be written, or is not empty.

    Warns:
        FallbackWarning: A backend failed on a part of the model, which the next backend or the kernels run instead.
        QuantizationWarning: Quantization leaves little of an output.

    Example:
        >>> program = edgecore.compile(model, (torch.randn(1, 3, 224, 224),), backends=["xnnpack"])
        >>> program.save("model.pte")
        >>> edgecore.load("model.pte").forward(torch.randn(1, 3, 224, 224))
    """
    dump = None if dump_passes is None else PassDump(dump_passes)
    if runtime not in (fmt.EXECUTORCH_1_5, fmt.EDGECORE):
        raise CompileError(f"no target runtime {runtime!r}: there are {fmt.EXECUTORCH_1_5} and {fmt.EDGECORE}")
    planning = _MEMORY.get(memory) if memory is None or isinstance(memory, str) else memory
    if planning is None:
        raise CompileError(f"memory={memory!r} is neither None, 'static' nor a MemoryPlanningPass")
    chosen = _chosen(backends)
    recipe = None
    if quantize is not None:
        compilers = {one.name: compiler_of(registry.find_by_name(one.name)) for one in chosen}
        name, recipe = find_recipe(quantize, compilers)
        if isinstance(recipe, RewriteRecipe):
            chosen = [_with_options(one, recipe.options) if one.name == name else one for one in chosen]
            options = next(one.options for one in chosen if one.name == name)
            if any(options[key] != value for key, value in recipe.options.items()):
                recipe = replace(recipe, computes_in="float32")
    partitioners = [_partitioner(backend, runtime) for backend in chosen]
    models = dict(model) if isinstance(model, Mapping) else {"forward": model}
    exported, quantized, references = {}, dict[str, Quantized](), dict[str, Reference]()
    for name, one in models.items():
        inputs = example_inputs[name] if isinstance(model, Mapping) and example_inputs is not None else example_inputs
        shapes = dynamic_shapes[name] if isinstance(model, Mapping) and dynamic_shapes is not None else dynamic_shapes
        kwargs = example_kwargs[name] if isinstance(model, Mapping) and example_kwargs is not None else example_kwargs
        exported[name] = one if isinstance(one, ExportedProgram) else export_model(one, inputs, kwargs, shapes)
        if quantize is not None and recipe is not None:
            given = calibration[name] if isinstance(calibration, Mapping) else calibration
            shapes = dynamic_shapes_by_argument(one, shapes)
            quantized[name] = quantize_model(exported[name], quantize, recipe, given, shapes)
            exported[name] = quantized[name].program
        references[name] = _reference(exported[name], quantized.get(name))
    if isinstance(recipe, Recipe) and recipe.calibrates:
        ratios = [output_ratios(one, name) for name, one in quantized.items()]
        warn_of_losses({name: ratio for of in ratios for name, ratio in of.items()}, stacklevel=3)
    if quantize is None and calibration is not None:
        raise CompileError("calibration without quantize: name a recipe, such as quantize='int8'")
    start = time.perf_counter()
    required = [partitioner for backend, partitioner in zip(chosen, partitioners, strict=True) if backend.required]
    edge = lower(
        exported,
        partitioner=partitioners,
        constant_methods=constant_methods,
        required=required,
        passes=passes,
        dump=dump,
    )
    _check_required(chosen, edge.report())
    if share_state:
        planning = replace(planning, share_mutable_buffers=True)
    config = ExecutorchBackendConfig(memory_planning_pass=planning, runtime=runtime, external_constants=external_data)
    finished = edge.to_executorch(config)
    return CompiledProgram(finished, time.perf_counter() - start, quantized, references)


def _reference(exported: ExportedProgram, quantized: Quantized | None) -> Reference:
    if quantized is not None:
        return Reference(quantized.original.example_inputs, exported, quantized.computes_in, by_recipe=True)
    return Reference(exported.example_inputs, exported if rounds(exported) else None)


def _chosen(backends: str | Backend | Sequence[str | Backend]) -> list[Backend]:
    """The backends as objects; one alone is a list of one."""
    listed = [backends] if isinstance(backends, (str, Backend)) else backends
    for one in listed:
        if not isinstance(one, (str, Backend)):
            raise CompileError(f"backends has a value of type {type(one).__name__}, neither a name nor a Backend")
    return [Backend(one) if isinstance(one, str) else one for one in listed]


def _with_options(backend: Backend, options: Mapping[str, Any]) -> Backend:
    return Backend(backend.name, required=backend.required, **{**options, **backend.options})


def _partitioner(backend: Backend, runtime: str) -> Partitioner:
    info = registry.find_by_name(backend.name)
    compiler = compiler_of(info)
    try:
        options = compiler.Options(**backend.options)
    except ValidationError as error:
        problems = "; ".join(_option_problem(problem) for problem in error.errors())
        known = ", ".join(compiler.Options.model_fields) or "none"
        raise CompileError(f"options of backend {backend.name!r}: {problems} (it has: {known})") from error
    with failures_named(f"backend {backend.name!r}"):
        return compiler.partitioner(options, runtime=runtime)


def _option_problem(problem: ErrorDetails) -> str:
    name = ".".join(map(str, problem["loc"]))
    message = problem["msg"].removeprefix("Value error, ")
    return f"no option {name!r}" if problem["type"] == "extra_forbidden" else f"{name}: {message}"


def _check_required(backends: Sequence[Backend], report: DelegationReport) -> None:
    required = [backend.name for backend in backends if backend.required]
    if required and report.left_outside:
        lines = report.outside_nodes()
        count = f"{len(lines)} operators are" if len(lines) > 1 else "1 operator is"
        raise CompileError(f"backend {required[0]!r} is required, but {count} outside:\n  " + ";\n  ".join(lines))
