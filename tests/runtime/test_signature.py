"""Inputs have names, and what does not fit the exported model is refused before anything runs."""

from __future__ import annotations

import gc
import inspect

import numpy as np
import pytest
import torch
from torch.export import Dim

import edgecore
from edgecore import format as fmt
from edgecore.errors import ExecutionError, FormatError
from edgecore.runtime.nesting import leaves


class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x, y):
        return self.linear(x) + self.linear(y)


class Cached(torch.nn.Module):
    def forward(self, x, mask, past, flag=None, *, scale):
        return {"logits": x * scale + past[0]["key"], "more": (x * mask, x + 1)}


class Windows(torch.nn.Module):
    def forward(self, x, y):
        return x.view(-1, 8).sum(1) + y[1:]


def ones(*shape):
    return np.ones(shape, np.float32)


def load(program):
    return edgecore.load(program.buffer)


@pytest.fixture(scope="module")
def pair():
    batch = Dim("b", min=4, max=8)
    inputs = (torch.randn(5, 6), torch.randn(5, 6))
    return edgecore.compile(Pair().eval(), inputs, dynamic_shapes=({0: batch}, {0: batch}))


@pytest.fixture(scope="module")
def windows():
    size = Dim("s", min=2, max=10)
    return edgecore.compile(
        Windows().eval(), (torch.randn(40), torch.randn(6)), dynamic_shapes=({0: 8 * size}, {0: size + 1})
    )


@pytest.fixture(scope="module")
def cached():
    inputs = (torch.ones(2, 3), torch.ones(2, 3), [{"key": torch.ones(2, 3)}])
    return edgecore.compile(torch.export.export(Cached().eval(), inputs, {"scale": torch.ones(3)}))


def refused(method, *inputs, **named):
    with pytest.raises(ExecutionError) as raised:
        method(*inputs, **named)
    assert not isinstance(raised.value, FormatError)
    return str(raised.value)


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        ((5, 3), (5, 6), "Input 'x' (0) of method 'forward': dim 1 must be 6, got 3 (shape [5, 3])."),
        ((5, 6), (5, 7), "Input 'y' (1) of method 'forward': dim 1 must be 6, got 7 (shape [5, 7])."),
        ((1, 6), (1, 6), "Input 'x' (0) of method 'forward': dim 0 ('b') must be 4 to 8, got 1 (shape [1, 6])."),
        ((12, 6), (5, 6), "Input 'x' (0) of method 'forward': dim 0 ('b') must be 4 to 8, got 12 (shape [12, 6])."),
        ((5, 6), (6, 6), "Input 'y' (1) of method 'forward': dim 0 ('b') must be 5, because dim 0 ('b') of input 'x' is 5; got 6."),
        ((6,), (5, 6), "Input 'x' (0) of method 'forward' must have 2 dims (at most [8, 6]), got shape [6]."),
    ],
)  # fmt: skip
def test_a_wrong_size_names_input_dim_what_is_allowed_and_what_came(pair, x, y, sentence):
    method = load(pair).forward
    assert refused(method, ones(*x), ones(*y)) == sentence
    assert method(ones(5, 6), ones(5, 6)).shape == (5, 4)  # the method still works


def test_sizes_that_are_multiples_of_one_symbol_go_together(windows):
    method = load(windows).forward
    assert method(ones(32), ones(5)).shape == (4,)
    assert "dim 0 ('8*s') must be 16 to 80 and a multiple of 8, got 20" in refused(method, ones(20), ones(4))
    assert "dim 0 ('s + 1') must be 5, because dim 0 ('8*s') of input 'x' is 32; got 6" in refused(
        method, ones(32), ones(6)
    )
    assert "dim 0 ('s + 1') must be 3 to 11, got 12" in refused(method, ones(32), ones(12))


def test_a_wrong_input_of_a_run_that_does_not_wait_is_refused_too(pair):
    with pytest.raises(ExecutionError, match=r"dim 0 \('b'\) must be 5, because"):
        load(pair).forward.start(ones(5, 6), y=ones(6, 6)).wait()


def test_a_size_that_must_be_a_multiple_is_checked_without_a_name_as_well():
    class Fold(torch.nn.Module):
        def forward(self, x):
            return x.view(-1, 8).sum(1)

    program = edgecore.compile(Fold().eval(), (torch.randn(40),), dynamic_shapes=({0: Dim.AUTO(max=83)},))
    method = load(program).forward
    (dim,) = method.inputs[0].dims
    assert (dim.name, dim.max, method.inputs[0].shape) == ("8*s0", 80, (83,))
    assert method(ones(80)).shape == (10,)
    assert "and a multiple of 8, got 83" in refused(method, ones(83))


def test_a_size_of_several_symbols_is_checked_against_its_range_only():
    class Join(torch.nn.Module):
        def forward(self, z, x, y):
            return torch.cat([x, y]) + z

    size = Dim.AUTO(max=10)
    program = edgecore.compile(
        Join().eval(), (torch.randn(7), torch.randn(4), torch.randn(3)), dynamic_shapes=({0: Dim.AUTO(max=30)}, {0: size}, {0: size})
    )  # fmt: skip
    method = load(program).forward
    assert [repr(info) for info in method.inputs] == [
        "TensorInfo('z', float32 [s0 + s1: 0..20])",
        "TensorInfo('x', float32 [s0: 0..10])",
        "TensorInfo('y', float32 [s1: 0..10])",
    ]
    assert method(ones(8), ones(5), ones(3)).shape == (8,)


def test_a_minimum_that_torch_only_assumed_is_not_checked():
    program = edgecore.compile(torch.nn.ReLU().eval(), (torch.randn(5, 3),), dynamic_shapes=({0: Dim.AUTO(max=9)},))
    assert load(program).forward(ones(1, 3)).shape == (1, 3)


