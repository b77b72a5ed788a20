"""Test rotary position embeddings: the forms that models use become one call, and others stay what they are."""

from __future__ import annotations

import pytest
import torch
from device_support import check_on_device
from vulkan_support import lowered


def halves(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def sliced_halves(x, cos, sin):
    width = x.shape[-1] // 2
    return (torch.cat((-x[..., width:], x[..., :width]), dim=-1) * sin) + (cos * x)


def neighbours(x, cos, sin):
    a, b = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def swapped(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([second, -first], -1) * sin


def mixed(x, cos, sin):
    a, b = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    return torch.stack([a * cos - b * sin, a * cos + b * sin], -1).flatten(-2)


@pytest.mark.parametrize("tables", [(5,), (2, 3, 5), ()], ids=str)
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (halves, "rotate_halves"),
        (sliced_halves, "rotate_halves"),
        (neighbours, "rotate_pairs"),
        (swapped, ""),
        (mixed, ""),
    ],
)
def test_embeddings_of_each_form(function, name, tables):
    x = torch.randn(2, 3, 5, 6)
    width = 6 if "halves" in function.__name__ or function is swapped else 3
    cos, sin = torch.randn(2, *tables, width)
    found = [call.partition(".")[0] for call in lowered(function, x, cos, sin, runtime="edgecore").calls]
    assert [call for call in found if call.startswith("rotate")] == ([name] if name else [])
    check_on_device(function, x, cos, sin, runtimes=["edgecore"], tolerance=1e-5)


@pytest.mark.parametrize("function", [halves, neighbours])
def test_embeddings_of_other_lengths_and_of_half_precision(function):
    width = 8 if function is halves else 4
    length = torch.export.Dim("length", min=2, max=9)

    def inputs(count):
        return torch.randn(1, count, 2, 8), *torch.randn(2, count, 1, width)

    check_on_device(
        function, *inputs(4), dynamic_shapes=(({1: length}, {0: length}, {0: length}),),
        others=[inputs(count) for count in (2, 9)], runtimes=["edgecore"],
    )  # fmt: skip
    check_on_device(function, *inputs(3), runtimes=["edgecore"], force_fp16=True, tolerance=1e-2)
