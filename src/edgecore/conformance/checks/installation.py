"""Check the installed package: entry point, hook, native library, and errors for a missing or incompatible library."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.checks.networks import delegated
from edgecore.conformance.elf import exported_symbols
from edgecore.conformance.workers.process import call, results
from edgecore.plugin.diagnosis.doctor import Finding, diagnose
from edgecore.plugin.installed.entry_points import searched
from edgecore.processes.command import exit_text, run_command

MAX_IMPORT_SECONDS = 0.1
"""Maximum processor seconds for importing a backend's package and calling its hook: both delay each load of a file."""

_SECONDS = 60
"""Time limit in seconds for the child process that imports the backend's package."""

HEAVY = ("torch", "numpy", "pydantic")
"""Packages that the `__init__` of a backend must not import, because loading and running a file does not need them."""

SYMBOL = "edgecore_backend_v0"


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield one check for each check of `edgecore doctor` on the backend, then the other checks of the group."""
    diagnoses = diagnose(subject.distribution)
    findings = next(row.findings for row in diagnoses if row.backend.backend_id == subject.backend_id)
    for finding in findings:
        yield Check(f"installation/{finding.check}", _DoctorFinding(finding))
    yield Check("installation/light import", light_import)
    yield Check("installation/exported symbol", exported_symbol)
    altered = "the check changes the library of this machine"
    yield Check("installation/missing library", missing_library, needs_run=True, in_process=altered)
    yield Check("installation/foreign interface version", foreign_version, needs_run=True, in_process=altered)


class _DoctorFinding:
    def __init__(self, finding: Finding) -> None:
        self.finding = finding

    def __call__(self, subject: BackendUnderTest) -> str:
        if not self.finding.ok:
            raise Failed(f"{self.finding.detail}; to fix it: {self.finding.remedy}")
        return self.finding.detail


_IMPORT = """
import json, sys, time
import edgecore.plugin
before = time.process_time()
module = __import__(sys.argv[1])
infos = list(module.edgecore_backends())
for info in infos:
    info.native_library and info.native_library()
seconds = time.process_time() - before
heavy = [name for name in sys.argv[2:] if name in sys.modules]
print("conformance", json.dumps([seconds, heavy]))
"""


def light_import(subject: BackendUnderTest) -> str:
    """Check that importing the package and calling its hook `edgecore_backends()` is quick and prints nothing.

    Neither step may import torch, numpy or pydantic.
    """
    package = _package(subject)
    command = [sys.executable, "-c", _IMPORT, package, *HEAVY]
    done = run_command(command, seconds=_SECONDS, environment=_environment())
    if done.stopped:
        raise Failed(f"importing {package} and calling its hook does not end within {_SECONDS} s")
    if done.status != 0:
        raise Failed(f"importing {package} and calling its hook ends with {exit_text(done.status)}: {done.err[-300:]}")
    before, _, answer = done.out.rpartition("conformance ")
    seconds, heavy = json.loads(answer)
    if heavy:
        raise Failed(f"importing {package} imports {', '.join(heavy)}; loading a file must not need it")
    if printed := (before + done.err).strip():
        raise Failed(f"importing {package} prints {printed[:200]!r}")
    if seconds > MAX_IMPORT_SECONDS:
        raise Failed(
            f"importing {package} and calling its hook takes {seconds * 1e3:.0f} ms; "
            f"the limit is {MAX_IMPORT_SECONDS * 1e3:.0f} ms"
        )
    return f"{seconds * 1e3:.1f} ms"


def exported_symbol(subject: BackendUnderTest) -> str:
    """Check that the library exports only `edgecore_backend_v0`, so that plugins do not see each other's symbols."""
    if subject.library is None:
        raise Skipped(subject.cannot_run or "the backend has no native library for this machine")
    names = exported_symbols(subject.library)
    if names is None:
        raise Skipped(f"{subject.library.name} is not a 64-bit ELF file")
    others = [name for name in names if name != SYMBOL]
    if others:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        raise Failed(
            f"{subject.library.name} exports {', '.join(others[:5])}{more} besides {SYMBOL}; "
            "compile with -fvisibility=hidden and link with a version script"
        )
    if SYMBOL not in names:
        raise Failed(f"{subject.library.name} does not export {SYMBOL}")
    return SYMBOL


def missing_library(subject: BackendUnderTest) -> str:
    """Check a copy of the package from which the native library is missing.

    The package must still be importable, and the error of loading a file must name the library.
    """
    assert subject.library is not None
    spec = find_spec(_package(subject))
    if spec is None or spec.origin is None or not spec.origin.endswith("__init__.py"):
        raise Skipped(f"{_package(subject)} is not a package in a folder")
    source, folder = Path(spec.origin).parent, subject.folder / "without_library"
    if not subject.library.is_relative_to(source):
        raise Skipped(f"the library lies outside of the package: {subject.library}")
    if not folder.exists():
        ignored = shutil.ignore_patterns("__pycache__", subject.library.name)
        shutil.copytree(source, folder / source.name, ignore=ignored)
        _copy_metadata(subject.distribution, folder)
    arguments = {"backend_id": subject.backend_id, "program": str(_program(subject))}
    events = call("edgecore.conformance.workers.measure:load_without_library", arguments, folders=[str(folder)])
    answer = results(events, subject.trying)[0]
    if Path(answer["library"]).is_relative_to(source):
        raise Skipped(
            "the package finds its library by an absolute path, so a copy of the package still has the library"
        )
    _expect_error(answer["error"], "loading a file without the library", subject.library.name)
    return str(answer["error"])


def foreign_version(subject: BackendUnderTest) -> str:
    """Check that a library that declares interface version 99.0 is rejected, with an error that names 99.0."""
    arguments = {"backend_id": subject.backend_id, "program": str(_program(subject)), "library": str(subject.library)}
    answer = results(call("edgecore.conformance.workers.measure:load_patched", arguments), subject.trying)[0]
    _expect_error(answer["error"], "loading a library of interface version 99.0", "99.0")
    return str(answer["error"])


def _expect_error(error: str, action: str, name: str) -> None:
    if not error:
        raise Failed(f"{action} succeeds; it should fail")
    if name not in error:
        raise Failed(f"{action} fails with an error message that does not name {name}: {error}")


def _program(subject: BackendUnderTest) -> Path:
    """Write a `.pte` file that has a delegate of the backend, and return its path."""
    path = subject.folder / "delegated.pte"
    if not path.exists():
        path.write_bytes(delegated(subject)[3].buffer)
    return path


def _package(subject: BackendUnderTest) -> str:
    from edgecore.plugin.installed.entry_points import scan

    wanted = (subject.backend_id, subject.distribution)
    provider = next(row for row in scan() if (row.name, row.distribution) == wanted)
    return provider.value.partition(":")[0].partition("[")[0].strip()


def _copy_metadata(name: str, folder: Path) -> None:
    package = distribution(name)
    info = folder / f"{name.replace('-', '_')}-{package.version}.dist-info"
    info.mkdir()
    for file in ("METADATA", "entry_points.txt"):
        if text := package.read_text(file):
            (info / file).write_text(text, encoding="utf-8")


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(searched())}
