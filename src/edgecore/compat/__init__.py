"""`edgecore.compat`, another name of `edgecore.executorch`: its command, `install`, and its modules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from edgecore.executorch import install

__all__ = ["install"]

_MODULES = {
    "backend": "exir.backend",
    "config": "exir.scripts.config",
    "dialects": "exir.dialects",
    "export": "export.export",
    "group_partitioner": "exir.group_partitioner",
    "lowering": "exir.scripts.lowering",
    "managers": "exir.scripts.managers",
    "memory": "exir.memory",
    "partitioners": "exir.partitioners",
    "passes": "exir.passes",
    "pybindings": "runtime.pybindings",
    "recipes": "export.recipes",
    "tensors": "exir.tensors",
}
"""Name of a module below `edgecore.compat` -> its name below `edgecore.executorch`."""


class _Alias(MetaPathFinder, Loader):
    """Imports a module of `edgecore.executorch` under its name in `edgecore.compat`, as the same module object."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parent, _, name = fullname.rpartition(".")
        return ModuleSpec(fullname, self) if parent == __name__ and name in _MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(f"edgecore.executorch.{_MODULES[spec.name.rpartition('.')[2]]}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own `__spec__`, which the import system has replaced by the spec of the second name."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.append(_Alias())
