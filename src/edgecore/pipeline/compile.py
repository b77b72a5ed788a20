"""`edgecore.compile`: a model in, a `.pte` out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError
from torch.export import ExportedProgram

from edgecore import format as fmt
from edgecore.emit import ExternalConstants
from edgecore.errors import CompileError
from edgecore.ir.failures import failures_named
from edgecore.memory import MemoryPlanningPass
from edgecore.partition import Partitioner
from edgecore.pipeline.compare import Comparison, Reference, compare
from edgecore.pipeline.export import export_model
from edgecore.pipeline.lower import lower
from edgecore.pipeline.managers import ExecutorchBackendConfig, ExecutorchProgramManager
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
from edgecore.target import Backend

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from edgecore.pipeline.report import DelegationReport

Model = torch.nn.Module | ExportedProgram
_MEMORY = {None: MemoryPlanningPass(), "static": MemoryPlanningPass(alloc_graph_input=True, alloc_graph_output=True)}


class CompiledProgram(ExecutorchProgramManager):
    """What `edgecore.compile` returns: `save`, `buffer`, `report`, `compare`.

    `seconds` is what lowering took without export; `quantized` the programs that a recipe made, by method.
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
        """Which operators run where, and why; printable.

        `quantization`: also what each layer of a quantized program loses, measured on the first sample of the calibration
        (without one on the example inputs): the first call with it runs the model twice in eager mode.
        """
        if quantization and self._report.quantization is None:
            found = [layer_qualities(one, name) for name, one in self.quantized.items()]
            rows = sorted((row for rows in found for row in rows), key=lambda row: row.sqnr)
            self._report = replace(self._report, quantization=rows)
        return self._report

    def compare(
        self, model: Model | Mapping[str, Model], inputs: Any = None, *, tolerance: float | None = None
    ) -> Comparison:
        """Run the file here and `model` in eager mode, and say how far their outputs lie apart, the worst output first.

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

        Raises:
            BackendError: A backend that the program needs cannot run here.
            CompileError: `model` or `inputs` do not fit the program.
            ExecutionError: The program does not run.
        """
        found = compare(self, model, inputs, self._references, tolerance)
        ratios = {f"{row.method}, output {row.output}": row.eager.sqnr for row in found.rows if row.quantized}
        warn_of_losses(ratios, stacklevel=2)
        return found


def compile_model(
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
) -> CompiledProgram:
    """See `edgecore.compile`."""
    if runtime not in (fmt.EXECUTORCH_1_5, fmt.EDGECORE):
        raise CompileError(f"no runtime profile {runtime!r}: there are {fmt.EXECUTORCH_1_5} and {fmt.EDGECORE}")
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
    edge = lower(exported, partitioner=partitioners, constant_methods=constant_methods, required=required)
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
