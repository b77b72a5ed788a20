"""Checks of the installed backends: what works, what does not, and the command that mends it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

import pluggy

from edgecore.plugin import entry_points, hookspecs, isolated_import, kernel_libraries, loader_errors
from edgecore.plugin.api import InstalledBackend
from edgecore.plugin.backend_info import BackendInfo
from edgecore.plugin.exit_status import exit_text
from edgecore.plugin.inspect_library import host_abi
from edgecore.plugin.registry import providers_here, select

_PROBE_SECONDS = 60


@dataclass(frozen=True)
class Finding:
    """One check of one backend. `remedy` is a command, empty if there is nothing to mend. `is_part` of a self-test."""

    check: str
    ok: bool
    detail: str
    remedy: str = ""
    is_part: bool = False


@dataclass(frozen=True)
class Diagnosis:
    """All checks of one backend of one package."""

    backend: InstalledBackend
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed. A backend that is disabled on purpose is well."""
        return all(finding.ok for finding in self.findings)


Trials = dict[str, isolated_import.Trial]
"""What one package answered, by kind of task."""


def diagnose(name: str | None = None, seconds: float = isolated_import.STEP_SECONDS) -> list[Diagnosis]:
    """Check every installed backend, or those called `name` (a name, a backend_id or a distribution).

    Args:
        name: The backend, None for all.
        seconds: How long importing a package may take, and each question to it.

    Raises:
        BackendNotFound: There is none of that name.
    """
    found, hooks = isolated_import.installed(seconds)
    if name is not None:
        found = select(name, found)
    answers: dict[tuple[str, str], Trials] = {key: {"hook": one} for key, one in hooks.items()}
    tasks = [task for backend in found if backend.info for task in _questions(backend)]
    for task, one in zip(tasks, isolated_import.run(tasks, seconds)):
        answers[task.provider.name, task.provider.distribution][task.kind] = one
    return [Diagnosis(one, tuple(_check(one, answers.get((one.backend_id, one.distribution), {})))) for one in found]


def _questions(backend: InstalledBackend) -> Iterator[isolated_import.Task]:
    provider = _provider(backend)
    yield isolated_import.Task("library", provider)
    yield isolated_import.Task("self_test", provider)
    if find_spec("torch"):
        yield isolated_import.Task("check", provider)


def diagnose_kernels(seconds: float = isolated_import.STEP_SECONDS) -> list[tuple[entry_points.Provider, Finding]]:
    """Check every installed library of custom operators. `seconds`: how long importing a package may take."""
    providers = entry_points.scan(entry_points.KERNELS)
    trials = isolated_import.run([isolated_import.Task("kernels", provider) for provider in providers], seconds)
    return [(provider, _check_kernels(provider, tried)) for provider, tried in zip(providers, trials)]


def _check_kernels(provider: entry_points.Provider, tried: isolated_import.Trial) -> Finding:
    remedy = _reinstall(provider)
    if tried.problem:
        remedy = f"pip install --upgrade {provider.distribution}" if tried.hangs else remedy
        return Finding("kernel library", False, kernel_libraries.broken(provider, tried.problem), remedy)
    return _check_file(Path(tried.answer), remedy, provider.distribution)


def _check(backend: InstalledBackend, answers: Trials) -> Iterator[Finding]:
    if backend.state == "disabled":
        yield Finding("enabled", True, f"excluded by {backend.problem}", f"unset {backend.problem}")
        return
    provider = _provider(backend)
    reinstall = _reinstall(provider)
    if backend.ambiguous:
        variable = f"EDGECORE_PROVIDER_{backend.backend_id.upper()}"
        yield Finding(
            "provider",
            False,
            f"another package provides {backend.backend_id} too",
            f"export {variable}={backend.distribution}",
        )
    yield from _check_copies(provider)
    tried = answers["hook"]
    if backend.info is None:
        if tried.hangs:
            yield Finding("import and hook", False, backend.problem, _leave_out(backend))
            return
        lacks_another = (
            tried.missing_module and tried.missing_module.partition(".")[0] != provider.module.partition(".")[0]
        )
        # pip installs what the package depends on and is not there.
        remedy = f"pip install {backend.distribution}" if lacks_another else reinstall
        yield Finding("import and hook", False, backend.problem, remedy)
        return
    yield _check_hooks(backend, provider, reinstall)
    if tried.printed:
        said = f"importing {provider.module} prints {tried.printed[:80]!r}, which spoils the output of programs that use it"
        yield Finding("quiet import", False, said, f"pip install --upgrade {backend.distribution}")
    yield _check_fields(backend.info, reinstall)
    yield _check_library(backend, answers["library"], reinstall)
    yield from _check_results(answers["self_test"], f"pip install --upgrade {backend.distribution}")
    yield from _check_compiler(backend, answers.get("check"))


def _provider(backend: InstalledBackend) -> entry_points.Provider:
    wanted = (backend.backend_id, backend.distribution)
    return next(row for row in providers_here() if (row.name, row.distribution) == wanted)


