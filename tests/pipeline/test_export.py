"""Errors of torch.export as one sentence about the user's own arguments and lines, and what to do."""

import pytest
import torch
from edge_programs import Function
from torch import nn
from torch.export import Dim

import edgecore
from edgecore.errors import CompileError

N = Dim("n", min=2, max=100)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(4, 5, bidirectional=True, batch_first=True)

    def forward(self, tokens):
        return self.encoder(tokens)[0]


class Masked(nn.Module):
    def forward(self, tokens, mask, scale=1.0):
        return tokens * mask * scale


class Audio(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 10, stride=5)

    def forward(self, audio):
        x = self.conv(audio)
        return x * 2 if x.shape[-1] % 2 == 0 else x


class Detector(nn.Module):
    def forward(self, boxes, scores):
        kept = boxes[scores > 0.5]
        if kept.shape[0] > 3:
            kept = kept[:3]
        return kept


def refusal(model, inputs, shapes=None):
    with pytest.raises(CompileError) as raised:
        edgecore.compile(model.eval(), inputs, dynamic_shapes=shapes)
    text = str(raised.value)
    assert "\n" not in text and len(text) < 600 and "the model must change" not in text
    return text


def test_a_length_that_a_recurrent_layer_fixes_is_explained():
    text = refusal(Tagger(), (torch.randn(2, 7, 4),), ({1: N},))
    assert (
        "dim 1 of 'tokens' (n) is always 7 in this model (torch.export unrolls recurrent layers such as 'encoder')"
        in text
    )
    assert "leave it out of dynamic_shapes" in text


def test_a_size_that_the_code_fixes_is_explained():
    text = refusal(Function(lambda x: x.view(2, 6)), (torch.randn(3, 4),), {"x": {0: N}})
    assert "dim 0 of 'x' (n) is always 3 in this model, so leave it out of dynamic_shapes" in text


def test_sizes_that_must_be_equal_are_named_with_the_dynamic_shapes_to_use():
    shapes = {"tokens": {0: N}, "mask": {0: Dim("m", max=50)}}
    text = refusal(Masked(), (torch.randn(3, 4), torch.randn(3, 4)), shapes)
    assert "m = mask.shape[0] and n = tokens.shape[0] must always be equal" in text
    assert text.endswith("use in dynamic_shapes: n = Dim('n', max=50); m = n")


def test_sizes_that_must_be_multiples_are_named_with_the_dynamic_shapes_to_use():
    text = refusal(Function(lambda x: x.view(-1, 4)), (torch.randn(8),), ({0: N},))
    assert "dim 0 of 'x' (n) must satisfy (x.shape[0] % 4) == 0" in text
    assert text.endswith("use in dynamic_shapes: _n = Dim('_n', min=1, max=25); n = 4*_n")


def test_a_range_that_is_too_wide_is_reported_with_one_that_fits():
    text = refusal(Function(lambda x: x + 1 if x.shape[0] > 4 else x), (torch.randn(8),), ({0: N},))
    assert text.endswith("use in dynamic_shapes: n = Dim('n', min=5, max=100)")


def test_a_condition_for_which_torch_suggests_nothing_is_quoted():
    text = refusal(Audio(), (torch.randn(1, 1, 1000),), ({2: Dim("samples", min=400, max=16000)},))
    assert "dim 2 of 'audio' (samples) must satisfy" in text and "audio.shape[2] // 5" in text


def test_a_choice_by_the_content_of_a_tensor_is_reported_with_its_line_and_a_remedy():
    text = refusal(Detector(), (torch.randn(10, 4), torch.rand(10)))
    assert (
        f"at {__file__}:{Detector.forward.__code__.co_firstlineno + 2} the model branches on the content of a tensor"
        in text
    )
    assert "torch.where or torch.cond" in text and "in the application" in text


def test_an_example_of_size_1_for_a_dynamic_dim_is_refused():
    text = refusal(Function(lambda x: x * 2), (torch.randn(1, 4),), ({0: Dim("n", max=9)},))
    assert (
        "dim 0 of 'x' (n) is 1 in the example, which torch treats as a constant; use an example of size 2 or more"
        in text
    )


