"""Quantized weights that no backend took stay integers, packed if they have 2 or 4 bits."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from edge_programs import check, edge_of, targets

from edgecore.passes.library.pack_weights import pack_weights

aten = torch.ops.aten
library = torch.ops.quantized_decomposed
LIMITS = {2: (-2, 1), 4: (-8, 7), 8: (-128, 127)}


def parts(bits, rows=6, columns=16):
    low, high = LIMITS[bits]
    weight = torch.randint(low, high + 1, (rows, columns), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    return {"weight": weight, "scales": torch.linspace(0.1, 0.5, rows), "zeros": torch.zeros(rows, dtype=torch.int64)}


def dequantized(s, bits):
    return library.dequantize_per_channel(s.weight, s.scales, s.zeros, 0, *LIMITS[bits], torch.int8)


@pytest.mark.parametrize("bits", LIMITS)
def test_an_embedding_looks_its_rows_up_in_the_packed_matrix(bits):
    function = lambda s, index: torch.nn.functional.embedding(index, dequantized(s, bits))
    index, given = torch.tensor([[0, 5], [2, 2]]), parts(bits)
    program = pack_weights(edge_of(function, index, **given))
    assert targets(program) == [torch.ops.edgecore.embedding_packed.default]
    sizes = [tensor.nbytes for tensor in (*program.state_dict.values(), *program.constants.values())]
    assert given["weight"].numel() * bits // 8 in sizes
    torch.testing.assert_close(
        program.module(check_guards=False)(index), given["weight"].float()[index] * given["scales"][index][..., None]
    )


def test_a_weight_that_is_no_constant_stays_as_it_is():
    function = lambda s, x, weight: (
        x + library.dequantize_per_channel(weight, s.scales, s.zeros, 0, -128, 127, torch.int8)
    )
    given = parts(8)
    weight, x = given.pop("weight"), torch.ones(6, 16)
    program = edge_of(function, x, weight, **given)
    before = targets(program)
    assert targets(pack_weights(program)) == before
    check(program, function, x, weight, **given)
