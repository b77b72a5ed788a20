"""ExecuTorch's flow in one call: `export(model, example_inputs, recipe)` quantizes, exports, lowers, makes the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from edgecore.errors import CompileError
from edgecore.executorch.devtools.etrecord.record import ETRecord
from edgecore.executorch.exir.config import EdgeCompileConfig
from edgecore.executorch.exir.program import EdgeProgramManager, ExecutorchProgramManager
from edgecore.executorch.exir.scripts.config import ExecutorchBackendConfig
from edgecore.executorch.exir.scripts.lowering import to_edge, to_edge_transform_and_lower
from edgecore.executorch.exir.scripts.managers import GraphPass
from edgecore.executorch.export.recipes import RecipeType, recipe_of
from edgecore.executorch.runtime.runtime import Program
from edgecore.ir.program.copying import unchanged_buffers
from edgecore.partition import Partitioner
from edgecore.pipeline.lowering.methods import check_methods, partitioners_by_method
from edgecore.quantize.pt2e import convert, functional_copy
from edgecore.stability import warn_no_effect

Model = torch.nn.Module | ExportedProgram
Inputs = Sequence[tuple[Any, ...]]
Result = TypeVar("Result")


class StageType(str, Enum):
    """A stage of `export`, from the PyTorch model to the file."""

    SOURCE_TRANSFORM = "source_transform"
    QUANTIZE = "quantize"
    TORCH_EXPORT = "torch_export"
    TO_EDGE_TRANSFORM_AND_LOWER = "to_edge_transform_and_lower"
    TO_EDGE = "to_edge"
    EDGE_PROGRAM_MANAGER_TRANSFORM = "edge_program_manager_transform"
    TO_BACKEND = "to_backend"
    TO_EXECUTORCH = "to_executorch"


@dataclass
class AOQuantizationConfig:
    """A configuration of torchao's `quantize_`, and the modules to which it applies.

    Attributes:
        ao_base_config: The configuration.
        filter_fn: Takes a module and its name, and returns True to quantize it; None for torchao's default.
    """

    ao_base_config: Any
    filter_fn: Callable[[torch.nn.Module, str], bool] | None = None


@dataclass
class QuantizationRecipe:
    """Settings of quantization.

    Attributes:
        quantizers: Quantizers of PT2E quantization, the first with priority.
        ao_quantization_configs: Configurations of `quantize_`, which changes the model before it is exported.
    """

    quantizers: Sequence[Any] | None = None
    ao_quantization_configs: Sequence[AOQuantizationConfig] | None = None

    def get_quantizers(self) -> Sequence[Any] | None:
        """Return the quantizers."""
        return self.quantizers


@dataclass
class LoweringRecipe:
    """Settings of lowering.

    Attributes:
        partitioners: Partitioners in order of priority, or a mapping from names of methods to such lists.
        edge_transform_passes: Functions that take a method's name and program, and return passes over the edge program.
        edge_manager_transform_passes: Functions that take the `EdgeProgramManager`, and return passes for `transform`.
        edge_compile_config: Operators that are not decomposed, or that may stay although the edge dialect lacks them.
    """

    partitioners: Sequence[Partitioner] | Mapping[str, Sequence[Partitioner]] | None = None
    edge_transform_passes: Sequence[Callable[[str, ExportedProgram], Sequence[GraphPass]]] | None = None
    edge_manager_transform_passes: Sequence[Callable[[EdgeProgramManager], Sequence[GraphPass]]] | None = None
    edge_compile_config: EdgeCompileConfig | None = None


@dataclass
class ExportRecipe:
    """The settings of `export`.

    Attributes:
        name: Name of the recipe.
        quantization_recipe: Settings of quantization; None to leave the model in floating point.
        aten_transform_passes: Functions that take a method's name and its exported program, and return another program.
        source_transform_in_place: Let `quantize_` change the given model instead of a copy.
        lowering_recipe: Settings of lowering; None for no backend.
        executorch_backend_config: Settings of the file.
        pipeline_stages: The stages that run; None for all. With `TO_EDGE`, operators are decomposed first, and backends
            take the results in the stage `TO_BACKEND`.
        strict: The argument of `torch.export.export`.
    """

    name: str | None = None
    quantization_recipe: QuantizationRecipe | None = None
    aten_transform_passes: Sequence[Callable[[str, ExportedProgram], ExportedProgram]] | None = None
    source_transform_in_place: bool = False
    lowering_recipe: LoweringRecipe | None = None
    executorch_backend_config: ExecutorchBackendConfig | None = None
    pipeline_stages: Sequence[StageType] | None = None
    strict: bool = True

    @classmethod
    def get_recipe(cls, recipe: RecipeType, **kwargs: Any) -> ExportRecipe:
        """Return the recipe of a backend by its type, such as `XNNPackRecipeType.FP32`, with its parameters.

        Raises:
            CompileError: The argument is not a recipe type, or no registered provider makes it.
        """
        return recipe_of(recipe, kwargs)

    @classmethod
    def combine(cls, recipes: Sequence[ExportRecipe], recipe_name: str | None = None) -> ExportRecipe:
        """Return one recipe with the quantizers, passes and partitioners of several recipes, in their order.

        Raises:
            CompileError: The recipes differ in a setting such as `executorch_backend_config`, one of several recipes
                has partitioners by method, or there is no recipe.
        """
        if not recipes:
            raise CompileError("there are no recipes to combine")
        settings: dict[str, Any] = {}
        for setting in ("executorch_backend_config", "pipeline_stages", "strict", "source_transform_in_place"):
            values = [getattr(recipe, setting) for recipe in recipes if getattr(recipe, setting) is not None]
            if any(value != values[0] for value in values):
                raise CompileError(f"the recipes cannot be combined, since their {setting} differ")
            settings[setting] = values[0] if values else None
        return cls(
            name=recipe_name or "_".join(recipe.name or "recipe" for recipe in recipes),
            quantization_recipe=_joined(QuantizationRecipe, [recipe.quantization_recipe for recipe in recipes]),
            aten_transform_passes=[step for recipe in recipes for step in recipe.aten_transform_passes or ()],
            lowering_recipe=_joined(LoweringRecipe, [recipe.lowering_recipe for recipe in recipes]),
            **settings,
        )


def _joined(kind: type[Any], parts: Iterable[Any]) -> Any:
    """Join several recipes of the class `kind` into one, with their lists concatenated; None if all are None."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    joined: dict[str, Any] = {}
    for setting in fields(kind):
        values = [value for part in present if (value := getattr(part, setting.name)) is not None]
        if any(isinstance(value, Mapping) for value in values) and len(values) > 1:
            raise CompileError("the recipes cannot be combined, since one has partitioners by method")
        is_list = bool(values) and all(isinstance(value, (list, tuple)) for value in values)
        if not is_list and any(value != values[0] for value in values):
            raise CompileError(f"the recipes cannot be combined, since their {setting.name} differ")
        joined[setting.name] = [item for value in values for item in value] if is_list else next(iter(values), None)
    return kind(**joined)


