"""List the installed backends, and import the package of a backend. Loading a file imports this module: keep it light.

An entry point of the group `edgecore.backends` is named after its backend id, so `find` imports only one package. Each
package's exceptions are caught, so that a broken package affects only its own users.

Environment variables: `EDGECORE_BACKENDS_ALLOW` and `EDGECORE_BACKENDS_DENY` are comma-separated lists of backend ids
or distributions. `EDGECORE_PROVIDER_<BACKEND_ID>` (upper case) names the distribution to use if several provide one id.
"""

from __future__ import annotations

import os
import sys

from edgecore.errors import BackendAmbiguous, BackendBroken, BackendDisabled, BackendError, BackendNotFound
from edgecore.plugin.backend_info import BackendInfo
from edgecore.plugin.installed.entry_points import Provider, normalised, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from edgecore.plugin.api import BackendCompiler, InstalledBackend

_registered: dict[str, Provider] = {}

# (backend id, value of the entry point) -> the backend that this process imported, or the error of the import. A
# package that failed is not imported again, because it would fail again.
_loaded: dict[tuple[str, str], BackendInfo | BackendBroken] = {}


def register(plugin: Any) -> None:
    """Add the backends of an imported package, for applications in which entry points cannot be found.

    A frozen application (PyInstaller) or an archive may contain `edgecore_acme` without the folder `.dist-info`, which
    declares the entry points.

    A registered backend takes precedence over an installed one with the same id.

    Args:
        plugin: The module with the hook `edgecore_backends`.

    Raises:
        BackendError: The module has no such hook, or the hook returns anything other than `BackendInfo`.

    Example:
        >>> import edgecore_acme
        >>> edgecore.plugin.register(edgecore_acme)
    """
    name = plugin.__name__
    for info in _infos(plugin, name):
        version = getattr(plugin, "__version__", "")
        fields = f"Name: {normalised(name.partition('.')[0])}\nVersion: {version or 'registered'}\n"
        location = getattr(plugin, "__file__", None) or "this application"
        _registered[info.backend_id] = Provider(info.backend_id, name, location, {"METADATA": fields}.get)
        _loaded[info.backend_id, name] = info


def providers_here() -> list[Provider]:
    """List the entry points of registered backends, then the installed ones with other backend ids."""
    return [*_registered.values(), *(provider for provider in scan() if provider.name not in _registered)]


def find(backend_id: str, providers: Mapping[str, str] | None = None) -> BackendInfo:
    """Find the backend with this id. Imports only the package that provides it.

    Args:
        backend_id: Id as in the `.pte`, for example "XnnpackBackend".
        providers: Maps a backend id to the distribution to use if several installed distributions provide the id.

    Raises:
        BackendNotFound, BackendDisabled, BackendBroken, BackendAmbiguous: All are BackendError.
    """
    candidates = [provider for provider in providers_here() if provider.name == backend_id]
    if not candidates:
        raise BackendNotFound(_not_found(backend_id))
    allowed = [provider for provider in candidates if not excluded_by(provider)]
    if not allowed:
        raise BackendDisabled(
            f"backend {backend_id!r} of {candidates[0].distribution} is disabled by the environment variable "
            f"{excluded_by(candidates[0])}; change it to use the backend"
        )
    return _load(_choose(allowed, providers))


def find_by_name(name: str, providers: Mapping[str, str] | None = None) -> BackendInfo:
    """Find the backend that has this name, backend id or distribution.

    First imports only the packages to which `name` may refer: a package called `name` or `edgecore-NAME`, or with the
    backend id `name`. Other packages are imported only if none of these declares the backend, because a package that
    hangs during its import must not affect users of other backends.

    Args:
        name: Name, backend id or distribution, as the user wrote it.
        providers: As in `find`.

    Raises:
        BackendNotFound, BackendDisabled, BackendBroken, BackendAmbiguous: All are BackendError.
    """
    for provider in providers_here():
        if name == provider.name or provider.distribution in (name, f"edgecore-{name}"):
            try:
                info = _load(provider) if not excluded_by(provider) else None
            except BackendBroken:
                continue
            if info and name in (info.name, info.backend_id, provider.distribution):
                return find(info.backend_id, providers)
    matches = select(name)
    if len({backend.backend_id for backend in matches}) > 1:
        owners = " and ".join(f"{backend.backend_id} of {backend.distribution}" for backend in matches)
        raise BackendAmbiguous(f"{name!r} may be {owners}; use the backend id instead of the name")
    return find(matches[0].backend_id, providers)


