"""`--input-shape`: example inputs of other shapes, and one clear error for each wrong one."""

from __future__ import annotations

import pytest
import torch
from command_line import one_sentence

from edgecore.cli.models import load_model

SOURCE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 4)
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, tokens, scale, factor=1.0):
        return self.linear(self.table(tokens)) * scale * factor

def net():
    return Net().eval(), (torch.arange(0, 48, 3)[None], torch.ones(1, 1, 2))

def by_name():
    return Net().eval(), {"tokens": torch.arange(0, 48, 3)[None], "scale": torch.ones(1, 1, 2)}

def exported():
    return torch.export.export(*net()), None
"""


@pytest.fixture(autouse=True)
def models(module):
    module(SOURCE)


def shapes_of(inputs):
    values = inputs.values() if isinstance(inputs, dict) else inputs
    return [tuple(value.shape) for value in values]


@pytest.mark.parametrize("name", ["net", "by_name"])
def test_shapes_are_given_in_order_or_by_name_and_other_inputs_stay(name):
    model = f"my_model_file:{name}"
    assert shapes_of(load_model(model, ["2x7", "2x1x2"])[1]) == [(2, 7), (2, 1, 2)]
    assert shapes_of(load_model(model, ["scale=1"])[1]) == [(1, 16), (1,)]
    assert shapes_of(load_model(model, ["3,5"])[1]) == [(3, 5), (1, 1, 2)]
    assert shapes_of(load_model(model)[1]) == [(1, 16), (1, 1, 2)]


def test_new_inputs_have_the_dtype_and_the_range_of_the_example():
    _, (tokens, scale), _ = load_model("my_model_file:net", ["4x100", "4x1x2"])
    assert tokens.dtype == torch.int64 and 0 <= int(tokens.min()) and 30 < int(tokens.max()) < 50
    assert scale.dtype == torch.float32 and scale.unique().numel() == 8
    assert torch.equal(tokens, load_model("my_model_file:net", ["4x100", "4x1x2"])[1][0]), "random, but always the same"


def test_the_program_has_the_shapes_of_the_command_line(edgecore, tmp_path):
    done = edgecore("compile", "my_model_file:net", "--input-shape", "1x9", "-o", "net.pte")
    assert done.status == 0, done.err
    assert "[1, 9]" in edgecore("inspect", "net.pte").out
    bundled = edgecore("bundle", "my_model_file:net", "net.pte", "--input-shape", "1x9")
    assert bundled.status == 0, bundled.err


@pytest.mark.parametrize("text", ["1x0", "x", "1x-3", "tokens=", "1x3x", "a,b", "tokens:1x3"])
def test_a_text_that_is_no_shape_is_wrong_usage_before_the_model_is_loaded(edgecore, text):
    done = edgecore("compile", "no_such_module:net", "--input-shape", text)
    assert done.status == 2 and "--input-shape" in done.err and f"{text!r} is not [NAME=]SHAPE" in done.err


def test_an_input_that_the_model_lacks_or_rejects_is_one_sentence(edgecore):
    def compile(name, *shapes):
        return edgecore(
            "compile", f"my_model_file:{name}", *(word for shape in shapes for word in ("--input-shape", shape))
        )

    one_sentence(compile("net", "image=1x3"), "--input-shape", "has no input 'image'", "its tensors are tokens, scale")
    one_sentence(compile("net", "1x2", "1", "1x9"), "--input-shape", "has no further input")
    one_sentence(
        compile("net", "scale=1x3"), "does not accept the input shape tokens=1x16, scale=1x3", "size of tensor"
    )
    one_sentence(compile("exported", "1x2"), "was exported with fixed shapes", "export it again")
