"""A weight that a kernel and the delegate share is in the file once, and both runtimes find it there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import edgecore


class Tied(nn.Module):
    """The table of an embedding, which a kernel reads, is the weight of a linear layer, which XNNPACK computes."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(500, 64)
        self.head = nn.Linear(64, 500, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.embedding(tokens))
        return logits


def test_a_tied_weight_is_in_the_file_once(tmp_path: Path) -> None:
    model, tokens, path = Tied().eval(), torch.tensor([[3, 499]]), tmp_path / "tied.pte"
    program = edgecore.compile(model, (tokens,), backends=["xnnpack"])
    program.save(path)
    assert program.pte.named_data and 500 * 64 * 4 < path.stat().st_size < 1.1 * 500 * 64 * 4
    for mode in ("mmap", "file"):
        loaded = edgecore.load(path, load_mode=mode, verify=True)
        for _ in range(2):
            torch.testing.assert_close(loaded.forward(tokens), model(tokens))
    runtime = pytest.importorskip("executorch.runtime").Runtime.get()
    method = runtime.load_program(path).load_method("forward")
    torch.testing.assert_close(method.execute([tokens])[0], model(tokens))
