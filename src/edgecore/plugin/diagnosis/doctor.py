"""Check the installed backends, and name the command that repairs each problem: `edgecore doctor`."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

import pluggy

from edgecore.errors import BackendAmbiguous, BackendBroken
from edgecore.plugin import hookspecs
from edgecore.plugin.api import InstalledBackend
from edgecore.plugin.backend_info import BackendInfo
from edgecore.plugin.diagnosis import isolated_import, loader_errors
from edgecore.plugin.diagnosis.inspect_library import host_abi
from edgecore.plugin.installed import entry_points, kernel_libraries
from edgecore.plugin.registry import find_by_name, provider_of, providers_here, select
from edgecore.processes.command import exit_text, run_command

_PROBE_SECONDS = 60


@dataclass(frozen=True)
class Finding:
    """Result of one check of one backend.

    Attributes:
        check: Name of the check.
        ok: False if the check failed.
        detail: Result of the check, in one sentence or less.
        remedy: Command that repairs the problem; empty if there is nothing to repair.
        is_part: True for a row of the backend's self-test.
    """

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
        """True if no check failed. A backend that the user disabled counts as working."""
        return all(finding.ok for finding in self.findings)


Trials = dict[str, isolated_import.Trial]
"""The results of one package's tasks in a child process, by `Task.kind`."""


def diagnose(name: str | None = None, seconds: float = isolated_import.STEP_SECONDS) -> list[Diagnosis]:
    """Check all installed backends, or only the backends called `name`.

    Args:
        name: The name, backend id or distribution of a backend; None for all backends.
        seconds: Time limit for each import of a package, and for each call of a function of the package.

    Returns:
        One diagnosis for each backend of each package.

    Raises:
        BackendNotFound: No installed backend is called `name`.
    """
    backends, hooks = isolated_import.installed(seconds)
    if name is not None:
        backends = select(name, backends)
    trials: dict[tuple[str, str], Trials] = {key: {"hook": trial} for key, trial in hooks.items()}
    tasks = [task for backend in backends if backend.info for task in _tasks(backend)]
    for task, trial in zip(tasks, isolated_import.run(tasks, seconds)):
        trials[task.provider.name, task.provider.distribution][task.kind] = trial
    return [
        Diagnosis(backend, tuple(_check(backend, trials.get((backend.backend_id, backend.distribution), {}))))
        for backend in backends
    ]


def _tasks(backend: InstalledBackend) -> Iterator[isolated_import.Task]:
    provider = _provider(backend)
    yield isolated_import.Task("library", provider)
    yield isolated_import.Task("self_test", provider)
    if find_spec("torch"):
        yield isolated_import.Task("check", provider)


def check_library(name: str) -> Finding:
    """Check that the native library of the backend `name` loads and has this edgecore's version of the interface.

    Raises:
        BackendError: The backend is not installed, is broken, or has no library.
    """
    info = find_by_name(name)
    if info.native_library is None:
        raise BackendBroken(f"backend {name!r} compiles only; it has no library")
    provider = provider_of(info)
    return _check_file(Path(info.native_library()), _reinstall(provider), provider.distribution, info.backend_id)


def diagnose_kernels(seconds: float = isolated_import.STEP_SECONDS) -> list[tuple[entry_points.Provider, Finding]]:
    """Check every installed library of kernels, for each namespace and operator that it declares.

    Args:
        seconds: Time limit for importing one package.
    """
    providers = entry_points.scan(entry_points.KERNELS)
    trials = isolated_import.run([isolated_import.Task("kernels", provider) for provider in providers], seconds)
    return [(provider, _check_kernels(provider, trial)) for provider, trial in zip(providers, trials)]


