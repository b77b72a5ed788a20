"""The part of the recipe fp16 outside of the delegate: tables of embeddings."""

from __future__ import annotations

import torch
from torch import nn

from edgecore_xnnpack.recipes.fp16_embeddings import convert_embeddings_to_fp16


class TwoReaders(nn.Module):
    """One table that two embeddings read, with a number that fp16 does not hold."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 4)
        with torch.no_grad():
            self.table.weight[0, 0] = 1e6

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return self.table(first) + self.table(second)


def test_the_table_of_embeddings_is_stored_once_in_fp16_and_results_are_float32() -> None:
    inputs = torch.tensor([1, 2]), torch.tensor([3, 4])
    model = TwoReaders().eval()
    exported = torch.export.export(model, inputs)
    program = convert_embeddings_to_fp16(exported, lambda node: True)
    tables = [tensor for tensor in (*program.state_dict.values(), *program.constants.values()) if tensor.dim() == 2]
    assert [table.dtype for table in tables] == [torch.float16]
    result = program.module(check_guards=False)(*inputs)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, model(*inputs), rtol=1e-3, atol=1e-3)
    assert exported.state_dict["table.weight"].dtype == torch.float32


def test_numbers_beyond_fp16_become_its_max() -> None:
    inputs = torch.tensor([0]), torch.tensor([1])
    program = convert_embeddings_to_fp16(torch.export.export(TwoReaders().eval(), inputs), lambda node: True)
    assert program.module(check_guards=False)(*inputs).isfinite().all()
