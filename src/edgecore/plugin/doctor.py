"""Checks of the installed backends: what works, what does not, and the command that mends it."""

from __future__ import annotations

import json
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

from edgecore.errors import BackendBroken
from edgecore.plugin import entries, kernels, loader, spec, trial
from edgecore.plugin.declaration import BackendInfo
from edgecore.plugin.probe import host_abi
from edgecore.plugin.registry import load_compiler, providers_here, select
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


def diagnose(name: str | None = None, seconds: float = trial.IMPORT_SECONDS) -> list[Diagnosis]:
    """Check every installed backend, or those called `name` (a name, a backend_id or a distribution).

    Args:
        name: The backend, None for all.
        seconds: How long importing a package may take.

    Raises:
        BackendNotFound: There is none of that name.
    """
    found, trials = trial.installed(seconds)
    if name is not None:
        found = select(name, found)
    return [
        Diagnosis(one, tuple(_check(one, trials.get((one.backend_id, one.distribution), trial.Trial()))))
        for one in found
    ]


def diagnose_kernels() -> list[tuple[entries.Provider, Finding]]:
    """Check every installed library of custom operators."""
    return [(provider, _check_kernels(provider)) for provider in entries.scan(entries.KERNELS)]


def _check_kernels(provider: entries.Provider) -> Finding:
    remedy = _reinstall(provider)
    try:
        path = kernels.library(provider)
    except BackendBroken as error:
        return Finding("kernel library", False, str(error), remedy)
    return _check_file(Path(path), remedy, provider.distribution)


def _check(backend: InstalledBackend, tried: trial.Trial) -> Iterator[Finding]:
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
    if backend.info is None:
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
    yield _check_library(backend, reinstall)
    yield from _check_compiler(backend)


def _provider(backend: InstalledBackend) -> entries.Provider:
    wanted = (backend.backend_id, backend.distribution)
    return next(row for row in providers_here() if (row.backend_id, row.distribution) == wanted)


def _reinstall(provider: entries.Provider) -> str:
    """The command that installs the package again, as it was installed."""
    # https://packaging.python.org/en/latest/specifications/direct-url/
    try:
        origin = json.loads(provider.read("direct_url.json") or "{}")
    except ValueError:
        origin = {}
    if origin.get("dir_info", {}).get("editable"):
        return f"pip install --force-reinstall --no-deps --editable {shlex.quote(url2pathname(urlparse(origin['url']).path))}"
    return f"pip install --force-reinstall --no-deps {provider.distribution}"


def _check_copies(provider: entries.Provider) -> Iterator[Finding]:
    """Several copies on `sys.path`: the first one is used, and people wonder why."""
    (version, location), *others = entries.copies(provider.distribution) or [("", "")]
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


def _check_hooks(backend: InstalledBackend, provider: entries.Provider, remedy: str) -> Finding:
    """Loading a file calls the hook directly; pluggy also finds wrong arguments and hooks that edgecore does not have."""
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


def _check_library(backend: InstalledBackend, remedy: str) -> Finding:
    check, info = "native library", backend.info
    assert info is not None
    if info.native_library is None:
        return Finding(check, True, "none: it compiles only")
    try:
        path = Path(info.native_library())
    except Exception as error:
        return Finding(check, False, f"native_library() raised {type(error).__name__}: {error}", remedy)
    try:
        _ = info.load_options and info.load_options()
    except Exception as error:
        return Finding(check, False, f"load_options() raised {type(error).__name__}: {error}", remedy)
    if not path.is_absolute():
        return Finding(check, False, f"{path} is not an absolute path", remedy)
    return _check_file(path, remedy, backend.distribution, info.backend_id)


def _check_file(path: Path, remedy: str, distribution: str, backend_id: str = "") -> Finding:
    """Check a library of delegates (with `backend_id`) or of kernels."""
    check = "native library" if backend_id else "kernel library"
    if problem := loader.wrong_file(path):
        return Finding(check, False, problem, remedy)
    declared = probe(str(path))
    if isinstance(declared, str):
        words = declared.partition(" does not load: ")[2]
        why, remedy = loader.explain(words, remedy, distribution)
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
