"""Which backends are installed, and getting at one of them. Loading a file imports this: nothing heavy at the top.

Entry points of group `edgecore.backends` are named after the backend_id, so `find` imports one package only. Every
package is loaded in its own `try`: a broken one concerns those who use it.

Environment: `EDGECORE_BACKENDS_ALLOW` and `EDGECORE_BACKENDS_DENY` are comma-separated backend ids or distributions;
`EDGECORE_PROVIDER_<BACKEND_ID>` (upper case) names the distribution where several provide one id.
"""

from __future__ import annotations

import os
import sys

from edgecore.errors import BackendAmbiguous, BackendBroken, BackendDisabled, BackendError, BackendNotFound
from edgecore.plugin.backend_info import BackendInfo
from edgecore.plugin.entry_points import Provider, normalised, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from edgecore.plugin.api import BackendCompiler, InstalledBackend

_registered: dict[str, Provider] = {}

# Loaded once a process, also when it failed: importing a broken package again would not mend it. By backend_id and
# entry point value.
_loaded: dict[tuple[str, str], BackendInfo | BackendBroken] = {}


def register(plugin: Any) -> None:
    """Add the backends of an imported package, for applications whose packages cannot be found by their metadata.

    A frozen application (PyInstaller and the like) or an archive may hold `edgecore_acme` without its `.dist-info`:

        import edgecore_acme
        from edgecore.plugin import register

        register(edgecore_acme)

    Its backends go before installed ones of the same ids, without a choice.

    Args:
        plugin: The module with the hook `edgecore_backends`.

    Raises:
        BackendError: It has no such hook, or the hook gives something else than `BackendInfo`.
    """
    name = plugin.__name__
    for info in _infos(plugin, name):
        version = getattr(plugin, "__version__", "")
        fields = f"Name: {normalised(name.partition('.')[0])}\nVersion: {version or 'registered'}\n"
        location = getattr(plugin, "__file__", None) or "this application"
        _registered[info.backend_id] = Provider(info.backend_id, name, location, {"METADATA": fields}.get)
        _loaded[info.backend_id, name] = info


def providers_here() -> list[Provider]:
    """What `register` was given, then the entry points of installed packages for other backends."""
    return [*_registered.values(), *(one for one in scan() if one.name not in _registered)]


def find(backend_id: str, providers: Mapping[str, str] | None = None) -> BackendInfo:
    """The backend with this id. Imports the package that provides it and no other.

    Args:
        backend_id: As in the `.pte`, for example `XnnpackBackend`.
        providers: Distribution by backend_id, where several installed ones provide it.

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
    """The backend that users call `name` (or that has this backend_id, or comes from this distribution).

    Imports `edgecore-NAME`, and the other packages only if that is not it: one that hangs when imported concerns those
    who use it.

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
    found = select(name)
    if len({backend.backend_id for backend in found}) > 1:
        owners = " and ".join(f"{backend.backend_id} of {backend.distribution}" for backend in found)
        raise BackendAmbiguous(f"{name!r} may be {owners}; say which one by its backend id")
    return find(found[0].backend_id, providers)


def is_loaded(provider: Provider) -> bool:
    """Say if this process has imported the package, or failed to."""
    return (provider.name, provider.value) in _loaded


def provider_of(info: BackendInfo) -> Provider:
    """The entry point that `find` or `find_by_name` got `info` from."""
    return next(one for one in providers_here() if _loaded.get((one.name, one.value)) is info)


def select(name: str, among: Sequence[InstalledBackend] | None = None) -> list[InstalledBackend]:
    """The installed backends (or `among` these) that are called `name`: its name, its backend_id or its distribution.

    Raises:
        BackendNotFound: There is none.
    """
    from edgecore.plugin.known_backends import lookup

    row = lookup(name)
    # A backend that is broken or disabled does not tell its name: the table or the custom edgecore-NAME may.
    others = {name, f"edgecore-{name}", row.backend_id if row else name}
    found = [
        backend
        for backend in (installed() if among is None else among)
        if name in (backend.name, backend.backend_id, backend.distribution)
        or (not backend.name and others & {backend.backend_id, backend.distribution})
    ]
    if not found:
        raise BackendNotFound(_not_found(name))
    return found


def installed() -> list[InstalledBackend]:
    """Every backend of every installed package with its state, sorted by id. Imports them all."""
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
    """Import and create the compile side of a backend.

    Raises:
        BackendBroken: Its module cannot be imported, or lacks the attribute.
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
    """Import the package and call its hook."""
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
    """From now on the backend is broken in this process; its package is not imported again."""
    broken = BackendBroken(f"backend {provider.name!r} of {provider.distribution} {provider.version} is broken: {why}")
    _loaded[provider.name, provider.value] = broken
    return broken


def excluded_by(provider: Provider) -> str:
    """Name of the environment variable that excludes it, or nothing."""
    allow, deny = "EDGECORE_BACKENDS_ALLOW", "EDGECORE_BACKENDS_DENY"
    if os.environ.get(deny) and _listed(provider, deny):
        return deny
    return allow if os.environ.get(allow) and not _listed(provider, allow) else ""


def call_hook(provider: Provider) -> BackendInfo:
    """Import the package and ask it for the backend, whatever came of it before. Raises whatever the package raises."""
    infos = _infos(provider.load(), provider.value)
    for info in infos:
        if info.backend_id == provider.name:
            return info
    given = ", ".join(info.backend_id for info in infos) or "nothing"
    raise BackendError(f"its entry point is named {provider.name!r} but its hook edgecore_backends gave {given}")


def _infos(plugin: Any, value: str) -> list[BackendInfo]:
    """What the hook of a package gives."""
    if not hasattr(getattr(plugin, "edgecore_backends", None), "edgecore_impl"):
        marked = [name for name in dir(plugin) if hasattr(getattr(plugin, name, None), "edgecore_impl")]
        instead = f", only {', '.join(marked)}" if marked else ""
        raise BackendError(f"{value} implements no hook edgecore_backends{instead}")
    infos = list(plugin.edgecore_backends())
    for info in infos:
        if not isinstance(info, BackendInfo):
            raise BackendError(f"its hook edgecore_backends gave a {type(info).__name__}, not a BackendInfo")
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
    from edgecore.plugin.known_backends import lookup

    row = lookup(name_or_id)
    if getattr(sys, "frozen", False):
        package, module = (row.package, row.package.replace("-", "_")) if row else ("its package", "it")
        return (
            f"backend {name_or_id!r} is not in this frozen application: install {package} where it is frozen, with PyInstaller, "
            f"or import {module} and give it to edgecore.plugin.register"
        )
    if row:
        return f"backend {name_or_id!r} ({row.summary}) is not installed; run: pip install {row.package}"
    installed = ", ".join(map(_name_of, providers_here())) or "none"
    return f"backend {name_or_id!r} is not installed, and no package is known for it; installed are: {installed}"


def _name_of(provider: Provider) -> str:
    """What users call a backend, as far as that is known without importing its package; else its id."""
    from edgecore.plugin.known_backends import lookup

    known = _loaded.get((provider.name, provider.value)) or lookup(provider.name)
    return provider.name if known is None or isinstance(known, BackendBroken) else known.name


def text_of(error: BaseException) -> str:
    """The exception in a line; our own speak for themselves."""
    text = " ".join(str(error).split())
    return text if isinstance(error, BackendError) else f"{type(error).__name__}: {text}"