def is_loaded(provider: Provider) -> bool:
    """Return True if this process has imported the package, or has tried and failed."""
    return (provider.name, provider.value) in _loaded


def provider_of(info: BackendInfo) -> Provider:
    """Return the entry point from which `find` or `find_by_name` loaded `info`."""
    return next(row for row in providers_here() if _loaded.get((row.name, row.value)) is info)


def select(name: str, among: Sequence[InstalledBackend] | None = None) -> list[InstalledBackend]:
    """Find the backends whose name, backend id or distribution is `name`.

    Args:
        name: Name, backend id or distribution, as the user wrote it.
        among: Backends to search; all installed backends by default.

    Raises:
        BackendNotFound: No backend is called `name`.
    """
    from edgecore.plugin.installed.known_backends import lookup

    row = lookup(name)
    # A broken or disabled backend has no name, because its hook was not called. Find it by its id in the table of known
    # backends, or by the usual name of its package.
    others = {name, f"edgecore-{name}", row.backend_id if row else name}
    matches = [
        backend
        for backend in (installed() if among is None else among)
        if name in (backend.name, backend.backend_id, backend.distribution)
        or (not backend.name and others & {backend.backend_id, backend.distribution})
    ]
    if not matches:
        raise BackendNotFound(_not_found(name))
    return matches


def installed() -> list[InstalledBackend]:
    """List each backend of each installed package with its state, sorted by id. Imports all packages."""
    from edgecore.plugin.api import InstalledBackend

    providers = sorted(providers_here(), key=lambda provider: (provider.name, provider.distribution))
    usable = [provider.name for provider in providers if not excluded_by(provider)]
    result = []
    for provider in providers:
        common = (provider.name, provider.distribution, provider.version)
        ambiguous = usable.count(provider.name) > 1 and _choice(provider.name, None) is None
        if variable := excluded_by(provider):
            result.append(InstalledBackend(*common, state="disabled", problem=variable))
            continue
        try:
            info = _load(provider)
        except BackendBroken as error:
            result.append(InstalledBackend(*common, state="broken", problem=str(error), ambiguous=ambiguous))
        else:
            result.append(
                InstalledBackend(
                    *common, state="ok", name=info.name, summary=info.summary, ambiguous=ambiguous, info=info
                )
            )
    return result


def load_compiler(info: BackendInfo) -> BackendCompiler:
    """Import and construct the compiler of a backend.

    Raises:
        BackendBroken: The module cannot be imported, lacks the attribute, or the class raises an error.
    """
    from importlib import import_module

    module, _, attribute = info.compiler.partition(":")
    try:
        compiler: BackendCompiler = getattr(import_module(module), attribute)()
    except Exception as error:
        raise BackendBroken(
            f"the compiler of backend {info.name!r} ({info.compiler}) cannot be loaded: {text_of(error)}"
        ) from error
    return compiler


def _load(provider: Provider) -> BackendInfo:
    """Import the package and call its hook, once per process."""
    key = (provider.name, provider.value)
    if key not in _loaded:
        try:
            _loaded[key] = call_hook(provider)
        except (Exception, SystemExit) as error:
            set_broken(provider, text_of(error)).__cause__ = error
    outcome = _loaded[key]
    if isinstance(outcome, BackendBroken):
        raise outcome
    return outcome


def set_broken(provider: Provider, why: str) -> BackendBroken:
    """Mark a backend as broken for the rest of this process, so that its package is not imported again.

    Args:
        provider: The entry point of the backend.
        why: The reason, for error messages.

    Returns:
        The exception, which each later attempt to use the backend raises.
    """
    broken = BackendBroken(f"backend {provider.name!r} of {provider.distribution} {provider.version} is broken: {why}")
    _loaded[provider.name, provider.value] = broken
    return broken


def excluded_by(provider: Provider) -> str:
    """Return the name of the environment variable that excludes a backend; empty if none does."""
    allow, deny = "EDGECORE_BACKENDS_ALLOW", "EDGECORE_BACKENDS_DENY"
    if os.environ.get(deny) and _listed(provider, deny):
        return deny
    return allow if os.environ.get(allow) and not _listed(provider, allow) else ""


