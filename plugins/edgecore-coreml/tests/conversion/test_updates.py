"""Writing a part of a tensor, and a key-value cache: as states of Core ML, and as inputs and outputs of the delegate."""

from __future__ import annotations

import sys

import pytest
import torch

import edgecore
from edgecore.format import read_pte
from edgecore_coreml.compiler import CoreMLCompiler
from edgecore_coreml.package.files import unpack
from edgecore_coreml_standin.interpreter import StandIn

X, ROWS, I = torch.randn(3, 4, 5), torch.randn(3, 2, 5), torch.tensor([-1, 1])


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def changed(x, change):
    y = x + 1
    change(y)
    return y


def assign(*index):
    return lambda x, rows: changed(x, lambda y: y.__setitem__(index, rows))


def assign_rows(x, rows, i):
    return changed(x, lambda y: y.__setitem__((ALL, i), rows))


ALL = slice(None)
ROW = ROWS[:, :1].contiguous()
WRITES = {
    "rows of a middle dim": (assign_rows, X, ROWS, I),
    "rows that are broadcast": (assign_rows, X, ROW, I),
    "one row": (assign_rows, X, ROW, I[:1]),
    "one row of int64 numbers": (assign_rows, X.long(), ROW.long(), I[1:]),
    "rows of the first dim": (lambda x, rows, i: changed(x, lambda y: y.__setitem__(i, rows)), X, X[:2] * 3, I),
    "a copied row": (lambda x, row, i: changed(x, lambda y: y.index_copy_(1, i, row)), X, ROW, I[1:]),
    "a slice": (assign(ALL, slice(1, 3)), X, ROWS),
    "a slice from the end": (assign(ALL, slice(-2, None)), X, ROWS),
    "a slice with steps": (assign(ALL, slice(0, None, 2)), X, ROWS),
    "a column": (assign(ALL, ALL, -1), X, X[..., 0].contiguous()),
    "a copy with broadcasting": (lambda x, y: changed(x, lambda z: z.copy_(y)) * 2, X, ROW[:1, :, :1].contiguous()),
    "rows that are read": (lambda x, i: (x + 1)[:, i] * 2, X, I),
}


@pytest.mark.parametrize("target", ["iOS15", "iOS18"])
@pytest.mark.parametrize("name", WRITES)
def test_a_part_of_a_tensor_is_written_as_by_pytorch(name, target):
    function, *inputs = WRITES[name]
    model = Call(function).eval()
    backend = edgecore.Backend("coreml", required=True, minimum_deployment_target=target)
    blob = blob_of(edgecore.compile(model, tuple(inputs), backends=[backend]))
    standin = StandIn(blob, {})
    ordered = [inputs[int(name.removeprefix("inputs_"))] for name in standin.package.inputs]
    (result,), expected = standin(*ordered), model(*inputs)
    torch.testing.assert_close(result.to(expected.dtype), expected)


@pytest.mark.parametrize(
    ("function", "inputs", "reason"),
    [
        (lambda x, i: changed(x, lambda y: y.index_add_(1, i, y[:, :2])), (X, I), "accumulate is True"),
        (lambda x, i: (x + 1)[i, i], (X, I), "it has 2 indices"),
        (lambda x, i: (x + 1)[:, i[None]], (X, I), "its index is no list of numbers"),
    ],
)
def test_indices_that_core_ml_does_not_get_have_a_reason(function, inputs, reason):
    assert reason in str(edgecore.compile(Call(function).eval(), inputs, backends=["coreml"]).report())


