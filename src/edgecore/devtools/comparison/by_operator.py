"""Compare a model on the device with PyTorch, operator by operator, and name the first operator that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from edgecore import format as fmt
from edgecore.backend import Backend
from edgecore.devtools.comparison.bisect import bisect
from edgecore.devtools.comparison.engine import CompileArguments, Engine
from edgecore.devtools.comparison.report import CompareReport
from edgecore.devtools.comparison.rows import CompareOutput, CompareRow, Conditions
from edgecore.devtools.comparison.taps import (
    Call,
    chunks,
)
from edgecore.devtools.remote import Device
from edgecore.errors import CompileError
from edgecore.passes.pass_list import PassList
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.quantize import Calibration
from edgecore.quantize import samples as read_samples
from edgecore.recipe import Quantize

Progress = Callable[[str], object]


def compare(
    model: torch.nn.Module | ExportedProgram,
    inputs: Any = None,
    *,
    backends: str | Backend | Sequence[str | Backend] = (),
    quantize: Quantize | None = None,
    calibration: Calibration | None = None,
    samples: int = 8,
    dynamic_shapes: Any = None,
    runtime: str = fmt.EXECUTORCH_1_5,
    passes: PassList = EDGE_PASSES,
    tolerance: float | None = None,
    max_bytes: int = 1 << 30,
    cut: bool = False,
    device: Device | None = None,
    device_build: Path | None = None,
    progress: Progress | None = None,
) -> CompareReport:
    """Compile a model, run it here or on a device, and compare the value of each operator with PyTorch.

    Each row has two errors. The accumulated error has built up since the model's inputs. The local error is the
    operator's own: PyTorch computes the operator on the inputs that it had on the device. The culprit is the first row
    whose local error is larger than rounding explains.

    Args:
        model: A module in eval mode, or an exported program.
        inputs: Real inputs: a tuple with one entry per argument, a tensor, or a list of these; random inputs hide many
            errors. By default the calibration samples, or else the example inputs of an exported program.
        backends: As for `edgecore.compile`.
        quantize: As for `edgecore.compile`.
        calibration: As for `edgecore.compile`.
        samples: The largest number of samples to run. A row shows the figures of the worst sample.
        dynamic_shapes: As for `edgecore.compile`.
        runtime: As for `edgecore.compile`.
        passes: As for `edgecore.compile`.
        tolerance: The largest local error that is not a fault, relative to the largest magnitude of the value. By
            default 1e-3 in float32; quantized values may also be rounded to the other neighbour in a tie.
        max_bytes: Bytes of intermediate values that one tapped program may return; more are split over several
            programs.
        cut: Find the culprit by compiling parts of the model instead of using taps, if taps change a backend's results.
        device: The device that runs the programs, from `edgecore.devtools.connect`; by default this process.
        device_build: As for `edgecore.devtools.profile_on`.
        progress: Receives a short text before each long step.

    Returns:
        The report: `print` shows it as a table, `culprit` is the first wrong row, `rows` has all rows.

    Raises:
        BackendError: A backend is not installed, or cannot run on this machine.
        CompileError: The model cannot be compiled, or there are no inputs.
        ExecutionError: The program fails.
        EdgecoreError: The connection to the device is lost, or the device cannot run edgecore-run.

    Example:
        >>> report = edgecore.devtools.compare(model, images, backends=["xnnpack"])
        >>> print(report.culprit or "every operator computes what PyTorch computes")
    """
    if isinstance(model, Mapping):
        raise CompileError("compare takes one model, not several methods; call it for each method")
    if samples < 1 or max_bytes < 1:
        raise CompileError(f"samples and max_bytes must be at least 1; got {samples} and {max_bytes}")
    progress = progress or (lambda text: None)
    calls, origin = _calls(model, inputs, calibration, samples)
    progress("compiling")
    engine = Engine(
        model,
        calls,
        CompileArguments(backends, quantize, calibration, dynamic_shapes, runtime, passes),
        tolerance=tolerance,
        device=device,
        device_build=device_build,
    )
    progress("compiling with taps")
    if not cut:
        for group in chunks(engine.inside, max_bytes):
            engine.taps.add(group)
    is_cut = bool(engine.sites) if cut else bool(engine.inside) and not engine.taps.seen
    if is_cut:
        progress("cutting the program")
    rows, outputs = _worst(bisect(engine, progress) if is_cut else _tapped(engine, progress))
    conditions = Conditions(
        backends=tuple(backend.name for backend in engine.backends),
        quantized=engine.quantized is not None,
        samples=len(calls),
        origin=origin,
        cut=is_cut,
        sites=len(engine.sites),
        programs=len(engine.taps.programs),
        left_out=len(engine.taps.changed),
        lowering=next((output.lowering for output in reversed(outputs) if output.lowering), ""),
        device=device.name if device is not None else "",
    )
    return CompareReport([rows[site.tap] for site in engine.sites if site.tap in rows], outputs, conditions, engine)


def _tapped(engine: Engine, progress: Progress) -> Iterator[CompareRow | CompareOutput]:
    """Compare, for each sample, the inner values that tapped programs return, then the model's outputs."""
    hidden = {site.tap for site in engine.taps.changed}
    engine.prepare([site for site in engine.sites if site.tap not in hidden])
    for number, sample in enumerate(engine.samples):
        progress(f"comparing sample {number + 1} of {len(engine.samples)}")
        expected = engine.expected(number)
        yield from engine.compare_values(number, expected, engine.taps.values(sample))
        yield from engine.compare_outputs(number, expected)


def _worst(results: Iterable[CompareRow | CompareOutput]) -> tuple[dict[str, CompareRow], list[CompareOutput]]:
    """Merge the samples: return the worst row of each compared node, by node name, and of each output."""
    rows: dict[str, CompareRow] = {}
    outputs: dict[int, CompareOutput] = {}
    for row in results:
        if isinstance(row, CompareRow):
            tap = row.site.tap
            rows[tap] = rows[tap].worst_of(row) if tap in rows else row
        else:
            outputs[row.index] = outputs[row.index].worst_of(row) if row.index in outputs else row
    return rows, [outputs[index] for index in sorted(outputs)]


def _calls(
    model: torch.nn.Module | ExportedProgram, inputs: Any, calibration: Calibration | None, count: int
) -> tuple[list[Call], str]:
    """Return the first `count` samples, and where they come from: "inputs", "calibration" or "example"."""
    if inputs is not None:
        single = isinstance(inputs, (tuple, torch.Tensor, Mapping))
        return _first(read_samples([inputs] if single else inputs), count), "inputs"
    if calibration is not None and (isinstance(calibration, (str, Path, Sequence))):
        return _first(read_samples(calibration), count), "calibration"
    if isinstance(model, ExportedProgram) and model.example_inputs is not None:
        args, kwargs = model.example_inputs
        return [(tuple(args), dict(kwargs))], "example"
    raise CompileError("there are no inputs to compare; pass a tuple with one entry per argument, or a list of tuples")


def _first(samples: Iterable[Call], count: int) -> list[Call]:
    calls = list(islice(samples, count))
    if not calls:
        raise CompileError("there are no inputs to compare; pass at least one sample")
    return calls
