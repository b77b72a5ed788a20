"""Run scripts that were written for ExecuTorch, unchanged: `python -m edgecore.executorch script.py`.

The imports of such a script, `executorch.exir` and so on, then give the counterparts in edgecore. Importing this package
changes nothing: only `install` and the command make these names known to Python.
"""

from __future__ import annotations

from edgecore.stability import public_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.executorch.finder import install as install

__all__, __getattr__ = public_names("edgecore.executorch", {"edgecore.executorch.finder": "install"})