class Attention(torch.nn.Module):
    """One layer of attention with a key-value cache of 8 positions."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(8, 24)
        self.cache = torch.nn.Module()
        for name in ("keys", "values"):
            self.cache.register_buffer(name, torch.zeros(1, 2, 8, 4))
        self.register_buffer("mask", torch.ones(8, 8).tril().log().clamp(min=-1e4), persistent=False)

    def forward(self, x, positions):
        query, key, value = self.project(x).view(1, -1, 3, 2, 4).permute(2, 0, 3, 1, 4)
        self.cache.keys.index_copy_(2, positions, key)
        self.cache.values[:, :, positions] = value
        mask = self.mask[positions]
        return torch.nn.functional.scaled_dot_product_attention(query, self.cache.keys, self.cache.values, mask)


def step(count, start):
    return torch.randn(1, count, 8), torch.arange(start, start + count)


def blob_of(program):
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    return bytes(blob)


def cached(inputs, **options):
    backend = edgecore.Backend("coreml", required=True, **options)
    return edgecore.compile(Attention().eval(), inputs, backends=[backend])


def test_a_key_value_cache_becomes_states_of_the_package():
    program = cached(step(1, 0), compute_precision="FLOAT16")
    report = str(program.report())
    assert "2 mutable buffers in CoreMLBackend" in report and "iOS18 or later" in report
    package = unpack(blob_of(program), {})
    assert [(state.buffer, state.dtype, state.shape) for state in package.states] == [
        ("cache.keys", "float32", (1, 2, 8, 4)),
        ("cache.values", "float32", (1, 2, 8, 4)),
    ]
    lines = CoreMLCompiler().describe_blob(blob_of(program), {})
    assert "state cache_keys: float16 [1, 2, 8, 4]" in lines and "state cache_values: float16 [1, 2, 8, 4]" in lines
    assert "  write_state: 2" in lines and "  slice_update: 2" in lines
    assert len(package.inputs) == 2 and len(package.outputs) == 1


def test_with_the_option_off_a_cache_is_an_input_and_an_output():
    package = unpack(blob_of(cached(step(1, 0), take_over_mutable_buffer=False)), {})
    assert not package.states and len(package.inputs) == 4 and len(package.outputs) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is for Linux")
@pytest.mark.parametrize(
    ("options", "tolerance"),
    [({"compute_precision": "FLOAT16"}, 0.01), ({"take_over_mutable_buffer": False}, 1e-5)],
    ids=["states", "arguments"],
)
def test_a_prompt_and_single_tokens_give_what_eager_does(options, tolerance, tmp_path):
    torch.manual_seed(0)
    model = Attention().eval()
    program = edgecore.compile(
        {"prefill": model, "decode": model},
        {"prefill": step(3, 0), "decode": step(1, 0)},
        backends=[edgecore.Backend("coreml", required=True, **options)],
        runtime="edgecore",
        share_state=True,
    )
    path = tmp_path / "model.pte"
    program.save(path)
    loaded = edgecore.load(path, options={"coreml": {"standin": sys.executable, "model_cache_folder": str(tmp_path)}})
    position = 0
    for count in (3, 1, 1, 1):
        inputs = step(count, position)
        result = loaded["prefill" if count == 3 else "decode"](*inputs)
        torch.testing.assert_close(result, model(*inputs), rtol=0, atol=tolerance)
        position += count


class Rows(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.arange(24.0).reshape(6, 4).half())

    def forward(self, positions, values):
        self.rows[positions] = values
        return self.rows * 2


@pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is for Linux")
def test_rows_of_a_float16_buffer_are_written_in_a_state(tmp_path):
    positions, values = torch.tensor([-1, 0, -5]), torch.randn(3, 4).half()
    program = edgecore.compile(
        Rows().eval(), (positions, values), backends=[edgecore.Backend("coreml", required=True)], runtime="edgecore"
    )
    assert [state.buffer for state in unpack(blob_of(program), {}).states] == ["rows"]
    program.save(tmp_path / "rows.pte")
    options = {"coreml": {"standin": sys.executable, "model_cache_folder": str(tmp_path)}}
    loaded, model = edgecore.load(tmp_path / "rows.pte", options=options), Rows()
    for rows in (values, values + 1):
        torch.testing.assert_close(loaded["forward"](positions, rows), model(positions, rows))