class ExportSession:
    """The results of `export`. Asking for the result of a stage that did not run raises a `CompileError`."""

    def __init__(
        self,
        model: Model | Mapping[str, Model] | str | Path,
        example_inputs: Inputs | Mapping[str, Inputs] | None,
        export_recipe: ExportRecipe,
        name: str | None = None,
        dynamic_shapes: Any = None,
        constant_methods: Mapping[str, Any] | None = None,
        artifact_dir: str | None = None,
        generate_etrecord: bool = False,
    ) -> None:
        self.name = name or export_recipe.name
        if isinstance(model, (str, Path)):
            model = torch.export.load(model)
        self._models: dict[str, Model] = dict(model) if isinstance(model, Mapping) else {"forward": model}
        self._inputs = (
            dict(example_inputs) if isinstance(example_inputs, Mapping) else {"forward": example_inputs or ()}
        )
        # The keys of dynamic_shapes are methods, as in ExecuTorch, or the model's parameters, as in torch.export.
        by_method = isinstance(dynamic_shapes, Mapping) and (isinstance(model, Mapping) or "forward" in dynamic_shapes)
        self._shapes: dict[str, Any] = dict(dynamic_shapes) if by_method else {"forward": dynamic_shapes}
        for argument, by_name in (("example_inputs", example_inputs), ("dynamic_shapes", self._shapes)):
            if by_name is not self._shapes or by_method:
                check_methods(by_name, self._models, argument)
        self._recipe = export_recipe
        self._constant_methods = {
            method: value() if callable(value) else value for method, value in (constant_methods or {}).items()
        }
        self._folder = Path(artifact_dir or ".")
        self._generate_etrecord = generate_etrecord
        self._exported: dict[str, ExportedProgram] = {}
        self._edge: EdgeProgramManager | None = None
        self._finished: ExecutorchProgramManager | None = None

    def export(self) -> None:
        """Run all stages."""
        self._warn_of_missing_stages()
        for method, model in self._models.items():
            if isinstance(model, ExportedProgram):
                program = model
                if self._recipe.quantization_recipe is not None:
                    _warn_not_quantized()
            else:
                program = self._export_module(method, model)
            for transform in self._recipe.aten_transform_passes or ():
                program = transform(method, program)
            self._exported[method] = program
        if self._runs(StageType.TO_EDGE) or self._runs(StageType.TO_EDGE_TRANSFORM_AND_LOWER):
            self._edge = self._lower()
            if self._runs(StageType.TO_EXECUTORCH):
                self._finished = self._edge.to_executorch(
                    self._recipe.executorch_backend_config or ExecutorchBackendConfig()
                )

    def _warn_of_missing_stages(self) -> None:
        """Warn of settings without effect, because `pipeline_stages` lacks the stage that reads them."""
        quantization = self._recipe.quantization_recipe or QuantizationRecipe()
        lowering = self._recipe.lowering_recipe or LoweringRecipe()
        lower, transform = StageType.TO_EDGE_TRANSFORM_AND_LOWER, StageType.EDGE_PROGRAM_MANAGER_TRANSFORM
        needs: dict[str, tuple[Any, tuple[StageType, ...]]] = {
            "ao_quantization_configs": (quantization.ao_quantization_configs, (StageType.SOURCE_TRANSFORM,)),
            "quantizers": (quantization.get_quantizers(), (StageType.QUANTIZE,)),
            "edge_transform_passes": (lowering.edge_transform_passes, (lower, transform)),
            "edge_manager_transform_passes": (lowering.edge_manager_transform_passes, (transform,)),
            "partitioners": (lowering.partitioners, (lower, StageType.TO_BACKEND)),
        }
        for setting, (value, stages) in needs.items():
            if value and not any(map(self._runs, stages)):
                reason = f"no {' or '.join(stage.name for stage in stages)} in pipeline_stages"
                warn_no_effect(f"ExportRecipe(...{setting}=...)", reason)

    def _runs(self, stage: StageType) -> bool:
        return not self._recipe.pipeline_stages or stage in self._recipe.pipeline_stages

    def get_exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """Return the exported program of a method."""
        return self._exported[method_name]

    def get_edge_program_manager(self) -> EdgeProgramManager:
        """Return the edge programs."""
        return _present(self._edge, StageType.TO_EDGE_TRANSFORM_AND_LOWER)

    def get_executorch_program_manager(self) -> ExecutorchProgramManager:
        """Return the finished program."""
        return _present(self._finished, StageType.TO_EXECUTORCH)

    def get_executorch_program(self) -> Any:
        """Return the tables of the `.pte`."""
        return self.get_executorch_program_manager().executorch_program

    def get_pte_buffer(self) -> bytes:
        """Return the `.pte` as bytes."""
        return self.get_executorch_program_manager().buffer

    def save_to_pte(self, output_name: str) -> None:
        """Write the `.pte` to `OUTPUT_NAME.pte` in the folder of the session."""
        name = output_name if output_name.endswith(".pte") else f"{output_name}.pte"
        self.get_executorch_program_manager().save(self._folder / name)

    def get_example_input(self, method_name: str = "forward") -> tuple[Any, ...]:
        """Return the first example inputs of a method.

        Raises:
            CompileError: There are none.
        """
        samples = self._inputs.get(method_name) or ()
        if not samples:
            raise CompileError(f"the method {method_name!r} has no example inputs")
        return tuple(samples[0])

    def run_method(self, method_name: str = "forward", example_inputs: tuple[Any, ...] | None = None) -> list[Any]:
        """Run the finished program with inputs, by default the first example inputs."""
        inputs = self.get_example_input(method_name) if example_inputs is None else example_inputs
        finished = self.get_executorch_program_manager()
        return Program(finished.buffer, finished.data_buffers, False, 0).load_method(method_name).execute(inputs)

    def print_delegation_info(self) -> None:
        """Print which operators backends run, and why others are not delegated."""
        print(self.get_executorch_program_manager().report())

    def get_etrecord(self) -> ETRecord:
        """Return the record for developer tools, if the session was made with `generate_etrecord=True`."""
        return self.get_executorch_program_manager().get_etrecord()

    def _export_module(self, method: str, model: torch.nn.Module) -> ExportedProgram:
        quantization = self._recipe.quantization_recipe or QuantizationRecipe()
        inputs = self.get_example_input(method)
        shapes = self._shapes.get(method)
        configs = quantization.ao_quantization_configs if self._runs(StageType.SOURCE_TRANSFORM) else None
        quantizers = quantization.get_quantizers() if self._runs(StageType.QUANTIZE) else None
        if (configs or quantizers) and isinstance(model, GraphModule):
            _warn_not_quantized()
            configs = quantizers = None
        for config in configs or ():
            model = _quantized_in_place(model, config, self._recipe.source_transform_in_place)
        if quantizers:
            from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e
            from torchao.quantization.pt2e.quantizer import ComposableQuantizer

            captured = torch.export.export(model, inputs, dynamic_shapes=shapes, strict=self._recipe.strict)
            functional, _ = functional_copy(captured)
            quantizer = quantizers[0] if len(quantizers) == 1 else ComposableQuantizer(list(quantizers))
            prepared = prepare_pt2e(functional.module(), quantizer)
            with unchanged_buffers(functional):
                for sample in self._inputs.get(method) or ():
                    prepared(*sample)
            model = convert(prepared)
        return torch.export.export(model, inputs, dynamic_shapes=shapes, strict=self._recipe.strict)

    def _lower(self) -> EdgeProgramManager:
        lowering = self._recipe.lowering_recipe or LoweringRecipe()
        separately = bool(self._recipe.pipeline_stages) and self._runs(StageType.TO_EDGE)

        def passes_of(programs: Mapping[str, ExportedProgram]) -> dict[str, list[GraphPass]]:
            makers = lowering.edge_transform_passes or ()
            return {
                method: [graph_pass for make in makers for graph_pass in make(method, program)]
                for method, program in programs.items()
            }

        common: dict[str, Any] = {
            "constant_methods": self._constant_methods,
            "compile_config": lowering.edge_compile_config,
            "generate_etrecord": self._generate_etrecord,
        }
        if not separately:
            edge: Any = to_edge_transform_and_lower(
                self._exported,
                transform_passes=passes_of(self._exported),
                partitioner=lowering.partitioners,
                **common,
            )
        else:
            edge = to_edge(self._exported, **common)
        if self._runs(StageType.EDGE_PROGRAM_MANAGER_TRANSFORM):
            if separately:
                edge = edge.transform(passes_of({name: edge.exported_program(name) for name in self._exported}))
            for make in lowering.edge_manager_transform_passes or ():
                edge = edge.transform(make(edge))
        if not separately or not self._runs(StageType.TO_BACKEND):
            return edge  # type: ignore[no-any-return]
        by_method = partitioners_by_method(lowering.partitioners, self._exported)
        for priority in range(max(map(len, by_method.values()), default=0)):
            edge = edge.to_backend({name: row[priority] for name, row in by_method.items() if priority < len(row)})
        return edge  # type: ignore[no-any-return]