def test_each_method_has_its_own_sizes():
    small, large = Dim("n", min=2, max=4), Dim("n", min=5, max=9)
    relu = torch.nn.ReLU().eval()
    model = load(
        edgecore.compile(
            {"small": relu, "large": relu, "fixed": relu},
            {name: (torch.randn(size),) for name, size in (("small", 3), ("large", 6), ("fixed", 3))},
            dynamic_shapes={"small": ({0: small},), "large": ({0: large},), "fixed": None},
        )
    )
    assert "must be 2 to 4, got 6" in refused(model.small, ones(6))
    assert "must be 5 to 9, got 3" in refused(model.large, ones(3))
    assert "dim 0 must be 3, got 4 (shape [4])" in refused(model.fixed, ones(4))
    assert repr(model) == "<edgecore.Program small(input), large(input), fixed(input)>"


def test_sizes_of_a_file_without_metadata_are_checked_against_upper_bounds_only(pair):
    pte = fmt.read_pte(pair.buffer)
    del pte.named_data[fmt.META_KEY]
    method = edgecore.load(fmt.write_pte(pte)).forward
    assert [info.name for info in method.inputs] == ["", ""]
    assert repr(method.inputs[0]) == "TensorInfo('', float32 [0..8, 0..6])"
    assert method(ones(1, 6), ones(1, 6)).shape == (1, 4)
    assert refused(method, ones(9, 6), ones(9, 6)) == (
        "Input 0 of method 'forward': dim 0 must be at most 8, got 9 (shape [9, 6])."
    )
    assert "the file holds no names of inputs" in refused(method, x=ones(4, 6), y=ones(4, 6))


def test_names_of_inputs_are_those_of_parameters_keys_and_paths(cached):
    method = load(cached).forward
    assert [info.name for info in method.inputs] == ["x", "mask", "past[0].key", "scale"]
    assert [info.name for info in method.outputs] == ["logits", "more[0]", "more[1]"]


def test_outputs_without_keys_are_numbered():
    class Several(torch.nn.Module):
        def forward(self, x):
            return x + 1, {"twice": x * 2, "back": [x - 1]}

    method = load(edgecore.compile(Several().eval(), (torch.ones(2),))).forward
    assert [info.name for info in method.outputs] == ["output_0", "output_1.twice", "output_1.back[0]"]


def test_inputs_by_keyword_give_the_same_as_by_position(cached):
    method = load(cached).forward
    given = {"x": ones(2, 3) * 2, "mask": ones(2, 3) * 3, "past[0].key": ones(2, 3) * 4, "scale": ones(3) * 5}
    expected = method(*given.values())
    for positional in range(5):
        names = list(given)
        first = [given[name] for name in names[:positional]]
        rest = {name: given[name] for name in reversed(names[positional:])}
        for result, wanted in zip(leaves(method(*first, **rest)), leaves(expected), strict=True):
            np.testing.assert_array_equal(result, wanted)
        np.testing.assert_array_equal(method.start(*first, **rest).wait()["logits"], expected["logits"])


def test_none_that_the_export_fixed_may_be_left_out_of_named_inputs():
    class Optional(torch.nn.Module):
        def forward(self, x, mask=None):
            return x + 1 if mask is None else x * mask

    method = load(edgecore.compile(torch.export.export(Optional().eval(), (torch.ones(2), None)))).forward
    np.testing.assert_array_equal(method(x=ones(2)), [2, 2])
    np.testing.assert_array_equal(method(ones(2), None), [2, 2])


def test_a_wrong_name_of_an_input_is_one_sentence(pair):
    method, x = load(pair).forward, ones(5, 6)
    assert refused(method, x, z=x) == "Method 'forward' has no input 'z'; it takes 'x', 'y'."
    assert refused(method, x, x=x) == "Input 'x' (0) of method 'forward' was given by position and by keyword."
    assert refused(method, y=x) == "Method 'forward' was not given 'x'."
    assert refused(method, out=[x], x=x) == "Method 'forward' was not given 'y'."
    assert refused(method, x, x, x, x=x) == "Method 'forward' takes 2 inputs; got 3."


def test_the_only_output_buffer_needs_no_list(pair):
    method, x = load(pair).forward, ones(5, 6)
    expected = method(x, x)
    out = np.zeros((5, 4), np.float32)
    assert method(x, x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert method(x=x, y=x, out=[out]) is out
    assert "must be float32 [8, 4]; got float32 [5, 5]" in refused(method, x, x, out=ones(5, 5))


def test_dims_have_name_minimum_and_maximum(pair):
    x = load(pair).forward.inputs[0]
    assert [(dim.name, dim.min, dim.max) for dim in x.dims] == [("b", 4, 8), ("", 6, 6)]
    assert x.shape == (8, 6)
    assert [repr(dim) for dim in x.dims] == ["DimInfo(b: 4..8)", "DimInfo(6)"]


def test_the_repr_of_a_method_shows_its_inputs_and_outputs(pair):
    model = load(pair)
    description = "forward(x: float32 [b: 4..8, 6], y: float32 [b: 4..8, 6]) -> output_0: float32 [b: 4..8, 4]"
    assert repr(model.forward) == f"<edgecore.Method {description}>"
    assert repr(model) == "<edgecore.Program forward(x, y)>"
    assert list(inspect.signature(model.forward).parameters) == ["x", "y", "out"]


def test_a_description_outlives_its_model(pair):
    inputs = load(pair).forward.inputs
    dims = inputs[1].dims
    gc.collect()
    assert repr(inputs) == "(TensorInfo('x', float32 [b: 4..8, 6]), TensorInfo('y', float32 [b: 4..8, 6]))"
    assert dims[0].name == "b"
