"""Search for the modules to leave in floating point so that a quantized model is accurate enough."""

from __future__ import annotations

import math
import re
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import edgecore
from edgecore.devtools.accuracy import FLOAT_SQNR, Metric, eager, is_good_enough, on_device, output_sqnr
from edgecore.devtools.printable import join_lines
from edgecore.devtools.profiling import profile
from edgecore.errors import EdgecoreError, QuantizationWarning
from edgecore.ir.program.copying import unchanged_buffers
from edgecore.numerics.quality import LayerQuality
from edgecore.progress import Task, task
from edgecore.quantize import samples as read_samples
from edgecore.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Step:
    """One attempt of the search: a compiled and measured program.

    Attributes:
        skip: The modules that stay in floating point.
        score: The program's metric on this machine.
        kept: True if the search continued with these modules in floating point.
        bytes: Size of the file.
    """

    skip: tuple[str, ...]
    score: float
    kept: bool
    bytes: int


@dataclass(slots=True)
class Suggestion:
    """The result of `suggest`.

    Attributes:
        recipe: The recipe for `edgecore.compile(quantize=...)`.
        float_score: The float model's metric in PyTorch.
        quantized_score: The metric, on this machine, of the program compiled with the original recipe.
        score: The metric, on this machine, of the program compiled with `recipe`.
        reached: True if `score` is at most `max_drop` below `float_score`.
        layers: Number of modules with operators that the original recipe quantizes.
        in_float: Number of these modules that `recipe` leaves in floating point; one name in `recipe.skip` can cover
            several of them.
        steps: The programs that were tried, in this order.
        sensitivity: Module -> noise power that quantizing it adds, relative to its signal power; the largest first.
        ms: Milliseconds per run of the quantized program and of the suggested program; None if not measured.
        bytes: Sizes of the two files.
        program: The program that `recipe` makes.
    """

    recipe: Recipe
    float_score: float
    quantized_score: float
    score: float
    reached: bool
    layers: int
    in_float: int
    bytes: tuple[int, int]
    ms: tuple[float, float] | None = None
    steps: list[Step] = field(default_factory=list)
    sensitivity: dict[str, float] = field(default_factory=dict)
    program: Any = field(default=None, repr=False, compare=False)

    @property
    def recovered(self) -> float:
        """Recovered share of the lost score: (score - quantized) / (float - quantized); 1 without a loss."""
        lost = self.float_score - self.quantized_score
        if lost <= 0:
            return 1.0
        return (self.score - self.quantized_score) / lost if math.isfinite(lost) else float(math.isfinite(self.score))

    def __str__(self) -> str:
        lines = [
            f"float {self.float_score:.4g}, quantized {self.quantized_score:.4g}, suggested {self.score:.4g}"
            + ("" if self.reached else " (not good enough)"),
            f"{self.in_float} of {self.layers} layers stay in floating point; "
            f"file {self.bytes[0]:,} -> {self.bytes[1]:,} bytes"
            + (f", a run {self.ms[0]:.3f} -> {self.ms[1]:.3f} ms" if self.ms else ""),
        ]
        for step in self.steps:
            lines.append(f"  {'+' if step.kept else '-'} {', '.join(step.skip)}: {step.score:.4g}")
        recipe = re.sub(r"\b(Recipe|Rule)\(", r"edgecore.\1(", repr(self.recipe))
        lines.append(f"quantize={recipe}")
        return join_lines(lines)


