"""`exir_ops`, by which scripts of ExecuTorch name operators: in edgecore an edge operator is the operator of torch."""

from __future__ import annotations

import torch


class _Dialects:
    """The operators of each dialect, all of them those of torch."""

    edge = torch.ops
    backend = torch.ops


ops = _Dialects()
