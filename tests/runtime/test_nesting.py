"""Arguments and results of methods have the containers of the model."""

import gc
import weakref
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import edgecore
from edgecore import format as fmt
from edgecore.errors import ExecutionError
from edgecore.runtime.nesting import leaves


class Batch(nn.Module):
    def forward(self, batch, *, scale):
        y = batch["x"] * scale + batch["pair"][1] - batch["pair"][0]
        return {"y": y, "parts": (y + 1, [y * 2, OrderedDict(b=y * 3, a=y * 4)])}


X, FIRST, SECOND, SCALE = (torch.randn(3) for _ in range(4))
BATCH = {"x": X, "pair": [FIRST, SECOND]}


@pytest.fixture(scope="module")
def method():
    program = edgecore.compile(Batch().eval(), (BATCH,), example_kwargs={"scale": SCALE})
    return edgecore.load(program).forward


def test_dicts_and_lists_come_back_as_the_model_returns_them(method):
    expected = Batch()(BATCH, scale=SCALE)
    got = method(BATCH, scale=SCALE)
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert type(got["parts"]) is tuple and type(got["parts"][1][1]) is OrderedDict
    assert list(got["parts"][1][1]) == ["b", "a"]
    for other in (
        method(batch={"pair": (FIRST, SECOND), "x": X}, scale=SCALE),
        method(BATCH, SCALE),
        method.start(BATCH, scale=SCALE).wait(),
        method(X, FIRST, SECOND, SCALE),
        method(X, scale=SCALE, **{"batch.pair[1]": SECOND, "batch.pair[0]": FIRST}),
    ):
        torch.testing.assert_close(other, expected, rtol=0, atol=0)
    arrays = method({"x": X.numpy(), "pair": [FIRST.numpy(), SECOND.numpy()]}, scale=SCALE.numpy())
    assert isinstance(arrays["parts"][1][0], np.ndarray)


def test_buffers_in_out_are_the_items_of_nested_results(method):
    out = [torch.zeros(3) for _ in method.outputs]
    got = method(BATCH, scale=SCALE, out=out)
    assert got["y"] is out[0] and got["parts"][1][1]["a"] is out[4]
    torch.testing.assert_close(out[0], Batch()(BATCH, scale=SCALE)["y"])


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((BATCH,), {}, "Method 'forward' was not given 'scale'."),
        (({"x": X},), {}, "'batch' of method 'forward' must be a dict or dataclass with 'x', 'pair', as at export; "
            "'pair' is missing."),
        (({**BATCH, "z": X},), {}, "'batch' of method 'forward' must be a dict or dataclass with 'x', 'pair', as at "
            "export; got 'z' too."),
        (({"x": X, "pair": [FIRST]},), {}, "'batch.pair' of method 'forward' must be a list or tuple of 2, as at export; "
            "got 1."),
        (({"x": X, "pair": {"a": X}},), {}, "'batch.pair' of method 'forward' must be a list or tuple of 2, as at "
            "export; got dict."),
        (([X],), {}, "'batch' of method 'forward' must be a dict or dataclass with 'x', 'pair', as at export; got list."),
        ((BATCH,), {"scal": X}, "Method 'forward' has no argument 'scal'; it takes 'batch', 'scale'."),
        ((BATCH,), {"batch": X}, "Argument 'batch' of method 'forward' was given by position and by keyword."),
        ((BATCH, X, X, X), {}, "Method 'forward' takes 'batch', 'scale'; got 4 arguments."),
    ],
)  # fmt: skip
def test_other_containers_than_at_export_are_one_sentence(method, args, named, message):
    with pytest.raises(ExecutionError) as error:
        method(*args, **named)
    assert str(error.value) == message


Pair = namedtuple("Pair", "first second")


@dataclass
class Sizes:
    width: torch.Tensor
    name: dict


torch.export.register_dataclass(Sizes)


class Records(nn.Module):
    def forward(self, pair, sizes, unused):
        return {"sum": pair.first + pair.second * sizes.width, "key": sizes.name["a b"]}


def test_fields_of_tuples_and_dataclasses_and_any_keys_are_inputs():
    given = (Pair(X, FIRST), Sizes(SECOND, {"a b": SCALE}), {})
    program = edgecore.load(edgecore.compile(Records().eval(), given))
    expected = Records()(*given)
    torch.testing.assert_close(program.forward(*given), expected)
    torch.testing.assert_close(program.new_session().forward(*given), expected)
    outputs = edgecore.runtime.Runtime.get().load_program(edgecore.compile(Records().eval(), given).buffer)
    torch.testing.assert_close(outputs.load_method("forward").execute(given), list(expected.values()))