def _reinstall(provider: entry_points.Provider) -> str:
    """The command that installs the package again, as it was installed."""
    # https://packaging.python.org/en/latest/specifications/direct-url/
    try:
        origin = json.loads(provider.read("direct_url.json") or "{}")
    except ValueError:
        origin = {}
    if origin.get("dir_info", {}).get("editable"):
        return f"pip install --force-reinstall --no-deps --editable {shlex.quote(url2pathname(urlparse(origin['url']).path))}"
    return f"pip install --force-reinstall --no-deps {provider.distribution}"


def _leave_out(backend: InstalledBackend) -> str:
    """The command after which nothing imports the package."""
    denied = filter(None, (os.environ.get("EDGECORE_BACKENDS_DENY"), backend.distribution))
    return f"export EDGECORE_BACKENDS_DENY={','.join(denied)}"


def _check_copies(provider: entry_points.Provider) -> Iterator[Finding]:
    """Several copies on `sys.path`: the first one is used, and people wonder why."""
    (version, location), *others = entry_points.copies(provider.distribution) or [("", "")]
    if not others:
        return
    hidden = " and ".join(f"{other} in {place}" for other, place in others)
    used = f"version {version} in {location} is used; it hides {hidden}"
    if any(place == location for _, place in others):
        broken = f"{used}: an installation was interrupted"
        twice = f"pip uninstall --yes {provider.distribution} && pip install {provider.distribution}"
        yield Finding("one version", False, broken, f"pip uninstall --yes {provider.distribution}; {twice}")
        return
    yield Finding("one version", True, used, f"pip uninstall --yes {provider.distribution}")


def _check_hooks(backend: InstalledBackend, provider: entry_points.Provider, remedy: str) -> Finding:
    """Loading a file calls the hook directly; pluggy also finds wrong arguments and hooks that edgecore does not have."""
    manager = pluggy.PluginManager("edgecore")
    manager.add_hookspecs(hookspecs)
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


def _check_library(backend: InstalledBackend, tried: isolated_import.Trial, remedy: str) -> Finding:
    check, info = "native library", backend.info
    assert info is not None
    if info.native_library is None:
        return Finding(check, True, "none: it compiles only")
    if tried.problem:
        return Finding(check, False, tried.problem, _leave_out(backend) if tried.hangs else remedy)
    path = Path(tried.answer)
    if not path.is_absolute():
        return Finding(check, False, f"{path} is not an absolute path", remedy)
    return _check_file(path, remedy, backend.distribution, info.backend_id)


def _check_file(path: Path, remedy: str, distribution: str, backend_id: str = "") -> Finding:
    """Check a library of delegates (with `backend_id`) or of kernels."""
    check = "native library" if backend_id else "kernel library"
    if problem := loader_errors.wrong_file(path):
        return Finding(check, False, problem, remedy)
    declared = probe(str(path))
    if isinstance(declared, str):
        words = declared.partition(" does not load: ")[2]
        why, remedy = loader_errors.explain(words, remedy, distribution)
        return Finding(check, False, f"{path} does not load: {why} ({words})" if why else declared, remedy)
    abi = ".".join(map(str, declared["abi"]))
    if (host := host_abi()) and abi != host:
        is_newer = declared["abi"] > [int(number) for number in host.split(".")]
        older = "edgecore" if is_newer else distribution
        text = f"{path} was built for interface {abi}, this edgecore has {host}: {older} is too old"
        return Finding(check, False, text, f"pip install --upgrade {older}")
    if backend_id and (given := declared.get("backend_id", backend_id)) != backend_id:
        return Finding(check, False, f"{path} is the library of {given}", remedy)
    kernels_of = "" if backend_id else f"{declared.get('kernels')} kernels, "
    return Finding(check, True, f"{path}, {kernels_of}interface {abi}")


def probe(path: str) -> dict[str, Any] | str:
    """What the library's table declares, or why it does not load."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "edgecore.plugin.inspect_library", path],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{path} does not finish loading within {_PROBE_SECONDS} s"
    if done.returncode < 0:
        return f"{path} dies of {exit_text(done.returncode)} when loaded"
    if done.returncode > 0:
        return f"{path} does not load: {done.stderr.strip()}"
    declared: dict[str, Any] = json.loads(done.stdout)
    return declared


def _check_results(tried: isolated_import.Trial, remedy: str) -> Iterator[Finding]:
    """What the package computed on this machine, row by row."""
    if tried.problem:
        yield Finding("self-test", False, tried.problem, remedy)
        return
    for what, is_right, detail in tried.answer or []:
        yield Finding(what, is_right, detail, "" if is_right else remedy, is_part=True)


def _check_compiler(backend: InstalledBackend, tried: isolated_import.Trial | None) -> Iterator[Finding]:
    assert backend.info is not None
    extra = f'"{backend.distribution}[compile]"'
    if tried is None:
        detail = "torch is not installed: it runs files, it does not compile"
        yield Finding("compiler", True, detail, f"pip install {extra}")
    elif tried.problem:
        remedy = f"pip install --upgrade {extra}" if tried.hangs else f"pip install {extra}"
        yield Finding("compiler", False, tried.problem, remedy)
    else:
        yield Finding("compiler", True, backend.info.compiler)
        for what, remedy in tried.answer:
            yield Finding("machine", False, what, remedy)
