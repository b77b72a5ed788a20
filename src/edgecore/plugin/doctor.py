"""Checks of the installed backends: what works, what does not, and the command that mends it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pluggy

from edgecore.errors import BackendBroken
from edgecore.plugin import entries, kernels, spec
from edgecore.plugin.declaration import BackendInfo
from edgecore.plugin.registry import installed, load_compiler, select
from edgecore.plugin.types import InstalledBackend

_PROBE_SECONDS = 60


@dataclass(frozen=True)
class Finding:
    """One check of one backend. `remedy` is a command, empty if there is nothing to mend."""

    check: str
    ok: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All checks of one backend of one package."""

    backend: InstalledBackend
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed. A backend that is disabled on purpose is well."""
        return all(finding.ok for finding in self.findings)


def diagnose(name: str | None = None) -> list[Diagnosis]:
    """Check every installed backend, or those called `name` (a name, a backend_id or a distribution).

    Raises:
        BackendNotFound: There is none of that name.
    """
    found = installed() if name is None else select(name)
    return [Diagnosis(backend, tuple(_check(backend))) for backend in found]


def diagnose_kernels() -> list[tuple[entries.Provider, Finding]]:
    """Check every installed library of custom operators."""
    return [(provider, _check_kernels(provider)) for provider in entries.scan(entries.KERNELS)]


def _check_kernels(provider: entries.Provider) -> Finding:
    check = "kernel library"
    remedy = f"pip install --force-reinstall --no-deps {provider.distribution}"
    try:
        path = kernels.library(provider)
    except BackendBroken as error:
        return Finding(check, False, str(error), remedy)
    answer = probe(path)
    if isinstance(answer, str):
        return Finding(check, False, answer, remedy)
    abi = ".".join(map(str, answer["abi"]))
    if (host := _host_abi()) and abi != host:
        update = f"pip install --upgrade edgecore {provider.distribution}"
        return Finding(check, False, f"{path} was built for interface {abi}, this edgecore has {host}", update)
    return Finding(check, True, f"{path}, {answer['kernels']} kernels, interface {abi}")


def _check(backend: InstalledBackend) -> Iterator[Finding]:
    if backend.state == "disabled":
        yield Finding("enabled", True, f"excluded by {backend.problem}", f"unset {backend.problem}")
        return
    if backend.ambiguous:
        variable = f"EDGECORE_PROVIDER_{backend.backend_id.upper()}"
        yield Finding(
            "provider",
            False,
            f"another package provides {backend.backend_id} too",
            f"export {variable}={backend.distribution}",
        )
    reinstall = f"pip install --force-reinstall --no-deps {backend.distribution}"
    if backend.info is None:
        yield Finding("import and hook", False, backend.problem, reinstall)
        return
    yield _check_hooks(backend, reinstall)
    yield _check_fields(backend.info, reinstall)
    yield _check_library(backend.info, reinstall)
    yield from _check_compiler(backend)


def _check_hooks(backend: InstalledBackend, remedy: str) -> Finding:
    """Loading a file calls the hook directly; pluggy also finds wrong arguments and hooks that edgecore does not have."""
    wanted = (backend.backend_id, backend.distribution)
    provider = next(row for row in entries.scan() if (row.backend_id, row.distribution) == wanted)
    manager = pluggy.PluginManager("edgecore")
    manager.add_hookspecs(spec)
    try:
        manager.register(provider.load())
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        return Finding("import and hook", False, " ".join(str(error).split()), remedy)
    return Finding("import and hook", True, f"{backend.distribution} {backend.version}")


def _check_fields(info: BackendInfo, remedy: str) -> Finding:
    problems = []
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", info.name):
        problems.append(f"name {info.name!r} is not lower-case letters, digits, - and _")
    if not re.fullmatch(r"[\w.]+:\w+", info.compiler):
        problems.append(f"compiler {info.compiler!r} is not 'module:attribute'")
    if not info.summary:
        problems.append("summary is empty")
    detail = "; ".join(problems) or f"{info.name}: {info.summary}"
    return Finding("declaration", not problems, detail, remedy if problems else "")


def _check_library(info: BackendInfo, remedy: str) -> Finding:
    check = "native library"
    if info.native_library is None:
        return Finding(check, True, "none: it compiles only")
    try:
        path = Path(info.native_library())
    except Exception as error:
        return Finding(check, False, f"native_library() raised {type(error).__name__}: {error}", remedy)
    if not path.is_absolute():
        return Finding(check, False, f"{path} is not an absolute path", remedy)
    if not path.is_file():
        return Finding(check, False, f"{path} does not exist", remedy)
    declared = probe(str(path))
    if isinstance(declared, str):
        return Finding(check, False, declared, remedy)
    abi = ".".join(map(str, declared["abi"]))
    host = _host_abi()
    if host and abi != host:
        update = "pip install --upgrade edgecore " + remedy.rsplit(maxsplit=1)[-1]
        return Finding(check, False, f"{path} was built for interface {abi}, this edgecore has {host}", update)
    if (given := declared.get("backend_id", info.backend_id)) != info.backend_id:
        return Finding(check, False, f"{path} is the library of {given}", remedy)
    return Finding(check, True, f"{path}, interface {abi}")


def probe(path: str) -> dict[str, Any] | str:
    """What the library's table declares, or why it does not load."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "edgecore.plugin.probe", path],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{path} does not finish loading within {_PROBE_SECONDS} s"
    if done.returncode < 0:
        return f"{path} dies of signal {-done.returncode} when loaded"
    if done.returncode > 0:
        return f"{path} does not load: {done.stderr.strip()}"
    declared: dict[str, Any] = json.loads(done.stdout)
    return declared


def _check_compiler(backend: InstalledBackend) -> Iterator[Finding]:
    assert backend.info is not None
    extra = f'pip install "{backend.distribution}[compile]"'
    if find_spec("torch") is None:
        yield Finding("compiler", True, "torch is not installed: it runs files, it does not compile", extra)
        return
    try:
        compiler = load_compiler(backend.info)
        problems = list(compiler.check())
    except Exception as error:
        yield Finding("compiler", False, str(error), extra)
        return
    yield Finding("compiler", True, backend.info.compiler)
    for problem in problems:
        yield Finding("machine", False, problem.what, problem.remedy)


def _host_abi() -> str:
    """The interface version of this edgecore, from the header in its wheel; empty in a source tree."""
    header = Path(__file__).resolve().parent.parent / "native" / "include" / "edgecore" / "abi.h"
    if not header.is_file():
        return ""
    numbers = dict(re.findall(r"#define EDGECORE_ABI_(MAJOR|MINOR) (\d+)", header.read_text(encoding="utf-8")))
    return f"{numbers['MAJOR']}.{numbers['MINOR']}"
