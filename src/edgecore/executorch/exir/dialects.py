"""ExecuTorch's `exir_ops`: edgecore's edge operators are torch's operators, so each dialect is `torch.ops`."""

from __future__ import annotations

import torch


class _Dialects:
    """ExecuTorch's dialects by name."""

    edge = torch.ops
    backend = torch.ops


ops = _Dialects()