@pytest.mark.parametrize(
    ("shapes", "sentence"),
    [
        ({"tokens": {5: N}}, "dynamic_shapes: 'tokens' has no dim 5; the example has the shape (3, 4)"),
        (
            ({0: Dim("n", min=9, max=20)}, None),
            "dim 0 of 'tokens' is 3 in the example, which is not between the bounds 9 and 20",
        ),
        (({0: N},), "dynamic_shapes does not match the inputs: "),
        ({"tokens": {0: N}, "masks": {0: N}}, "dynamic_shapes does not match the inputs: "),
    ],
)
def test_dynamic_shapes_that_do_not_fit_the_inputs_are_explained(shapes, sentence):
    assert sentence in refusal(Masked(), (torch.randn(3, 4), torch.randn(3, 4)), shapes)


def test_inputs_that_forward_does_not_accept_are_reported_with_its_signature():
    text = refusal(Masked(), (torch.randn(3, 4),))
    assert text.startswith("Masked.forward(tokens, mask, scale=1.0) does not accept the example inputs (1 positional)")


def test_an_exception_of_the_model_names_its_line():
    def fails(x):
        raise LookupError("no such row\nin the table")

    text = refusal(Function(fails), (torch.randn(3),))
    line = fails.__code__.co_firstlineno + 1
    assert f"Function: at {__file__}:{line} the model raised LookupError: no such row. If the model runs" in text


TOKENS, MASK = torch.arange(6.0).reshape(2, 3), torch.tensor([[1.0, 0.0, 2.0], [1.0, 1.0, 0.0]])


@pytest.mark.parametrize(
    ("inputs", "kwargs"),
    [
        ({"mask": MASK, "tokens": TOKENS}, None),
        ((TOKENS,), {"mask": MASK}),
        (None, {"mask": MASK, "tokens": TOKENS}),
        ({"tokens": TOKENS}, {"mask": MASK}),
    ],
)
def test_example_inputs_may_be_given_by_keyword(inputs, kwargs):
    program = edgecore.compile(
        Masked().eval(), inputs, example_kwargs=kwargs, dynamic_shapes={"tokens": {0: N}, "mask": {0: N}}
    )
    method = edgecore.load(program.buffer).forward
    torch.testing.assert_close(method(TOKENS, MASK), TOKENS * MASK)
    wide = torch.ones(5, 3)
    torch.testing.assert_close(method(wide, wide * 2), wide * 2)


def test_example_inputs_of_several_methods_may_be_given_by_keyword():
    program = edgecore.compile(
        {"forward": Masked().eval(), "twice": Function(lambda x: x * 2).eval()},
        {"forward": {"mask": MASK, "tokens": TOKENS}, "twice": (MASK,)},
    )
    model = edgecore.load(program.buffer)
    torch.testing.assert_close(model.forward(TOKENS, MASK), TOKENS * MASK)
    torch.testing.assert_close(model.twice(MASK), MASK * 2)


def test_a_wrapper_around_a_model_in_eval_mode_is_compiled_in_eval_mode():
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return nn.functional.dropout(self.inner(x), training=self.training)

    wrapper, x = Wrapper(nn.Linear(3, 3).eval()), torch.ones(1, 3)
    method = edgecore.load(edgecore.compile(wrapper, (x,)).buffer).forward
    torch.testing.assert_close(method(x), wrapper.inner(x))
    assert wrapper.training
    with pytest.raises(CompileError, match="Wrapper is in training mode"):
        edgecore.compile(Wrapper(nn.Linear(3, 3)), (x,))


@pytest.mark.parametrize("wrap", [lambda module: module, nn.Sequential], ids=["itself", "inside another"])
def test_a_module_that_torch_exported_is_compiled_without_a_look_at_its_mode(wrap):
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Dropout()).eval(), torch.ones(1, 3)
    exported = wrap(torch.export.export(model, (x,)).module())
    method = edgecore.load(edgecore.compile(exported, (x,)).buffer).forward
    torch.testing.assert_close(method(x), model(x))


def test_a_traced_module_in_training_mode_is_refused():
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.Dropout()))
    with pytest.raises(CompileError, match="is in training mode"):
        edgecore.compile(traced, (torch.ones(1, 3),))
    edgecore.compile(traced.eval(), (torch.ones(1, 3),))
