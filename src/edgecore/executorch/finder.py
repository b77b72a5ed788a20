"""The import finder that makes modules with ExecuTorch's names, whose attributes are edgecore's counterparts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from edgecore.errors import BackendError
from edgecore.executorch.names import MODULES, REASONS
from edgecore.plugin import registry

ROOT = "executorch"
BACKENDS = "executorch.backends."


def install() -> None:
    """Make imports of `executorch` and its modules return edgecore's counterparts, in this process from now on.

    Raises:
        ImportError: Modules of ExecuTorch itself are imported already.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    present = sorted(name for name in sys.modules if name.partition(".")[0] == ROOT)
    if present:
        raise ImportError(f"{present[0]} is imported already; call edgecore.executorch.install() before that")
    sys.meta_path.insert(0, _Finder())


def plugin_modules() -> dict[str, Mapping[str, str]]:
    """Return the modules below `executorch.backends` that the installed backends contribute.

    A backend's package contributes by its attribute `executorch_modules`: name of a module of ExecuTorch -> (name in it
    -> counterpart as `module:attribute`). This imports the packages, which are light, but not their compilers.
    """
    contributed: dict[str, Mapping[str, str]] = {}
    for provider in registry.providers_here():
        if registry.excluded_by(provider):
            continue
        try:
            registry.find(provider.name)
        except BackendError:
            continue  # skip a broken or ambiguous backend: `edgecore doctor` says why
        modules = getattr(sys.modules.get(provider.module), "executorch_modules", {})
        for module, names in modules.items():  # merge the names: two packages may add to one module
            contributed[module] = {**contributed.get(module, {}), **names}
    return contributed


class _Finder(MetaPathFinder, Loader):
    """Finds and loads the modules of ExecuTorch that `MODULES` or an installed backend lists."""

    def __init__(self) -> None:
        self._of_plugins: dict[str, Mapping[str, str]] | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of ExecuTorch; None for all other modules.

        Raises:
            ImportError: edgecore has no counterpart of the module. The message names the nearest module that it has.
        """
        if fullname.partition(".")[0] != ROOT:
            return None
        if not self.has_module(fullname):
            parent, _, name = fullname.rpartition(".")
            raise ImportError(self.missing(parent, name), name=fullname)
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return an empty module; `exec_module` lets the module import each name at the first use of the name."""
        return _Module(spec.name, f"Counterparts in edgecore of the names of {spec.name}.")

    def exec_module(self, module: ModuleType) -> None:
        """Give the module `__all__`, and a `__getattr__` that imports the counterpart of a name at its first use."""
        names = self.names(module.__name__)

        def import_name(name: str) -> Any:
            if name in names:
                source, _, attribute = names[name].partition(":")
                value = getattr(import_module(source), attribute) if attribute else import_module(source)
                setattr(module, name, value)
                return value
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            if self.has_module(f"{module.__name__}.{name}"):
                return import_module(f"{module.__name__}.{name}")
            raise AttributeError(self.missing(module.__name__, name))

        module.__getattr__ = import_name  # type: ignore[method-assign]
        module.__all__ = sorted(names)  # type: ignore[attr-defined]

    def names(self, module: str) -> Mapping[str, str]:
        """Return a module of ExecuTorch as a map: name in it -> counterpart, as `module:attribute`."""
        return MODULES.get(module) or self._plugins(module).get(module, {})

    def has_module(self, name: str) -> bool:
        """Return True if there is a counterpart of the module, or of a module inside it."""
        inside = f"{name}."
        return any(known == name or known.startswith(inside) for known in (*MODULES, *self._plugins(name)))

    def missing(self, module: str, name: str) -> str:
        """Return the error message for a name without counterpart."""
        full = f"{module}.{name}"
        reason = next((text for known, text in REASONS.items() if full == known or full.startswith(f"{known}.")), None)
        is_installed = module.startswith(BACKENDS) and self.has_module(module)
        if reason is None or is_installed:
            tables = {**MODULES, **self._plugins(full)}
            targets = {f"{known}.{key}": target for known, names in tables.items() for key, target in names.items()}
            by_name = {qualified.rpartition(".")[2]: qualified for qualified in targets}
            near = get_close_matches(name, by_name, 1, 0.5) or get_close_matches(full, [*targets, *tables], 1, 0)
            nearest = by_name.get(near[0], near[0])
            reason = f"the nearest is {nearest}"
            if nearest in targets:
                reason += f", which is {targets[nearest].replace(':', '.')}"
        return f"edgecore has no counterpart of {full}: {reason}"

    def _plugins(self, name: str) -> dict[str, Mapping[str, str]]:
        """Return the modules of installed backends; none before the script imports its first backend."""
        if not f"{name}.".startswith(BACKENDS):
            return self._of_plugins or {}
        if self._of_plugins is None:
            self._of_plugins = plugin_modules()
        return self._of_plugins


class _Module(ModuleType):
    """A module with names of ExecuTorch; callable if it has a function of its own name: `executorch.export(...)`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function that has the module's name.

        Raises:
            TypeError: There is no such function.
        """
        name = self.__name__.rpartition(".")[2]
        if name not in self.__all__:
            raise TypeError(f"the module {self.__name__} is no function")
        return getattr(self, name)(*args, **kwargs)
