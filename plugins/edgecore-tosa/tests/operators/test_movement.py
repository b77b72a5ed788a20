"""Operators that move data, as TOSA graphs: the integers are exactly PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from tosa_lowered import CONFIGS, Call, graphs_of, quantized, random, run, run_all, run_float, run_real

from edgecore_tosa.schema import Op
from edgecore_tosa.spec import TosaSpec

IMAGE = random(2, 6, 8, 10)
ROWS = random(3, 6, 8)

MOVES = {
    "padding with zeros": (lambda x: functional.pad(x, (1, 2, 0, 3)), IMAGE),
    "padding with a number": (lambda x: functional.pad(x, (1, 2, 3, 0, 1, 0), value=0.7), IMAGE),
    "padding that cuts off": (lambda x: functional.pad(x, (-1, 2, 1, -3)), IMAGE),
    "padding by reflection": (lambda x: functional.pad(x, (1, 2, 2, 1), mode="reflect"), IMAGE),
    "padding by copies": (lambda x: functional.pad(x, (1, 2, 2, 1), mode="replicate"), IMAGE),
    "padding in a circle": (lambda x: functional.pad(x, (1, 2, 2, 1), mode="circular"), IMAGE),
    "split": (lambda x: torch.cat(torch.split(x, 4, 1)[::-1], 1), IMAGE),
    "split into sizes": (lambda x: torch.cat(torch.split(x, [1, 2, 5], -1)[::-1], -1), ROWS),
    "chunks": (lambda x: torch.cat(torch.chunk(x, 3, 2)[::-1], 2), IMAGE),
    "parts of equal size": (lambda x: torch.cat(torch.tensor_split(x, 3, 3)[::-1], 3), IMAGE),
    "select": (lambda x: x[:, -2], IMAGE),
    "slice": (lambda x: x[:, 1:-1, 2:7], IMAGE),
    "every second column": (lambda x: x[..., ::2], IMAGE),
    "every third row after the first": (lambda x: x[:, :, 1::3], IMAGE),
    "every third channel up to the last": (lambda x: x[:, 2::3], IMAGE),
    "steps beyond the end": (lambda x: x[:, :, 3::7], ROWS),
    "select of five dims": (lambda x: torch.relu(x[1]), random(2, 2, 6, 4, 5)),
    "slice of five dims": (lambda x: x[:, 1:, :, 2:4], random(2, 3, 4, 5, 3)),
    "select after a copy along a new dim": (lambda x: torch.relu(x.expand(2, *x.shape)[-1]), IMAGE),
    "select of six dims": (lambda x: torch.relu(x[:, 1, 0]), random(2, 2, 2, 3, 4, 5)),
    "expand": (lambda x: x[:, :1].expand(4, 3, 5, 8), ROWS),
    "stack": (lambda x: torch.stack([x[0], x[2], x[1]], 1), ROWS),
    "stack of images": (lambda x: torch.stack([x, x.flip(1)], 1), IMAGE),
    "unbind": (lambda x: torch.stack(torch.unbind(x, 1)[::-1], -1), ROWS),
    "repeat": (lambda x: x.repeat(2, 1, 3, 1), ROWS),
    "tile": (lambda x: x.tile(2), ROWS),
    "flip": (lambda x: x.flip((1, 3)), IMAGE),
    "roll": (lambda x: x.roll((1, -3), (2, 3)), IMAGE),
    "pixel shuffle": (lambda x: functional.pixel_shuffle(x[:, :4], 2), IMAGE),
    "pixel unshuffle": (lambda x: functional.pixel_unshuffle(x, 2), IMAGE),
    "channel shuffle": (lambda x: functional.channel_shuffle(x, 3), IMAGE),
    "rows by index": (lambda x: torch.index_select(x, 1, torch.tensor([4, 0, 1, 2, 2])), ROWS),
    "many columns by index": (lambda x: x[:, :, torch.arange(30) * 7 % 10], random(2, 6, 10)),
    "permute of six dims": (lambda x: x.permute(5, 1, 3, 0, 4, 2), random(2, 3, 2, 4, 3, 5)),
    "view of split channels": (lambda x: x.reshape(2, 3, 2, 80).permute(0, 2, 3, 1), IMAGE),
}


class AfterConvolution(nn.Module):
    """A function of an image between two convolutions, where it is (N, H, W, C) in memory."""

    def __init__(self, function, channels):
        super().__init__()
        self.before, self.after = nn.Conv2d(6, 6, 1), nn.Conv2d(channels, 5, 1)
        self.function = function

    def forward(self, x):
        return self.after(self.function(self.before(x)))


@pytest.mark.parametrize("config", CONFIGS)
def test_data_that_moves_keeps_its_integers(config):
    outcomes = run_all({name: (Call(function), (x,)) for name, (function, x) in MOVES.items()}, config)
    for name, outcome in outcomes.items():
        np.testing.assert_array_equal(outcome.numpy, outcome.simulator, name)
        np.testing.assert_array_equal(outcome.simulator, outcome.torch, name)
        assert np.unique(outcome.simulator).size > 15, name


TABLE = random(2, 50, 8)
INDICES = torch.tensor([[4, 0, 49], [7, 7, 1]], dtype=torch.int32)
GATHERED = {
    "an embedding": lambda: (nn.Embedding(50, 16), (INDICES,)),
    "rows by computed index": lambda: (Call(lambda x, i: torch.index_select(x, 1, i)), (TABLE, INDICES[0])),
    "a known index for each element": lambda: (
        Call(lambda x: torch.gather(x, 1, torch.arange(96).reshape(2, 6, 8) * 7 % 50)),
        (TABLE,),
    ),
    "many rows": lambda: (Call(lambda x: x[:, torch.arange(70) * 7 % 50]), (TABLE,)),
}


@pytest.mark.parametrize("config", CONFIGS)
def test_rows_are_gathered_by_their_indices(config):
    torch.manual_seed(0)
    for name, outcome in run_all({name: make() for name, make in GATHERED.items()}, config).items():
        np.testing.assert_array_equal(outcome.numpy, outcome.simulator, name)
        np.testing.assert_array_equal(outcome.simulator, outcome.torch, name)
        assert Op.GATHER in {operator.op for operator in outcome.graph.operators}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("an embedding", "its indices are not known when compiling, and the target has no GATHER"),
        ("a known index for each element", "Ethos-U55 and U65 lack this operator"),
        ("many rows", "its indices need 70 slices, more than 64, and the target has no GATHER"),
    ],
)
def test_a_target_without_gather_gives_its_reason(name, reason):
    model, inputs = GATHERED[name]()
    _, edge = graphs_of(quantized(model, inputs, CONFIGS["int8"]()), TosaSpec.parse("TOSA-1.0+INT+u55"))
    assert reason in str(edge.report())


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torch.gather(x, 1, (x[:, :2] > 0).long()), "its indices are not known when compiling"),
        (lambda x: x[torch.tensor([0, 1]), torch.tensor([2, 3])], "not one list of indices"),
        (lambda x: x.roll(3), "no dims"),
        (lambda x: functional.pixel_shuffle(x[None], 2), "an input with 5 dims, more than 4"),
        (lambda x: functional.pad(x, (1, 1), value=1e6), "a border of 1000000.0, beyond the integers of its input"),
    ],
)
def test_other_moves_have_a_reason(function, reason):
    library = torch.ops.quantized_decomposed

    def move(x):
        integers = library.quantize_per_tensor(x, 0.1, 3, -128, 127, torch.int8)
        return function(library.dequantize_per_tensor(integers, 0.1, 3, -128, 127, torch.int8)).neg()

    program = torch.export.export(Call(move), (random(2, 8, 8, 10),))
    _, edge = graphs_of(program)
    assert reason in str(edge.report())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_real_numbers_that_move_are_the_same(dtype):
    cases = {name: (Call(function), (x.to(dtype),)) for name, (function, x) in MOVES.items()}
    for name, outcome in run_real(cases).items():
        np.testing.assert_array_equal(outcome.numpy, outcome.simulator, name)
        np.testing.assert_array_equal(outcome.simulator, outcome.torch, name)


@pytest.mark.parametrize(
    ("name", "transposes"),
    [
        ("padding with a number", 2), ("padding by reflection", 2), ("chunks", 2), ("every second column", 2),
        ("every third channel up to the last", 2), ("flip", 2), ("roll", 2), ("pixel unshuffle", 3),
        ("pixel shuffle", 3), ("channel shuffle", 3),
    ],
)  # fmt: skip
def test_images_are_transposed_only_where_pixels_and_channels_mix(name, transposes):
    function, x = MOVES[name]
    torch.manual_seed(0)
    outcome = run(AfterConvolution(function, function(x).shape[1]), (x,), "int8")
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.steps.max() <= 1
    assert [operator.op for operator in outcome.graph.operators].count(Op.TRANSPOSE) == transposes


@pytest.mark.parametrize("function", [lambda x: x[:, None], lambda x: x[:, :, None], lambda x: x.view(3, 1, 2, 4)])
def test_a_view_with_a_new_dim_is_one_reshape(function):
    outcome = run_float(Call(lambda x: function(torch.relu(x))), (random(3, 8),))
    np.testing.assert_array_equal(outcome.simulator, outcome.torch)
    assert [operator.op for operator in outcome.graph.operators].count(Op.RESHAPE) == 1


FILLED = {
    "with a constant mask of channels": lambda x: x.masked_fill(torch.tensor([True, False] * 4)[:, None, None], 0.5),
    "with a constant mask of columns": lambda x: x.masked_fill(torch.arange(10) > 6, -3.0),
    "with a constant mask after a convolution": lambda x: functional.avg_pool2d(x, 2).masked_fill(
        torch.ones(5) > 0, 1.0
    ),
}


@pytest.mark.parametrize("spec", ["TOSA-1.0+INT+int16", "TOSA-1.0+INT+int16+u55"])
@pytest.mark.parametrize("config", CONFIGS)
def test_elements_that_a_mask_sets_to_a_number_have_the_integers_of_pytorch(config, spec):
    cases = {name: (Call(function), (random(2, 8, 8, 10),)) for name, function in FILLED.items()}
    if "u55" not in spec:
        cases["with a computed mask"] = (Call(lambda x: x.masked_fill(x > 0.5, 0.25)), (random(2, 8, 8, 10),))
    outcomes = run_all(cases, config, TosaSpec.parse(spec))
    for name, outcome in outcomes.items():
        np.testing.assert_array_equal(outcome.numpy, outcome.simulator, name)
        assert outcome.steps.max() <= 1, name
    lacks = {operator.op for operator in outcomes["with a constant mask of columns"].graph.operators}
    assert (Op.SELECT in lacks) == ("u55" not in spec)
