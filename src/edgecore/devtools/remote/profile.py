"""Profile a file on another device: edgecore-run runs there, and its trace is copied back."""

from __future__ import annotations

import posixpath
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edgecore import native_program
from edgecore.devtools.file_arguments import program_file
from edgecore.devtools.profiling import Profile, Trace
from edgecore.errors import EdgecoreError, ErrorCode, ExecutionError
from edgecore.processes.command import Ended
from edgecore.processes.device import Device

RUNNER = "edgecore-run"
_MACHINES = {
    3: ("i386", "i686"),
    40: ("armv7l", "armv8l", "aarch64"),
    62: ("x86_64", "amd64"),
    183: ("aarch64", "arm64"),
    243: ("riscv64",),
}
"""Processor number of ELF files -> the names that `uname -m` prints on machines that can run it."""


def profile_on(
    device: Device,
    file: Path,
    *,
    method: str = "forward",
    inputs: Sequence[Path] = (),
    runs: int = 50,
    warmup: int = 5,
    threads: int | None = None,
    data: Sequence[Path] = (),
    build: Path | None = None,
) -> Profile:
    """Run a file on a device, and measure where its time goes.

    Args:
        device: The device.
        file: Path of a `.pte`.
        method: Name of the method.
        inputs: `.npy` or `.bin` files with the inputs; inputs without a file are zeros.
        runs: Number of measured runs.
        warmup: Number of runs before the measured ones.
        threads: Number of threads; by default edgecore-run chooses it.
        data: `.ptd` files with weights that are not in the `.pte`.
        build: Folder with `edgecore-run` and the libraries of backends, built for the device; by default the installed
            ones.

    Raises:
        EdgecoreError: The device cannot run the file, or the connection fails.
    """
    runner, libraries = programs_for(device, file, build)
    command = [device.push(runner), device.push(file), "--method", method, "--runs", str(warmup + runs)]
    for option, paths in (("--backend", libraries), ("--input", inputs), ("--data", data)):
        for path in paths:
            command += [option, device.push(path)]
    if threads:
        command += ["--threads", str(threads)]
    with device.temporary() as folder, tempfile.TemporaryDirectory() as here:
        done = run_there(device, [*command, "--trace", f"{folder}/runs.etdp"], environment_of(device.push, runner))
        device.pull(f"{folder}/runs.etdp", Path(here) / "runs.etdp")
        pte = program_file(file)
        trace = Trace.read(Path(here) / "runs.etdp", program=pte).select(method)
    # A full trace drops its oldest runs, and the warm-up runs are the oldest: keep the last `runs`.
    trace.runs = trace.runs[max(0, len(trace.runs) - runs) :]
    if not trace.runs:
        raise EdgecoreError(f"{file}: the events of one run of {method} need more memory than a trace has")
    load, first = (_milliseconds(done.out, word) for word in ("load", "first run"))
    return Profile(f"{file.name} on {device.name}", method, threads, load, first, trace, pte, runs - len(trace.runs))


def environment_of(push: Callable[[Path], str], runner: Path) -> dict[str, str]:
    """Copy the library that edgecore-run needs to the device; return the environment in which edgecore-run finds it.

    Raises:
        EdgecoreError: The library is missing.
    """
    if runner != native_program.PROGRAM:
        return {}
    kernels = next(native_program.LIBRARY_FOLDER.glob("libedgecore_kernels.*"), None)
    if kernels is None:
        raise EdgecoreError(
            f"{native_program.LIBRARY_FOLDER} has no libedgecore_kernels, which {RUNNER} needs; install edgecore from "
            "a wheel, or name a folder with a build with --device-build"
        )
    variable = "DYLD_LIBRARY_PATH" if kernels.suffix == ".dylib" else "LD_LIBRARY_PATH"
    return {variable: posixpath.dirname(push(kernels))}


def run_there(device: Device, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Ended:
    """Run edgecore-run on a device, and return its output.

    Raises:
        ExecutionError: edgecore-run failed. The message is the first failed call of `--calls`, or else the last line of
            edgecore-run's output.
        EdgecoreError: The connection is lost, or the device cannot run edgecore-run.
    """
    done = device.run(command, environment=environment)
    if done.status:
        failed = next((line for line in done.out.splitlines() if ": failed: " in line), None)
        raise ExecutionError(f"{device.name}: {failed or done.reason}", ErrorCode.INTERNAL)
    return done


def programs_for(device: Device, file: Path, build: Path | None) -> tuple[Path, list[Path]]:
    """Return the local paths of edgecore-run and of the libraries of the backends that a file needs.

    Raises:
        EdgecoreError: A program or library is missing, or is built for another processor than the device's.
    """
    runner, libraries = _programs(file, build)
    for path in (runner, *libraries):
        _check_machine(path, device)
    return runner, libraries


def _programs(file: Path, build: Path | None) -> tuple[Path, list[Path]]:
    ids = {delegate.id for plan in program_file(file).program.execution_plan for delegate in plan.delegates}
    if build is not None:
        runner = build / RUNNER
        if not runner.is_file():
            raise EdgecoreError(f"{build} has no {RUNNER}; docs/devices.md says how to build it for a device")
        return runner, sorted(build.glob("*.so")) if ids else []
    runner = native_program.PROGRAM
    if not runner.is_file():
        raise EdgecoreError(f"{RUNNER} is not installed here; name a folder that has it with --device-build")
    return runner, [_library(backend) for backend in sorted(ids)]


def _library(backend_id: str) -> Path:
    from edgecore.plugin.registry import find

    info = find(backend_id)
    if info.native_library is None:
        raise EdgecoreError(f"backend {info.name!r} has no library, so nothing runs its delegates")
    return Path(info.native_library())


def _check_machine(path: Path, device: Device) -> None:
    """Raise an error if a program is built for another processor than the device's, as far as both are known."""
    with path.open("rb") as file:
        head = file.read(20)
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return
    number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    machines = _MACHINES.get(number)
    if machines and device.machine not in machines:
        raise EdgecoreError(
            f"{path.name} is built for {machines[0]}, and the processor of {device.name} is {device.machine}; give a "
            "folder with a build for it with --device-build (docs/devices.md)"
        )


def _milliseconds(out: str, word: str) -> float:
    match = re.search(rf"^{word} ([0-9.]+) ms", out, re.MULTILINE)
    return float(match[1]) if match else 0.0