def _warn_not_quantized() -> None:
    reason = "an exported program or its graph is not quantized; give the nn.Module"
    warn_no_effect("ExportRecipe(quantization_recipe=...)", reason)


def _present(result: Result | None, stage: StageType) -> Result:
    if result is None:
        raise CompileError(f"the stage {stage.value!r} did not run; it is not among pipeline_stages of the recipe")
    return result


def export(
    model: Model | Mapping[str, Model] | str | Path,
    example_inputs: Inputs | Mapping[str, Inputs] | None = None,
    export_recipe: ExportRecipe | None = None,
    name: str | None = None,
    dynamic_shapes: Any = None,
    constant_methods: Mapping[str, Any] | None = None,
    artifact_dir: str | None = None,
    generate_etrecord: bool = False,
) -> ExportSession:
    """Quantize, export and lower a model, and make its file.

    Args:
        model: A module or an exported program, which becomes the method `forward`; or a mapping from names of methods
            to modules or programs; or the path of an exported program.
        example_inputs: Tuples of inputs, or a mapping from names of methods to lists of tuples. The model is exported
            with the first tuple, and calibrated with all of them.
        export_recipe: The settings; by default no quantization and no backend.
        name: Name of the session.
        dynamic_shapes: As for `torch.export.export`, or a mapping from names of methods to such shapes.
        constant_methods: Additional methods that return a constant: name -> the value, or a function that
            returns the value.
        artifact_dir: The folder into which `save_to_pte` writes.
        generate_etrecord: Keep the programs for `get_etrecord`.

    Returns:
        The session, with the results of all stages.

    Raises:
        CompileError: A method has no example inputs, or it cannot be compiled.

    Example:
        >>> recipe = ExportRecipe(lowering_recipe=LoweringRecipe(partitioners=[XnnpackPartitioner()]))
        >>> export(model, [(x,)], recipe).save_to_pte("model")
    """
    session = ExportSession(
        model,
        example_inputs,
        export_recipe or ExportRecipe(),
        name,
        dynamic_shapes,
        constant_methods,
        artifact_dir,
        generate_etrecord,
    )
    session.export()
    return session


def _quantized_in_place(model: torch.nn.Module, config: AOQuantizationConfig, in_place: bool) -> torch.nn.Module:
    import copy

    from torchao.quantization.quant_api import quantize_

    changed = model if in_place else copy.deepcopy(model)
    quantize_(changed, config.ao_base_config, config.filter_fn)
    return changed
