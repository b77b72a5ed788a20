"""Run one step of a sweep in its own process: compile, verify, compare and score a model, or measure a file."""

from __future__ import annotations

import math
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgecore.backend import Backend
from edgecore.errors import EdgecoreError, ErrorCode, ExecutionError, NothingToQuantize
from edgecore.format import EDGECORE
from edgecore.processes.worker import Parent
from edgecore.recipe import Recipe
from edgecore.sweeps.plan import FLOAT, KERNELS, Build
from edgecore.sweeps.step import FILE, REPORT, Kind, Step, StepResult

_PR_SET_PDEATHSIG = 1
_REFUSALS = (ErrorCode.NOT_SUPPORTED, ErrorCode.NOT_FOUND)
"""Error codes of a missing device, driver or simulator, without which this machine cannot run a file.

An incompatible native library causes the same codes, but counts as a failure: see `_has_library`.
"""


def main(parent: Parent) -> None:
    """Read a request (a step as JSON, its folder, and the parent's process id), run the step, and send the result."""
    text, folder, parent_id = next(parent.requests())
    _die_with(parent_id)
    step = Step.of_text(text)
    start = time.perf_counter()
    status, reason = "ok", ""
    figures: dict[str, Any] = {}
    try:
        if step.kind != "time":
            _prepare_torch()
        status, reason = _RUNS[step.kind](step, Path(folder), figures)
    except MemoryError:
        status, reason = "failed", "there is not enough memory"
    except NothingToQuantize as error:
        status, reason = "skipped", str(error)
    except Exception as error:
        traceback.print_exc()
        status, reason = "failed", _sentence(error)
    from edgecore.sweeps.fingerprint import imported_files

    samples = {} if step.kind == "time" else _sample_digests(step.build)
    inputs = {**imported_files(), **samples}
    result = StepResult(status, reason, time.perf_counter() - start, figures, inputs)  # type: ignore[arg-type]
    parent.send(asdict(result))


def _prepare_torch() -> None:
    """Seed random weights, so that each step makes the same model; use one thread, since steps run in parallel."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)


def _die_with(parent: int) -> None:
    """Let Linux kill this process when its parent ends, so that no step outlives the sweep."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes
    import os

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _sentence(error: Exception) -> str:
    from typer import BadParameter

    from edgecore.cli.common import sentence

    if isinstance(error, BadParameter):
        return error.format_message()
    return sentence(error).removesuffix(" (--debug shows where)")


def _sample_digests(build: Build) -> dict[str, str]:
    from edgecore.sweeps.fingerprint import file_digest

    if build.calibration is None or _is_function(build.calibration):
        return {}
    path = Path(build.calibration).resolve()
    return {str(path): file_digest(path)}


def _has_library(build: Build) -> bool:
    """Return True if the compilation's backend has a native library that this version of edgecore can load."""
    from edgecore.plugin.diagnosis.doctor import check_library

    if build.backend_name == KERNELS:
        return False
    try:
        return check_library(build.backend_name).ok
    except EdgecoreError:
        return False


def _build(step: Step, folder: Path, figures: dict[str, Any]) -> tuple[str, str]:
    """Compile a model, verify the file, compare it with PyTorch, and score it. Return (status, reason)."""
    import edgecore
    from edgecore.cli.commands.verify import violations_of
    from edgecore.cli.models import function_of, load_model
    from edgecore.devtools.budget import figures as figures_of
    from edgecore.devtools.file_arguments import program_file
    from edgecore.devtools.profiling import estimates

    build = step.build
    model, inputs, dynamic_shapes = load_model(build.source)
    recipe = None if build.recipe_name == FLOAT else Recipe(build.recipe_name, **build.recipe_options)
    if build.max_loss is not None:
        program, figures["skip"] = _suggested(build, build.max_loss, model, inputs, dynamic_shapes)
    else:
        start = time.perf_counter()
        program = edgecore.compile(
            model,
            inputs,
            backends=_backends(build),
            dynamic_shapes=dynamic_shapes,
            runtime=build.runtime,
            quantize=recipe,
            calibration=_samples_of(build, recipe),
        )
        figures["compile_seconds"] = time.perf_counter() - start
    program.save(folder / FILE)
    program.report().to_html(folder / REPORT)
    static = figures_of(folder / FILE)
    figures |= {key: static[key] for key in ("file_bytes", "planned_bytes", "delegate_bytes", "delegated")}
    figures["delegates"] = sum(static["delegates"].values())
    pte = program_file(folder / FILE)
    methods = [plan.name for plan in pte.program.execution_plan]
    cycles = [row.cycles for row in estimates(pte, "forward" if "forward" in methods else methods[0])]
    if cycles:
        figures["cycles"] = sum(cycles)
    wrong = violations_of(pte, build.runtime)
    if wrong:
        return "wrong", f"the file breaks a rule of {build.runtime}: {wrong[0].what}"
    try:
        comparison = program.compare(model)
    except ExecutionError as error:
        if error.code not in _REFUSALS or not _has_library(build):
            raise
        return "made", f"this machine cannot run the file: {error}"
    figures["sqnr_db"] = min((row.eager.sqnr for row in comparison.rows), default=math.inf)
    if build.accuracy is not None:
        judge = function_of(build.accuracy)
        figures["accuracy"], figures["float_accuracy"] = _judge(judge, model, program)
    if not comparison.ok:
        return "wrong", str(comparison.verdict)
    return "ok", ""