def suggest(
    model: torch.nn.Module,
    inputs: Any,
    *,
    calibration: Any,
    backends: Sequence[Any] = ("xnnpack",),
    quantize: Recipe | str = "int8",
    metric: Metric | None = None,
    samples: Iterable[Any] | None = None,
    max_drop: float = 0.0,
    candidates: int = 12,
    max_share: float = 0.1,
    runs: int = 20,
    on_step: Callable[[Step], None] = lambda step: None,
) -> Suggestion:
    """Find the modules to leave in floating point, so that a quantized model loses at most `max_drop`.

    The search first measures in eager mode how much noise each quantized layer adds to the noise of its inputs, and
    tries the noisiest layers first. Each step compiles the model with one more module in floating point, scores the
    program on this machine, and measures the noise of the other layers again. If the score does not rise, the module is
    quantized again, but the following steps try it together with their own module: two layers may help only if both are
    in floating point. Once such a group raises the score, each member whose quantization does not lower the score is
    quantized again. Operators directly in a module with submodules, such as the addition of a residual block, can be
    left in floating point only with the whole module.

    Args:
        model: The float model, in eval mode.
        inputs: The example inputs: a tuple, or a tensor.
        calibration: Samples, as for `edgecore.compile`.
        backends: The backends, which must run on this machine.
        quantize: The recipe to start from; its `skip` stays.
        metric: Scores a model, which it receives as a function of the inputs; higher is better. By default the SQNR in
            dB of all outputs on `samples` against the float model; the float model then scores 40 dB, the target.
        samples: Inputs for the default metric, tuples or tensors; by default the calibration samples.
        max_drop: The largest acceptable difference between the float model's score and the program's.
        candidates: Largest number of modules to try; each takes one or two compilations.
        max_share: Largest share of the layers in floating point.
        runs: Number of timed runs of each of the two programs; 0 to measure no times.
        on_step: Receives each step when it is done.

    Returns:
        The recipe, the score that it gains, and its cost in bytes and time.

    Raises:
        EdgecoreError: The model cannot be compiled or run, or `quantize` quantizes none of its layers.
        ValueError: `candidates` is below 1, `max_share` is not between 0 and 1, `quantize` is not one recipe, or the
            default metric has no samples, or no output to measure.

    Example:
        >>> suggestion = edgecore.devtools.suggest(model, x, calibration=samples, metric=accuracy, max_drop=0.01)
        >>> edgecore.compile(model, x, backends=["xnnpack"], quantize=suggestion.recipe, calibration=samples)
    """
    if candidates < 1 or not 0 < max_share <= 1:
        raise ValueError(f"candidates must be at least 1 and max_share in (0, 1]; got {candidates} and {max_share}")
    if not isinstance(quantize, (str, Recipe)):
        raise ValueError("quantize must be a recipe or its name; suggest does not take a recipe for each backend")
    recipe = Recipe(quantize) if isinstance(quantize, str) else quantize
    if not callable(calibration) and not isinstance(calibration, (str, Path)):
        calibration = list(calibration)  # an iterator would be empty after the first step of the search
    with unchanged_buffers(model):
        measured = metric or output_sqnr(model, _inputs(calibration if samples is None else samples))
        float_score = measured(eager(model)) if metric else FLOAT_SQNR

    def build(skip: tuple[str, ...]) -> tuple[Any, float]:
        chosen = _with_skip(recipe, skip)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QuantizationWarning)  # the search measures the loss itself
            program = edgecore.compile(model, inputs, backends=backends, quantize=chosen, calibration=calibration)
        loaded = edgecore.load(program.buffer, trust=True)
        return program, measured(on_device(loaded))

    first, quantized_score = build(())
    noise = _noise(first.report(quantization=True).quantization or ())
    if not noise:
        raise EdgecoreError(
            f"recipe {recipe.name!r} quantizes no layer of a module with a name; there is nothing to leave out"
        )
    limit = max(1, math.floor(max_share * len(noise)))
    size = len(first.buffer)
    suggestion = Suggestion(
        recipe=recipe,
        float_score=float_score,
        quantized_score=quantized_score,
        score=quantized_score,
        reached=False,
        layers=len(noise),
        in_float=0,
        bytes=(size, size),
        sensitivity=noise,
        program=first,
    )
    search = _Search(build, suggestion, limit, on_step)
    search.run(candidates, max_drop)
    suggestion.recipe = _with_skip(recipe, search.skip)
    suggestion.reached = search.is_done(max_drop)
    suggestion.bytes = (size, len(suggestion.program.buffer))
    if runs:
        suggestion.ms = _times((first, suggestion.program), inputs, runs)
    return suggestion


