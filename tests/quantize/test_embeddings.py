"""Embedding tables of 4 and 8 bits in a recipe: what the file stores, how exactly it computes, what it leaves."""

import pytest
import torch
from torch import nn

import edgecore
from edgecore import Recipe, Rule
from edgecore.errors import CompileError

pytest.importorskip("edgecore_xnnpack")


class Words(nn.Module):
    """Two tables and a linear layer; `odd` has a width that groups of 32 do not divide."""

    def __init__(self):
        super().__init__()
        self.table, self.odd, self.head = nn.Embedding(200, 64), nn.Embedding(10, 7), nn.Linear(64, 8)

    def forward(self, words, kinds):
        return self.head(self.table(words)), self.odd(kinds)


WORDS, KINDS = torch.arange(0, 200, 3), torch.arange(10)


def compiled(recipe, **arguments):
    torch.manual_seed(0)
    return edgecore.compile(Words().eval(), (WORDS, KINDS), backends="xnnpack", quantize=recipe, **arguments)


@pytest.mark.parametrize(("bits", "scheme", "quality"), [(8, "int8 per channel", 35), (4, "int4 in groups of 32", 18)])
@pytest.mark.parametrize("name", ["int8", "int8-dynamic", "int8-weights", "int4-weights"])
def test_tables_are_stored_as_integers_and_looked_up_by_the_kernels(name, bits, scheme, quality):
    calibration = [(WORDS, KINDS)] if name == "int8" else None
    plain, program = (compiled(recipe, calibration=calibration) for recipe in (name, Recipe(name, embeddings=bits)))
    saved = 200 * 64 * 4 - 200 * 64 * bits // 8 - 200 * 4 * (1 if bits == 8 else 2)
    assert len(plain.buffer) - len(program.buffer) > 0.95 * saved
    kernels = {row.operator for row in program.report().left_outside if "embedding" in row.operator}
    assert kernels == {"edgecore.embedding_packed.default"}
    rows = {row.module: row for row in program.report(quantization=True).quantization}
    assert rows["table"].scheme.startswith(f"weights {scheme}") and rows["table"].sqnr > quality
    assert rows["odd"].scheme.startswith(f"weights int{bits} per channel")
    torch.manual_seed(0)
    assert program.compare(Words().eval()).ok


def test_rules_choose_the_tables():
    rules = [Rule(module="odd"), Rule(type="Embedding", recipe=Recipe("int8-weights", embeddings=4))]
    rows = {
        row.module: row for row in compiled(Recipe("int8-dynamic", rules=rules)).report(quantization=True).quantization
    }
    assert rows["table"].scheme == "weights int4 in groups of 32"
    assert rows["odd"].scheme == "float32 by rule module='odd'"


def test_a_model_without_tables_is_an_error():
    model, x = nn.Linear(64, 8).eval(), torch.randn(2, 64)
    with pytest.raises(
        CompileError, match="embeddings=8: the recipe selects no embedding with a constant float32 table"
    ):
        edgecore.compile(model, (x,), backends="xnnpack", quantize=Recipe("int8-dynamic", embeddings=8))
