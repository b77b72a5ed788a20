"""The compiler's blobs: reproducible, verified, and named when they are damaged."""

from __future__ import annotations

import pytest
import torch
from lowered import compiled, kinds
from torch import nn

from edgecore.errors import FormatError
from edgecore_xnnpack.compiler import XnnpackCompiler


def test_the_blob_is_reproducible_and_fit_for_executorch() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.Hardsigmoid(), nn.Conv2d(4, 8, 1))
    first, second = (compiled(model, torch.randn(1, 3, 8, 8)) for _ in range(2))
    assert bytes(first.buffer) == bytes(second.buffer)
    blob = bytes(first.pte.delegate_blobs[0])
    assert XnnpackCompiler().verify_blob(blob, first.pte.named_data, runtime="executorch-1.5") == []
    missing = XnnpackCompiler().verify_blob(blob, {}, runtime="executorch-1.5")
    assert missing and all("does not hold" in sentence for sentence in missing)
    assert kinds(first)["Conv2d"] == 3


def test_a_damaged_blob_is_named() -> None:
    blob = bytes(compiled(nn.Linear(3, 4), torch.randn(2, 3)).pte.delegate_blobs[0])
    for damaged in (blob[:40], blob[:8], b""):
        with pytest.raises(FormatError):
            XnnpackCompiler().verify_blob(damaged, {}, runtime="executorch-1.5")
