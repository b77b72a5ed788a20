"""Run the programs of a comparison on another device: edgecore-run makes the calls; their outputs are copied back."""

from __future__ import annotations

import math
import mmap
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgecore.devtools.comparison.sites import METHOD
from edgecore.devtools.comparison.taps import Sample
from edgecore.devtools.profiling import Values
from edgecore.devtools.remote import Device, environment_of, programs_for, run_there
from edgecore.errors import CompileError, EdgecoreError
from edgecore.format import DTYPES, PteFile, Tensor
from edgecore.format.etdump import ETDump, RunData, read_etdump
from edgecore.format.etdump import Value as Recorded

OUTPUT_BYTES = 128 << 20
"""Bytes of outputs that one process on the device may keep; samples beyond that run in more processes."""

Outputs = Callable[[], list[Any]]
"""A function that reads the outputs of one call from the files that the device wrote."""


class There:
    """Runs the programs of a comparison on a remote device.

    The first call of a program runs all samples in as few processes as possible (`OUTPUT_BYTES`), because transfers are
    slow. The outputs stay in files until they are read.
    """

    def __init__(
        self, device: Device, samples: Sequence[Sample], *, has_state: bool, build: Path | None = None
    ) -> None:
        """Keep the arguments, and check that all inputs are tensors.

        Args:
            device: The device.
            samples: The flat inputs of all samples.
            has_state: True if the programs have mutable buffers, which are reset to their initial values before each
                run.
            build: Folder with `edgecore-run` and the libraries of backends, built for the device; by default the
                installed ones.

        Raises:
            CompileError: An input is not a tensor.
        """
        self._device = device
        self._samples = samples
        self._has_state = has_state
        self._build = build
        self._pushed: dict[Path, str] = {}
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._files = 0
        for sample in samples:
            if not all(isinstance(value, torch.Tensor) for value in sample):
                raise CompileError("a comparison on a device takes tensors only; other inputs are those of the export")

    def load(self, compiled: Any) -> Callable[[Sample], list[Any]]:
        """Return a function that runs a compiled program on one sample, and returns its outputs."""
        known: list[Outputs] = []

        def run(sample: Sample) -> list[Any]:
            number = next((number for number, known_sample in enumerate(self._samples) if known_sample is sample), None)
            if number is None:
                return self._run(compiled, [sample])[0]()
            if not known:
                known.extend(self._run(compiled, self._samples))
            return known[number]()

        return run

    def _run(self, compiled: Any, samples: Sequence[Sample]) -> list[Outputs]:
        folder = Path(self._folder.name)
        file = folder / "program.pte"
        compiled.save(file)
        programs = programs_for(self._device, file, self._build)
        tensors = _outputs(compiled.pte)
        count = max(1, OUTPUT_BYTES // max(1, sum(_bytes(tensor) for tensor in tensors)))
        return [
            outputs
            for first in range(0, len(samples), count)
            for outputs in self._calls(file, programs, tensors, samples[first : first + count])
        ]

    def _calls(
        self,
        file: Path,
        programs: tuple[Path, list[Path]],
        tensors: Sequence[Tensor | None],
        samples: Sequence[Sample],
    ) -> list[Outputs]:
        """Run the program on `samples` in one process on the device; return a reader of each call's outputs."""
        folder, device = Path(self._folder.name), self._device
        runner, libraries = programs
        lines = []
        for sample in samples:
            lines += ["reset"] if self._has_state else []
            lines.append(" ".join(["call", METHOD, *map(self._input, sample)]))
        self._files += 1
        dump, values = (folder / f"{kind}_{self._files}" for kind in ("runs", "values"))
        (folder / "calls.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        limit = (16 << 20) + 2 * len(samples) * sum(_bytes(tensor) for tensor in tensors)
        with device.temporary() as there:
            command = [self._push(runner), device.push(file, there), "--trust", "--trace-level", "calls"]
            command += ["--calls", device.push(folder / "calls.txt", there), "--trace", f"{there}/runs"]
            command += ["--debug", "outputs", "--debug-buffer", f"{there}/values", "--debug-limit", str(limit)]
            for library in libraries:
                command += ["--backend", self._push(library)]
            run_there(device, command, environment_of(self._push, runner))
            device.pull(f"{there}/runs", dump)
            device.pull(f"{there}/values", values)
        recorded = _recorded(read_etdump(dump.read_bytes()))
        if len(recorded) != len(samples) or any(len(outputs) != len(tensors) for outputs in recorded):
            raise EdgecoreError(f"{device.name}: edgecore-run did not return the outputs of all calls")
        with values.open("rb") as content:
            empty = values.stat().st_size == 0
            reader = Values(b"" if empty else mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ))
        return [partial(_read, reader, outputs, tensors) for outputs in recorded]

    def _input(self, value: torch.Tensor) -> str:
        """Copy an input to a file on the device, unless a file there has the same content; return its path there."""
        value = value.detach().contiguous()
        array = value.view(torch.int16).numpy().view("V2") if value.dtype == torch.bfloat16 else value.numpy()
        path = Path(self._folder.name) / "input.npy"
        np.save(path, array)
        return self._device.push(path)

    def _push(self, path: Path) -> str:
        """Copy an unchanging file to the device, unless an earlier call copied it; return its path on the device."""
        if path not in self._pushed:
            self._pushed[path] = self._device.push(path)
        return self._pushed[path]


def _outputs(pte: PteFile) -> list[Tensor | None]:
    """Return the `Tensor` table entry of each output of the program; None for an output that is not a tensor."""
    plan = next(plan for plan in pte.program.execution_plan if plan.name == METHOD)
    values = (plan.values[index].val for index in plan.outputs)
    return [value if isinstance(value, Tensor) else None for value in values]


def _bytes(tensor: Tensor | None) -> int:
    return 8 if tensor is None else math.prod(tensor.sizes) * DTYPES[tensor.scalar_type].size


def _recorded(etdump: ETDump) -> list[list[Recorded]]:
    """Return the outputs that the trace has recorded, for each run."""
    return [_of_run(run) for run in etdump.run_data if (run.name or "").startswith("Execute")]


def _of_run(run: RunData) -> list[Recorded]:
    values = (event.debug_event.debug_entry for event in run.events if event.debug_event)
    return [value for value in values if value is not None and value.output is not None and value.output.bool_val]


def _read(reader: Values, outputs: Sequence[Recorded], tensors: Sequence[Tensor | None]) -> list[Any]:
    """Read the outputs of a call, in the dtypes of the program: the trace stores bfloat16 as float32."""
    results: list[Any] = []
    for value, tensor in zip(outputs, tensors, strict=True):
        result = reader.read(value)
        if tensor is not None:
            if not isinstance(result, torch.Tensor):
                raise EdgecoreError("a value that came back from the device is damaged")
            result = result.to(getattr(torch, DTYPES[tensor.scalar_type].name))
        results.append(result)
    return results