def _check_kernels(provider: entry_points.Provider, trial: isolated_import.Trial) -> Finding:
    remedy = _reinstall(provider)
    if trial.problem:
        remedy = f"pip install --upgrade {provider.distribution}" if trial.hangs else remedy
        return Finding("kernel library", False, kernel_libraries.broken(provider, trial.problem), remedy)
    is_operator = kernel_libraries.is_operator(provider.name)
    if is_operator:
        try:
            kernel_libraries.package_of(provider.name)
        except BackendAmbiguous as error:
            return Finding("kernel library", False, str(error), f"pip uninstall {provider.distribution}")
    return _check_file(Path(trial.answer), remedy, provider.distribution, operator=provider.name if is_operator else "")


def _check(backend: InstalledBackend, trials: Trials) -> Iterator[Finding]:
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
    trial = trials["hook"]
    if backend.info is None:
        if trial.hangs:
            yield Finding("import and hook", False, backend.problem, _leave_out(backend))
            return
        lacks_another = (
            trial.missing_module and trial.missing_module.partition(".")[0] != provider.module.partition(".")[0]
        )
        # `pip install` without --no-deps, which `reinstall` has, also installs missing dependencies of the package.
        remedy = f"pip install {backend.distribution}" if lacks_another else reinstall
        yield Finding("import and hook", False, backend.problem, remedy)
        return
    yield _check_hooks(backend, provider, reinstall)
    if trial.printed:
        printed = repr(trial.printed[:80])
        text = f"importing {provider.module} prints {printed}, which spoils the output of programs that use it"
        yield Finding("quiet import", False, text, f"pip install --upgrade {backend.distribution}")
    yield _check_fields(backend.info, reinstall)
    yield _check_library(backend, trials["library"], reinstall)
    yield from _check_self_test(trials["self_test"], f"pip install --upgrade {backend.distribution}")
    yield from _check_compiler(backend, trials.get("check"))


def _provider(backend: InstalledBackend) -> entry_points.Provider:
    wanted = (backend.backend_id, backend.distribution)
    return next(row for row in providers_here() if (row.name, row.distribution) == wanted)


def _reinstall(provider: entry_points.Provider) -> str:
    """Return the command that installs the package again: editable, if the installed package is editable."""
    # Format of `direct_url.json`: https://packaging.python.org/en/latest/specifications/direct-url/
    try:
        origin = json.loads(provider.read("direct_url.json") or "{}")
    except ValueError:
        origin = {}
    if origin.get("dir_info", {}).get("editable"):
        folder = url2pathname(urlparse(origin["url"]).path)
        return f"pip install --force-reinstall --no-deps --editable {shlex.quote(folder)}"
    return f"pip install --force-reinstall --no-deps {provider.distribution}"


def _leave_out(backend: InstalledBackend) -> str:
    """Return the shell command that excludes the package, so that edgecore no longer imports it."""
    denied = filter(None, (os.environ.get("EDGECORE_BACKENDS_DENY"), backend.distribution))
    return f"export EDGECORE_BACKENDS_DENY={','.join(denied)}"


def _check_copies(provider: entry_points.Provider) -> Iterator[Finding]:
    """Report several copies of the package on `sys.path`: Python imports the first, perhaps of a wrong version."""
    (version, location), *others = entry_points.copies(provider.distribution) or [("", "")]
    if not others:
        return
    hidden = " and ".join(f"{other} in {folder}" for other, folder in others)
    used = f"version {version} in {location} is used; it hides {hidden}"
    if any(folder == location for _, folder in others):
        broken = f"{used}: an installation was interrupted"
        # An interrupted installation has left two copies. `pip uninstall` removes only one copy per run, so run it
        # twice.
        reinstall = f"pip uninstall --yes {provider.distribution} && pip install {provider.distribution}"
        yield Finding("one version", False, broken, f"pip uninstall --yes {provider.distribution}; {reinstall}")
        return
    yield Finding("one version", True, used, f"pip uninstall --yes {provider.distribution}")


def _check_hooks(backend: InstalledBackend, provider: entry_points.Provider, remedy: str) -> Finding:
    """Check the hooks with pluggy, which finds wrong arguments and unknown hooks.

    edgecore does not make these checks when it loads a file: it calls the hook without pluggy, to load faster.
    """
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