def call_hook(provider: Provider) -> BackendInfo:
    """Import a package and call its hook, even if this was done before. Does not catch the package's exceptions.

    Returns:
        The declaration of the backend whose id is the name of the entry point.

    Raises:
        BackendError: The hook is missing or declares no such backend.
    """
    infos = _infos(provider.load(), provider.value)
    for info in infos:
        if info.backend_id == provider.name:
            return info
    declared = ", ".join(info.backend_id for info in infos) or "nothing"
    raise BackendError(f"its entry point is named {provider.name!r} but its hook edgecore_backends returned {declared}")


def _infos(plugin: Any, value: str) -> list[BackendInfo]:
    """Call the hook of a package and check the types of the result."""
    if not hasattr(getattr(plugin, "edgecore_backends", None), "edgecore_impl"):
        marked = [name for name in dir(plugin) if hasattr(getattr(plugin, name, None), "edgecore_impl")]
        instead = f", only {', '.join(marked)}" if marked else ""
        raise BackendError(f"{value} implements no hook edgecore_backends{instead}")
    infos = list(plugin.edgecore_backends())
    for info in infos:
        if not isinstance(info, BackendInfo):
            raise BackendError(f"its hook edgecore_backends returned a {type(info).__name__}, not a BackendInfo")
    return infos


def _choose(candidates: Sequence[Provider], providers: Mapping[str, str] | None) -> Provider:
    backend_id = candidates[0].name
    chosen = _choice(backend_id, providers)
    if chosen is None and len(candidates) == 1:
        return candidates[0]
    candidates = sorted(candidates, key=lambda provider: provider.distribution)
    names = " and ".join(provider.distribution for provider in candidates)
    if chosen is None:
        raise BackendAmbiguous(
            f"backend {backend_id!r} is provided by {names}; choose with "
            f'providers={{"{backend_id}": "{candidates[0].distribution}"}} or {_choice_variable(backend_id)}='
            f"{candidates[0].distribution}"
        )
    for provider in candidates:
        if provider.distribution == chosen:
            return provider
    raise BackendNotFound(f"backend {backend_id!r} is provided by {names}, not by {chosen}, which was chosen")


def _choice(backend_id: str, providers: Mapping[str, str] | None) -> str | None:
    chosen = (providers or {}).get(backend_id) or os.environ.get(_choice_variable(backend_id))
    return normalised(chosen) if chosen else None


def _choice_variable(backend_id: str) -> str:
    return f"EDGECORE_PROVIDER_{backend_id.upper()}"


def _listed(provider: Provider, variable: str) -> bool:
    entries = {normalised(entry.strip()) for entry in os.environ[variable].split(",")}
    return bool(entries & {normalised(provider.name), provider.distribution})


def _not_found(name_or_id: str) -> str:
    from edgecore.plugin.installed.known_backends import lookup

    row = lookup(name_or_id)
    if getattr(sys, "frozen", False):
        package, module = (row.package, row.package.replace("-", "_")) if row else ("its package", "it")
        return (
            f"backend {name_or_id!r} is not in this frozen application: install {package} where it is frozen, "
            f"with PyInstaller, or import {module} and pass it to edgecore.plugin.register"
        )
    if row:
        return f"backend {name_or_id!r} ({row.summary}) is not installed; run: pip install {row.package}"
    installed = ", ".join(map(_name_of, providers_here())) or "none"
    return f"backend {name_or_id!r} is not installed, and no package is known for it; installed are: {installed}"


def _name_of(provider: Provider) -> str:
    """Return the name of a backend if edgecore knows it without importing the package; else the backend id."""
    from edgecore.plugin.installed.known_backends import lookup

    known = _loaded.get((provider.name, provider.value)) or lookup(provider.name)
    return provider.name if known is None or isinstance(known, BackendBroken) else known.name


def text_of(error: BaseException) -> str:
    """Format an exception in one line, without the class name of a `BackendError`, whose text is a full sentence."""
    text = " ".join(str(error).split())
    return text if isinstance(error, BackendError) else f"{type(error).__name__}: {text}"