def _backends(build: Build) -> list[Backend]:
    return [] if build.backend_name == KERNELS else [Backend(build.backend_name, **build.backend_options)]


def _judge(judge: Callable[..., float], model: Any, program: Any) -> tuple[float, float]:
    """Return two accuracies: of the program on this machine, and of the model in PyTorch."""
    import edgecore
    from edgecore.devtools.accuracy import eager, on_device

    loaded = edgecore.load(program.buffer, trust=True)
    module = model if not hasattr(model, "module") or callable(model) else model.module()
    return float(judge(on_device(loaded))), float(judge(eager(module)))


def calibration_of(build: Build) -> Any:
    """Return the calibration samples for a compilation: a folder, the result of the user's function, or None."""
    from edgecore.cli.models import function_of

    if build.calibration is None:
        return None
    return function_of(build.calibration)() if _is_function(build.calibration) else Path(build.calibration)


def _samples_of(build: Build, recipe: Recipe | None) -> Any:
    """Return the calibration samples for a compilation; None for a recipe that takes none (weights only)."""
    from edgecore.plugin import registry
    from edgecore.quantize.plan import make_plan, takes_calibration

    if recipe is None or build.calibration is None:
        return None
    name = build.backend_name
    compilers = {} if name == KERNELS else {name: registry.load_compiler(registry.find_by_name(name))}
    plan = make_plan(recipe, compilers, with_kernels=build.runtime == EDGECORE)
    return calibration_of(build) if takes_calibration(plan) else None


def _is_function(text: str) -> bool:
    return ":" in text and not Path(text).exists()


def _measure(step: Step, folder: Path, figures: dict[str, Any]) -> tuple[str, str]:
    """Measure the times of loading and running a file. Return (status, reason)."""
    from edgecore.cli.commands.bench import measure

    file = folder / FILE
    if not file.is_file():
        raise EdgecoreError(f"{file} does not exist any more; run the sweep with --fresh")
    figures |= measure(file, threads=step.threads or None, runs=step.runs)[1]
    return "ok", ""


def _suggested(build: Build, max_loss: float, model: Any, inputs: Any, dynamic_shapes: Any) -> tuple[Any, list[str]]:
    """Return a program that loses at most `max_loss` of accuracy, and the modules that stay in floating point in it."""
    from edgecore.cli.models import function_of
    from edgecore.devtools import suggest
    from edgecore.devtools.accuracy import FLOAT_SQNR, lowest_sqnr

    if not hasattr(model, "named_modules") or inputs is None or dynamic_shapes is not None:
        raise EdgecoreError("modules are left in floating point for a module with example inputs and fixed shapes only")
    metric = None if build.accuracy is None else function_of(build.accuracy)
    drop = max_loss if metric is not None else FLOAT_SQNR - lowest_sqnr(max_loss)
    suggestion = suggest(
        model,
        inputs,
        calibration=calibration_of(build),
        metric=metric,
        max_drop=drop,
        runs=0,
        backends=_backends(build),
        quantize=Recipe(build.recipe_name, **build.recipe_options),
    )
    if not suggestion.reached:
        raise EdgecoreError("no modules in floating point make it lose little enough")
    return suggestion.program, list(suggestion.recipe.skip)


_RUNS: dict[Kind, Callable[[Step, Path, dict[str, Any]], tuple[str, str]]] = {
    "build": _build,
    "time": _measure,
}