@pytest.mark.parametrize("first", [[X], [Pair(X, {})]])
def test_an_argument_that_was_empty_at_export_is_no_other_one(first):
    class First(nn.Module):
        def forward(self, first, empty, second, *, last=()):
            one = first[0]
            return (one if isinstance(one, torch.Tensor) else one.first) - second[0]

    forward = edgecore.load(
        edgecore.compile(First().eval(), (first, [], [SECOND]), example_kwargs={"last": ()})
    ).forward
    for got in (forward(first, [], [SECOND]), forward(first, {}, [SECOND], last=[]), forward(first, second=[SECOND])):
        torch.testing.assert_close(got, X - SECOND, rtol=0, atol=0)
    with pytest.raises(ExecutionError, match="Argument 1 of method 'forward' must be empty, as at export"):
        forward(first, [SECOND])
    with pytest.raises(ExecutionError, match="'first' of method 'forward' must be a list or tuple of 1, .*; got 0"):
        forward([], [], [SECOND])
    with pytest.raises(ExecutionError, match="no argument 'lst'"):
        forward(first, [], [SECOND], lst=[X])


class Numbered(nn.Module):
    def forward(self, numbered, gaps):
        return {3: numbered[1] - numbered[2], "gap": gaps[0] - gaps[2]}


def test_keys_that_are_numbers_and_empty_items_of_lists():
    given = {1: X, 2: FIRST}, [SECOND, {}, SCALE]
    forward = edgecore.load(edgecore.compile(Numbered().eval(), given)).forward
    torch.testing.assert_close(forward(*given), Numbered()(*given), rtol=0, atol=0)
    for other, message in (
        (({1: X}, given[1]), "'numbered' of method 'forward' must be a list, tuple or dict with 1, 2, as at export; "
         "2 is missing."),
        ((given[0], [SECOND, {"a": X}, SCALE]), "'gaps' of method 'forward' must be a list, tuple or dict with 0, 2, as "
         "at export; got 1 too."),
        ((given[0], X), "'gaps' of method 'forward' must be a list, tuple or dict with 0, 2, as at export; got Tensor."),
    ):  # fmt: skip
        with pytest.raises(ExecutionError) as error:
            forward(*other)
        assert str(error.value) == message


@dataclass(slots=True)
class Optional:
    width: torch.Tensor
    height: torch.Tensor | None = None


torch.export.register_dataclass(Optional)


class Area(nn.Module):
    def forward(self, sizes):
        return sizes.width if sizes.height is None else sizes.width * sizes.height


def test_dataclasses_may_have_slots_and_fields_that_are_none():
    forward = edgecore.load(edgecore.compile(Area().eval(), (Optional(X),))).forward
    torch.testing.assert_close(forward(Optional(X)), X)
    with pytest.raises(ExecutionError, match="got 'height' too"):
        forward(Optional(X, X))
    with pytest.raises(ExecutionError, match="must be a tensor .*; got type"):
        forward(Optional)  # the class itself


def test_a_container_that_contains_itself_is_one_sentence(method):
    endless: list = []
    endless.append(endless)
    for args in ((endless, X), ({**BATCH, "z": endless}, X)):
        with pytest.raises(ExecutionError, match="nested too deeply, or contains itself"):
            method(*args)


def test_a_method_with_containers_is_freed_with_its_program():
    gc.collect()
    program = edgecore.load(edgecore.compile(Batch().eval(), (BATCH,), example_kwargs={"scale": SCALE}))
    run = program.forward.start(BATCH, scale=SCALE)
    run.wait()
    freed = weakref.ref(program)
    gc.disable()
    try:
        del program, run
        assert freed() is None
    finally:
        gc.enable()


class OneKey(nn.Module):
    def forward(self, x):
        return {"y": x + 1}


def test_a_dict_of_one_output_stays_a_dict():
    forward = edgecore.load(edgecore.compile(OneKey().eval(), (X,))).forward
    torch.testing.assert_close(forward(X), {"y": X + 1})
    torch.testing.assert_close(forward.start(X).wait(), {"y": X + 1})
    assert leaves({"a": [1, (2,)], "b": 3}) == [1, 2, 3]


@pytest.mark.parametrize(
    "text",
    [
        '[1, {"type": "builtins.dict", "context": "[\\"y\\", \\"z\\"]", "children_spec": []}]',
        '[1, {"type": "builtins.dict", "context": "[[1]]", "children_spec": [{"type": null, "context": null}]}]',
        '[1, {"type": "os.system", "context": "[\\"y\\"]", "children_spec": []}]',
        '[2, {"type": "builtins.dict", "context": "[", "children_spec": []}]',
        '"context": "[' + "[" * 100_000,
        "",
    ],
)
def test_containers_that_do_not_fit_leave_the_outputs_flat(text):
    file = fmt.read_pte(edgecore.compile(OneKey().eval(), (X,)).buffer)
    plan = file.program.execution_plan[0]
    plan.container_meta_type = fmt.ContainerMetadata(plan.container_meta_type.encoded_inp_str, text)
    torch.testing.assert_close(edgecore.load(fmt.write_pte(file)).forward(X), X + 1)