def _check_library(backend: InstalledBackend, trial: isolated_import.Trial, remedy: str) -> Finding:
    check, info = "native library", backend.info
    assert info is not None
    if info.native_library is None:
        return Finding(check, True, "none: it compiles only")
    if trial.problem:
        return Finding(check, False, trial.problem, _leave_out(backend) if trial.hangs else remedy)
    path = Path(trial.answer)
    if not path.is_absolute():
        return Finding(check, False, f"{path} is not an absolute path", remedy)
    return _check_file(path, remedy, backend.distribution, info.backend_id)


def _check_file(path: Path, remedy: str, distribution: str, backend_id: str = "", operator: str = "") -> Finding:
    """Check the native library of a backend or, if `backend_id` is empty, a library of kernels.

    With an `operator`, the library must have a kernel of it, which replaces edgecore's kernel.
    """
    check = "native library" if backend_id else "kernel library"
    if problem := loader_errors.wrong_file(path):
        return Finding(check, False, problem, remedy)
    declared = probe(str(path))
    if isinstance(declared, str):
        message = declared.partition(" does not load: ")[2]
        why, remedy = loader_errors.explain(message, remedy, distribution)
        return Finding(check, False, f"{path} does not load: {why} ({message})" if why else declared, remedy)
    abi = ".".join(map(str, declared["abi"]))
    if (host := host_abi()) and abi != host:
        is_newer = declared["abi"] > [int(number) for number in host.split(".")]
        older = "edgecore" if is_newer else distribution
        text = f"{path} was built for interface {abi}, this edgecore has {host}: {older} is too old"
        return Finding(check, False, text, f"pip install --upgrade {older}")
    if backend_id and (declared_id := declared.get("backend_id", backend_id)) != backend_id:
        return Finding(check, False, f"{path} is the library of {declared_id}", remedy)
    if backend_id:
        return Finding(check, True, f"{path}, interface {abi}")
    if operator and operator not in declared["kernels"]:
        return Finding(check, False, f"{path} has no kernel of {operator}, which {distribution} declares", remedy)
    kernels = f"its kernel of {operator} comes before edgecore's" if operator else f"{len(declared['kernels'])} kernels"
    return Finding(check, True, f"{path}, {kernels}, interface {abi}")


def probe(path: str) -> dict[str, Any] | str:
    """Load a library in a child process and read the table that it exports.

    Args:
        path: Absolute path of the library of a backend or of kernels.

    Returns:
        The table that `inspect_library` prints, or a sentence with the reason why the library does not load.
    """
    command = [sys.executable, "-m", "edgecore.plugin.diagnosis.inspect_library", path]
    done = run_command(command, seconds=_PROBE_SECONDS)
    if done.stopped:
        return f"{path} does not finish loading within {_PROBE_SECONDS} s"
    if done.status < 0:
        return f"{path} dies of {exit_text(done.status)} when loaded"
    if done.status > 0:
        return f"{path} does not load: {done.err.strip()}"
    declared: dict[str, Any] = json.loads(done.out)
    return declared


def _check_self_test(trial: isolated_import.Trial, remedy: str) -> Iterator[Finding]:
    if trial.problem:
        yield Finding("self-test", False, trial.problem, remedy)
        return
    for what, is_right, detail, *own in trial.answer or []:
        yield Finding(what, is_right, detail, "" if is_right else (*own, remedy)[0], is_part=True)


def _check_compiler(backend: InstalledBackend, trial: isolated_import.Trial | None) -> Iterator[Finding]:
    assert backend.info is not None
    extra = f'"{backend.distribution}[compile]"'
    if trial is None:
        detail = "torch is not installed: it runs files, it does not compile"
        yield Finding("compiler", True, detail, f"pip install {extra}")
    elif trial.problem:
        remedy = f"pip install --upgrade {extra}" if trial.hangs else f"pip install {extra}"
        yield Finding("compiler", False, trial.problem, remedy)
    else:
        yield Finding("compiler", True, backend.info.compiler)
        for what, remedy in trial.answer:
            yield Finding("machine", False, what, remedy)
