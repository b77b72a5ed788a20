"""Run scripts that were written for ExecuTorch, unchanged: `python -m edgecore.executorch script.py`.

In such a script, imports of `executorch.exir` and so on return edgecore's counterparts. Importing this package changes
nothing: only `install` and the command make Python find these modules.
"""

from __future__ import annotations

from edgecore.stability import public_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.executorch.finder import install as install

__all__, __getattr__ = public_names("edgecore.executorch", {"edgecore.executorch.finder": "install"})