@dataclass(slots=True)
class _Search:
    """Searches for the modules to leave in floating point: compiles and scores a program for each set of modules.

    Attributes:
        build: Compiles the program with these modules in floating point; returns it and its score.
        suggestion: The result, which the search updates with the best program so far, its score and each step.
        limit: The largest number of layers in floating point.
        on_step: Receives each step when it is done.
        skip: The modules that the best program so far leaves in floating point.
    """

    build: Callable[[tuple[str, ...]], tuple[Any, float]]
    suggestion: Suggestion
    limit: int
    on_step: Callable[[Step], None]
    skip: tuple[str, ...] = ()

    def is_done(self, max_drop: float) -> bool:
        """Return True if the best program is at most `max_drop` below the float model."""
        return is_good_enough(self.suggestion.score, self.suggestion.float_score, max_drop)

    def run(self, candidates: int, max_drop: float) -> None:
        """Try at most `candidates` modules; stop once a program is good enough."""
        with task("trying modules in floating point", candidates) as work:
            self._try(candidates, max_drop, work)

    def _try(self, candidates: int, max_drop: float, work: Task) -> None:
        waiting: list[str] = []  # tried modules that have not raised the score so far
        tried: set[str] = set()
        ranking = self.suggestion.sensitivity
        while not self.is_done(max_drop) and len(tried) < candidates:
            module = next((name for name in ranking if name not in tried and self._adds_layers(name)), None)
            if module is None:
                break
            tried.add(module)
            work.describe(module)
            while self._count((*self.skip, *waiting, module)) > self.limit:
                waiting.pop(0)
            is_kept, program = self._attempt((*self.skip, *waiting, module))
            # Rank anew by this program's noise: in float, `module` no longer hides the noise of the layers after it.
            ranking = _noise(program.report(quantization=True).quantization or ())
            if is_kept:
                for other in waiting:
                    self._attempt(tuple(name for name in self.skip if name != other), or_equal=True)
                waiting = []
            elif not waiting or self._is_equal() or not self._attempt((*self.skip, module))[0]:
                waiting.append(module)
            work.advance()

    def _attempt(self, modules: tuple[str, ...], or_equal: bool = False) -> tuple[bool, Any]:
        """Compile with `modules` in floating point; adopt them if the score rises (`or_equal`: does not fall)."""
        suggestion = self.suggestion
        program, score = self.build(modules)
        is_kept = score > suggestion.score or (or_equal and score == suggestion.score)
        step = Step(modules, score, is_kept, len(program.buffer))
        suggestion.steps.append(step)
        self.on_step(step)
        if is_kept:
            self.skip, suggestion.program, suggestion.score = modules, program, score
            suggestion.in_float = self._count(modules)
        return is_kept, program

    def _is_equal(self) -> bool:
        return self.suggestion.steps[-1].score == self.suggestion.score

    def _adds_layers(self, module: str) -> bool:
        return self.suggestion.in_float < self._count((*self.skip, module)) <= self.limit

    def _count(self, modules: Iterable[str]) -> int:
        return _inside(modules, self.suggestion.sensitivity)


def _with_skip(recipe: Recipe, skip: tuple[str, ...]) -> Recipe:
    return recipe.model_copy(update={"skip": (*recipe.skip, *skip)}) if skip else recipe


def _inside(skip: Iterable[str], modules: Iterable[str]) -> int:
    """Count the `modules` that `skip` names, or that lie inside a module that `skip` names."""
    return sum(any(f"{module}.".startswith(f"{outer}.") for outer in skip) for module in modules)


def _noise(layers: Iterable[LayerQuality]) -> dict[str, float]:
    """Map each module to the noise power that its quantization adds, relative to its signal power in float."""
    noise: dict[str, float] = {}
    for row in layers:
        if not row.module or row.scheme.startswith("float"):
            continue
        added = 10 ** (-row.sqnr / 10) - 10 ** (-row.inputs_sqnr / 10)
        noise[row.module] = max(noise.get(row.module, 0.0), added, 0.0)
    return dict(sorted(noise.items(), key=lambda item: -item[1]))


def _inputs(samples: Any) -> list[tuple[Any, ...]]:
    """Return the samples of the default metric as tuples of positional inputs."""
    if callable(samples):
        raise ValueError("the default metric needs samples; a function that calibrates gives none, so pass samples=")
    calls = list(read_samples(samples))
    if any(kwargs for _, kwargs in calls):
        raise ValueError("the default metric needs samples that are tuples or tensors, not mappings")
    return [args for args, _ in calls]


def _arguments(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def _times(programs: Sequence[Any], inputs: Any, runs: int) -> tuple[float, float]:
    """Return the median milliseconds per run of two programs, which run alternately under the same load."""
    times: list[list[float]] = [[], []]
    values = [arg.detach().numpy() if isinstance(arg, torch.Tensor) else arg for arg in _arguments(inputs)]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "quantized.pte", Path(folder) / "mixed.pte"]
        for path, program in zip(paths, programs, strict=True):
            program.save(path)
        for _ in range(3):
            for index, path in enumerate(paths):
                measured = profile(path, *values, runs=max(runs // 3, 1), warmup=2)
                times[index] += [run.duration / 1e6 for run in measured.trace.runs]
    return statistics.median(times[0]), statistics.median(times[1])
