"""Run a model on the device and in PyTorch, and compare the inner values and the outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

import edgecore
from edgecore.backend import Backend
from edgecore.devtools.comparison.eager import EagerEdge, Group, float_names
from edgecore.devtools.comparison.judgement import Judgement, judge
from edgecore.devtools.comparison.rows import CompareOutput, CompareRow
from edgecore.devtools.comparison.sites import Site, sites_of, user_outputs
from edgecore.devtools.comparison.taps import (
    Call,
    DeviceProgram,
    Here,
    Place,
    Sample,
    Snapshot,
    Tap,
    TapPrograms,
    as_tensor,
    in_order,
    with_last,
)
from edgecore.devtools.remote import Device
from edgecore.errors import CompileError
from edgecore.ir.program.copying import copy_program, module_to_run, unchanged_buffers
from edgecore.ir.program.outputs import written_inputs
from edgecore.ir.torch_compat import pytree
from edgecore.numerics.limits import NOISE_SEEDS
from edgecore.numerics.metrics import Difference, measure
from edgecore.numerics.quality import FloatReference, Quantized
from edgecore.numerics.rounding import NOISE, rounds
from edgecore.passes.pass_list import PassList
from edgecore.pipeline.lowering.lower_programs import add_debug_handles
from edgecore.quantize import Calibration
from edgecore.recipe import Quantize


@dataclass(frozen=True)
class CompileArguments:
    """The arguments that `compare` passes on to `edgecore.compile`."""

    backends: Any
    quantize: Quantize | None
    calibration: Calibration | None
    dynamic_shapes: Any
    runtime: str
    passes: PassList


@dataclass(frozen=True)
class Expected:
    """PyTorch's values for one sample. Values of inner nodes are by node name.

    Attributes:
        values: Values of the sites (compared places) in the edge program: one dict for each way to choose dynamic
            scales.
        outputs: Outputs of the edge program: one list for each way to choose dynamic scales (`Engine.by_row_choices`).
        floats: Values of the sites in the float model; empty if the model was not quantized.
        float_outputs: The outputs of the float model.
    """

    values: list[dict[str, torch.Tensor]]
    outputs: list[list[torch.Tensor]]
    floats: dict[str, torch.Tensor]
    float_outputs: list[torch.Tensor]


class Engine:
    """Compiles a model, runs it on the device and in PyTorch, and compares the values.

    Attributes:
        edge: The edge program.
        sites: The sites: places in the graph whose values can be compared.
        inside: The sites that need a tap, because they are not outputs of the model.
        groups: The nodes that compute each site, by the name of the site's node; `prepare` sets them.
        place: The machine that runs the programs.
        taps: The programs with taps: additional outputs that show the values of sites.
        samples: The flat inputs of all samples.
        computes_in: The dtype in which the backends compute floating-point values.
        steps: The difference that the recipe allows a quantized result, in quantization steps (`RecipeSupport.steps`).
        noise: Amplitude, in quantization steps, of the noise that is added before each rounding to bound rounding
            errors.
        by_row_choices: The values of `by_row` to try in `EagerEdge.run`: backends may choose dynamic scales per row.
    """

    def __init__(
        self,
        model: torch.nn.Module | ExportedProgram,
        calls: Sequence[Call],
        arguments: CompileArguments,
        *,
        tolerance: float | None,
        device: Device | None = None,
        device_build: Path | None = None,
    ) -> None:
        snapshot = Snapshot()
        args, kwargs = calls[0]
        is_exported = isinstance(model, ExportedProgram)
        compiled = edgecore.compile(
            model,
            None if is_exported else args,
            example_kwargs=None if is_exported else kwargs or None,
            backends=arguments.backends,
            dynamic_shapes=arguments.dynamic_shapes,
            runtime=arguments.runtime,
            quantize=arguments.quantize,
            calibration=arguments.calibration,
            passes=snapshot.passes(arguments.passes),
        )
        assert snapshot.exported is not None and snapshot.edge is not None
        self.calls = [in_order(number, call, snapshot.exported) for number, call in enumerate(calls)]
        self.samples: list[Sample] = [tuple(pytree.tree_leaves(call)) for call in self.calls]
        self.backends: list[Backend] = compiled.backends
        self.runtime = arguments.runtime
        self.quantized: Quantized | None = compiled.quantized.get("forward")
        self.tolerance = tolerance
        self.edge = snapshot.edge
        if mutated := ", ".join(written_inputs(self.edge)):
            raise CompileError(
                f"the model writes its input {mutated}, so that its runs do not have the same inputs; return the new "
                "content instead, to compare the model"
            )
        add_debug_handles(self.edge)
        self.has_state = bool(self.edge.graph_signature.buffers_to_mutate)
        self.sites = sites_of(self.edge, compiled.pte)
        self._exported = snapshot.exported
        self._module = module_to_run(snapshot.exported, check_guards=False)
        self._passes = arguments.passes
        self.computes_in: torch.dtype = getattr(torch, compiled.computes_in)
        self.steps: int = compiled.steps
        self.noise = max(NOISE, self.steps)
        names = {site.tap for site in self.sites}
        outputs = {
            value.name: index
            for index, value in enumerate(user_outputs(self.edge))
            if isinstance(value, Node) and value.name in names
        }
        self.inside = [site for site in self.sites if site.tap not in outputs]
        self.place: Place = Here(has_state=self.has_state)
        if device is not None:
            from edgecore.devtools.comparison.remote_programs import There  # needs numpy

            self.place = There(device, self.samples, has_state=self.has_state, build=device_build)
        untapped = DeviceProgram(compiled, outputs, self.place)
        self.taps = TapPrograms(self.compile_tapped, untapped, self.samples, self.place)

    def compile(self, program: ExportedProgram, passes: PassList) -> Any:
        """Compile a program with the backends under comparison."""
        return edgecore.compile(copy_program(program), backends=self.backends, runtime=self.runtime, passes=passes)

    def compile_tapped(self, tap: Tap) -> Any:
        """Compile the model with taps: additional outputs that show inner values."""
        return self.compile(self._exported, with_last(self._passes, tap))

    def prepare(self, sites: Sequence[Site]) -> None:
        """Set up PyTorch to compare values at `sites`; the nodes between two sites are compared as one operator."""
        self.eager = EagerEdge(self.edge, sites, self.computes_in)
        self.groups: dict[str, Group] = self.eager.groups(sites)
        self._names = float_names(self.edge, sites)
        self._floats = FloatReference(self.quantized, set(self._names.values())) if self.quantized else None
        self.by_row_choices = (False, True) if self.eager.chooses_scales else (False,)

    def expected(self, number: int) -> Expected:
        """Compute the values of a sample in PyTorch, starting from the model's inputs."""
        values, outputs = [], []
        for by_row in self.by_row_choices:
            seen: dict[str, torch.Tensor] = {}
            results = self.eager.run(self.samples[number], partial(_keep, seen), by_row=by_row)
            outputs.append([as_tensor(result) for result in results])
            values.append(seen)
        floats, by_name = self._float_run(number)
        by_tap = {tap: by_name[name] for tap, name in self._names.items() if name in by_name}
        return Expected(values, outputs, by_tap, [as_tensor(result) for result in floats])

    def _float_run(self, number: int) -> tuple[list[Any], dict[str, torch.Tensor]]:
        """Run the float model on a sample; return its outputs and, if the model is quantized, values by node name."""
        if self._floats is not None:
            return self._floats.run(*self.calls[number])
        with torch.no_grad(), unchanged_buffers(self._exported):
            args, kwargs = self.calls[number]
            results = pytree.tree_leaves(self._module(*args, **kwargs))
            return [value.clone() if isinstance(value, torch.Tensor) else value for value in results], {}

    def values(
        self,
        number: int,
        device: Mapping[str, torch.Tensor] | None = None,
        *,
        by_row: bool = False,
        noise: float = 0.0,
        seed: int = 0,
    ) -> dict[str, torch.Tensor]:
        """Compute all compared values in PyTorch; operators read the values in `device` (by node name) instead."""
        seen: dict[str, torch.Tensor] = {}
        self.eager.run(self.samples[number], partial(_keep, seen), device, by_row=by_row, noise=noise, seed=seed)
        return seen

    def compare_values(
        self,
        number: int,
        expected: Expected,
        device: Mapping[str, torch.Tensor],
        only: Collection[str] | None = None,
    ) -> Iterator[CompareRow]:
        """Compare the values in `device` (node name -> value) with PyTorch's; `only` names the nodes to compare."""
        local = self.local(number, device)
        for site in self.sites:
            if site.tap not in local or (only is not None and site.tap not in only):
                continue
            got = device[site.tap]
            gaps = (measure(values[site.tap], got, site.step, number) for values in expected.values)
            accumulated = min(gaps, key=lambda gap: gap.largest)
            row = CompareRow(site, self.groups[site.tap], got.dtype, tuple(got.shape), accumulated, *local[site.tap])
            want = expected.floats.get(site.tap)
            if want is not None and want.shape == got.shape:
                of_quantized = max(measure(want, values[site.tap]).sqnr for values in expected.values)
                row = replace(row, of_quantized=of_quantized, of_device=measure(want, got).sqnr)
            yield row

    def compare_outputs(self, number: int, expected: Expected) -> Iterator[CompareOutput]:
        """Compare each output on the device, in the edge program in PyTorch, and in the float model with each other."""
        is_lowering_exact = self.quantized is None and not rounds(self._exported)
        for index, got in enumerate(self.taps.expected[number]):
            want = expected.float_outputs[index]
            references = [outputs[index] for outputs in expected.outputs]
            gaps = [measure(reference, got, None, number) for reference in references]
            best = min(range(len(gaps)), key=lambda at: gaps[at].largest)
            reference = measure(want, references[best], None, number)
            output = CompareOutput(index, gaps[best], measure(want, got, None, number), reference)
            if is_lowering_exact:
                judgement = judge(
                    reference,
                    want,
                    references[best],
                    step=None,
                    unrounded=None,
                    tolerance=None,
                    computes_in=torch.float32,
                )
                output = replace(output, lowering=judgement.why if judgement.ratio > 1 else "")
            yield output

    def local(self, number: int, device: Mapping[str, torch.Tensor]) -> dict[str, tuple[Difference, Judgement]]:
        """Run each operator in PyTorch on its inputs on the device; return error and judgement by node name.

        Runs with noise take long, so only operators that exceed the limit and quantize inner values are judged with
        noise.
        """
        judged = self._judged(number, device, {})
        suspects = {tap for tap, (_, judgement) in judged.items() if judgement.ratio > 1 and self.groups[tap].rounds}
        if not suspects:
            return judged
        moved: dict[str, list[torch.Tensor]] = {tap: [] for tap in suspects}
        for seed in range(NOISE_SEEDS):
            for tap, value in self.values(number, device, noise=self.noise, seed=seed).items():
                if tap in suspects:
                    moved[tap].append(value)
        return self._judged(number, device, moved)

    def _judged(
        self, number: int, device: Mapping[str, torch.Tensor], moved: Mapping[str, Sequence[torch.Tensor]]
    ) -> dict[str, tuple[Difference, Judgement]]:
        """Compare each operator's error on the device's inputs with its limit; `moved`: node name -> noisy values."""
        judged: dict[str, tuple[Difference, Judgement]] = {}

        def see(site: Site, want: torch.Tensor, unrounded: torch.Tensor | None) -> None:
            if site.tap not in device:
                return
            got = device[site.tap]
            gap = measure(want, got, site.step, number)
            judgement = judge(
                gap,
                want,
                got,
                step=site.step,
                unrounded=unrounded,
                tolerance=self.tolerance,
                computes_in=self.computes_in,
                steps=self.steps,
                moved=moved.get(site.tap, ()),
            )
            if site.tap not in judged or judgement.ratio < judged[site.tap][1].ratio:
                judged[site.tap] = gap, judgement

        for by_row in self.by_row_choices:
            self.eager.run(self.samples[number], see, device, by_row=by_row)
        return judged


def _keep(seen: dict[str, torch.Tensor], site: Site, value: torch.Tensor, unrounded: torch.Tensor | None) -> None:
    seen[site.tap] = value
