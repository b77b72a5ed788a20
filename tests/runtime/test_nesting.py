"""Arguments and results of methods have the containers of the model."""

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
