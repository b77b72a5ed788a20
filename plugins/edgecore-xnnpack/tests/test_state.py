"""A decoder whose KV caches the delegate keeps: the same tokens as eager, and state that users save and restore."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import pytest
import torch
from decoder import LAYERS, Decoder, Sizes

import edgecore
from edgecore.errors import EdgecoreError

PROMPT = torch.tensor([[3, 41, 7, 90, 12]])
TOKENS = 200
BUFFERS = [f"layers.{layer}.cache.{name}" for layer in range(LAYERS) for name in "kv"]


def compile_decoder(*, backends=("xnnpack",), capacity=256, runtime="edgecore", **options):
    """Compile a decoder with two methods: `prefill` for 1 to 16 tokens, and `decode` for one."""
    decoder = Decoder(Sizes(capacity)).eval()
    count = torch.export.Dim("count", min=1, max=16)
    return edgecore.compile(
        {"prefill": decoder, "decode": decoder},
        {"prefill": (PROMPT, torch.arange(5)), "decode": (PROMPT[:, :1], torch.arange(1))},
        dynamic_shapes={"prefill": ({1: count}, {0: count}), "decode": None},
        backends=list(backends),
        runtime=runtime,
        share_state=True,
        **options,
    )


@cache
def file(backends=("xnnpack",)) -> bytes:
    return compile_decoder(backends=backends).buffer


def generate(run, first, tokens, count, position):
    """Continue with greedy tokens from `tokens`; `run(method, tokens, positions)` returns logits."""
    generated = []
    method = first
    for _ in range(count):
        logits = run(method, tokens, torch.arange(position, position + tokens.shape[1]))
        position += tokens.shape[1]
        tokens = logits[:, -1].argmax(-1, keepdim=True)
        generated.append(int(tokens))
        method = "decode"
    return generated


def tokens_of(model, count=TOKENS, prompt=PROMPT):
    return generate(lambda method, *args: torch.as_tensor(model[method](*args)), "prefill", prompt, count, 0)


@cache
def eager_tokens(count=TOKENS):
    decoder = Decoder().eval()
    with torch.no_grad():
        return generate(lambda method, *args: decoder(*args), "prefill", PROMPT, count, 0)


def test_each_method_is_one_delegate_with_the_caches_inside():
    report = compile_decoder().report()
    assert report.delegates == {"XnnpackBackend": 2}
    assert {row.name: row.where for row in report.buffers} == dict.fromkeys(BUFFERS, "XnnpackBackend")


@pytest.mark.parametrize("backends", [("xnnpack",), ()], ids=["xnnpack", "kernels"])
def test_greedy_tokens_are_those_of_eager(backends):
    assert tokens_of(edgecore.load(file(backends))) == eager_tokens()


def test_logits_are_those_of_eager():
    model, decoder = edgecore.load(file()), Decoder().eval()
    for position, method in ((0, "prefill"), (5, "decode"), (6, "decode")):
        tokens = PROMPT if method == "prefill" else PROMPT[:, :1]
        positions = torch.arange(position, position + tokens.shape[1])
        with torch.no_grad():
            expected = decoder(tokens, positions)
        torch.testing.assert_close(torch.as_tensor(model[method](tokens, positions)), expected)


def test_reset_gives_the_tokens_of_the_first_run():
    model = edgecore.load(file())
    first = tokens_of(model, 20)
    model.reset()
    assert tokens_of(model, 20) == first


def test_interleaved_sessions_do_not_mix():
    model = edgecore.load(file())
    session = model.new_session()
    other = PROMPT.flip(1)
    alone = tokens_of(edgecore.load(file()), 10, other)
    steps = [([], model, PROMPT), ([], session, other)]
    state = [[generated, one, tokens, 0] for generated, one, tokens in steps]
    for step in range(10):
        for entry in state:
            generated, one, tokens, position = entry
            logits = one["decode" if step else "prefill"](tokens, torch.arange(position, position + tokens.shape[1]))
            entry[2], entry[3] = torch.as_tensor(logits)[:, -1].argmax(-1, keepdim=True), position + tokens.shape[1]
            generated.append(int(entry[2]))
    assert state[0][0] == eager_tokens()[:10]
    assert state[1][0] == alone


CONTINUE = """
import sys
import torch
import edgecore

folder, token, position, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
model = edgecore.load(folder + "/decoder.pte")
model.import_state(open(folder + "/state", "rb").read())
for _ in range(count):
    logits = model["decode"](torch.tensor([[token]]), torch.tensor([position]))
    token = int(torch.as_tensor(logits)[0, -1].argmax())
    position += 1
    print(token)
"""


@pytest.mark.parametrize("backends", [("xnnpack",), ()], ids=["xnnpack", "kernels"])
def test_another_process_continues_with_saved_state(tmp_path, backends):
    model = edgecore.load(file())
    begun = tokens_of(model, 10)
    (tmp_path / "state").write_bytes(model.export_state())
    (tmp_path / "decoder.pte").write_bytes(file(backends))  # state goes from the backend to the kernels as well
    (tmp_path / "continue.py").write_text(CONTINUE, encoding="utf-8")
    position = PROMPT.shape[1] + 9
    command = [sys.executable, tmp_path / "continue.py", tmp_path, str(begun[-1]), str(position), "20"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert begun + [int(line) for line in printed.split()] == eager_tokens()[:30]


def test_damaged_and_foreign_state_is_one_error():
    model = edgecore.load(file())
    tokens_of(model, 5)
    state = bytearray(model.export_state())
    with pytest.raises(EdgecoreError, match="is damaged or incomplete"):
        model.import_state(state[:-100])
    state[len(state) // 2] ^= 1
    with pytest.raises(EdgecoreError, match="is damaged or incomplete"):
        model.import_state(state)
    smaller = edgecore.load(compile_decoder(capacity=32).buffer)
    with pytest.raises(
        EdgecoreError, match=r"of another program: it has the buffer 'layers.0.cache.k' float32 \[1, 2, 32"
    ):
        model.import_state(smaller.export_state())


def test_a_position_outside_of_the_cache_is_an_error_and_needs_a_reset():
    model = edgecore.load(file())
    with pytest.raises(EdgecoreError, match="256"):
        model["decode"](PROMPT[:, :1], torch.tensor([256]))
    model.reset()
    assert tokens_of(model, 5) == eager_tokens()[:5]


def test_skip_mutable_buffer_keeps_the_caches_outside():
    program = compile_decoder(backends=[edgecore.Backend("xnnpack", skip_mutable_buffer=True)])
    assert {row.where for row in program.report().buffers} == {"edgecore"}
    assert tokens_of(edgecore.load(program.buffer), 10) == eager_tokens()[:10]


def test_files_for_executorch_keep_the_caches_outside():
    report = compile_decoder(runtime="executorch-1.5").report()
    assert {row.where for row in report.buffers} == {"edgecore"}


def test_per_op_mode_keeps_the_caches_outside():
    program = compile_decoder(backends=[edgecore.Backend("xnnpack", per_op_mode=True)])
    assert {row.where for row in program.report().buffers} == {"edgecore"}


class Repeated(torch.nn.Module):
    """Attention of 6 query heads over a cache of 2 heads, each of which is repeated, as many models write it."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.register_buffer("k", torch.zeros(1, 2, 32, 16))
        self.register_buffer("v", torch.zeros(1, 2, 32, 16))

    def repeat(self, x):
        if self.how == "interleave":
            return x.repeat_interleave(3, dim=1)
        return x[:, :, None].expand(1, 2, 3, 32, 16).reshape(1, 6, 32, 16)

    def forward(self, q, k, v, position, mask):
        self.k.index_copy_(2, position, k)
        self.v[:, :, position] = v
        return torch.nn.functional.scaled_dot_product_attention(q, self.repeat(self.k), self.repeat(self.v), mask)


@pytest.mark.parametrize("count", ["fixed", "symbolic"])
@pytest.mark.parametrize("how", ["expand", "interleave"])
def test_attention_over_repeated_heads_reads_the_cache_in_place(how, count):
    torch.manual_seed(0)
    heads = [torch.randn(1, heads, 3, 16) for heads in (6, 2, 2)]
    inputs = (*heads, torch.tensor([4, 2, 7]), torch.randn(3, 32))
    size = torch.export.Dim("size", min=1, max=8)
    shapes = None if count == "fixed" else ({2: size}, {2: size}, {2: size}, {0: size}, {0: size})
    program = edgecore.compile(
        Repeated(how).eval(), inputs, dynamic_shapes=shapes, backends=["xnnpack"], runtime="edgecore"
    )
    model = edgecore.load(program.buffer, values=True)
    torch.testing.assert_close(torch.as_tensor(model.forward(*inputs)), Repeated(how)(*inputs))
    values = model.take_values()
    assert {value.operation for value in values} == {"CacheUpdate", "ScaledDotProductAttention", "StaticReshape"}
    assert all(32 not in value.value.shape for value in values if value.operation != "CacheUpdate")


class KeysOnly(Repeated):
    """Attention whose keys are a cache, and whose values are computed."""

    def forward(self, q, k, v, position, mask):
        self.k.index_copy_(2, position, k)
        return torch.nn.functional.scaled_dot_product_attention(q, self.repeat(self.k), self.repeat(v + 1), mask)


def test_attention_whose_values_are_no_cache_gives_what_eager_gives():
    torch.manual_seed(0)
    inputs = (
        torch.randn(1, 6, 3, 16),
        torch.randn(1, 2, 3, 16),
        torch.randn(1, 2, 32, 16),
        torch.arange(3),
        torch.zeros(3, 32),
    )
    program = edgecore.compile(KeysOnly("expand").eval(), inputs, backends=["xnnpack"], runtime="edgecore")
    result = edgecore.load(program.buffer).forward(*inputs)
    torch.testing.assert_close(torch.as_tensor(result), KeysOnly("expand")(*inputs))


class Largest(torch.nn.Module):
    """A cache that is updated at a position which an operator of the delegate computes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(6, 3))

    def forward(self, scores, x):
        self.rows[torch.argmax(scores, dim=1)] = x
        return self.rows * 2


def test_positions_that_the_delegate_computes_give_what_eager_gives():
    inputs = (torch.eye(6)[[4, 1]], torch.ones(2, 3))
    program = edgecore.compile(Largest().eval(), inputs, backends=["xnnpack"], runtime="edgecore")
    result = edgecore.load(program.buffer).forward(*inputs)
    torch.testing.assert_close(torch.as_tensor(result), Largest()(*inputs))


class Total(torch.nn.Module):
    """A buffer that is updated by arithmetic, which the delegate does not keep."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total += x
        return self.total * 2


class Rows(torch.nn.Module):
    """A cache that begins with content, and whose rows are read by an operator other than attention."""

    def __init__(self, initial=1.0):
        super().__init__()
        self.register_buffer("rows", torch.full((6, 3), initial))

    def forward(self, x, position):
        self.rows.index_copy_(0, position, x)
        return self.rows.sum(dim=0)


def test_other_updates_stay_outside():
    program = edgecore.compile(Total().eval(), (torch.ones(4),), backends=["xnnpack"], runtime="edgecore")
    assert {row.where for row in program.report().buffers} == {"edgecore"}


ROWS = (torch.tensor([[2.0, 3, 4], [5, 6, 7]]), torch.tensor([4, 1]))


def test_any_operator_reads_a_cache_with_initial_content():
    program = edgecore.compile(Rows().eval(), ROWS, backends=["xnnpack"], runtime="edgecore")
    assert {row.where for row in program.report().buffers} == {"XnnpackBackend"}
    model, eager = edgecore.load(program.buffer), Rows().eval()
    for positions in (ROWS[1], torch.tensor([0, 3])):
        torch.testing.assert_close(torch.as_tensor(model.forward(ROWS[0], positions)), eager(ROWS[0], positions))
    model.reset()
    torch.testing.assert_close(torch.as_tensor(model.forward(*ROWS)), Rows()(*ROWS))


def test_initial_content_comes_from_a_data_file(tmp_path):
    options = {"backends": ["xnnpack"], "runtime": "edgecore", "external_data": {"rows": "rows"}}
    edgecore.compile(Rows().eval(), ROWS, **options).save(tmp_path / "a.pte")
    (tmp_path / "other").mkdir()
    edgecore.compile(Rows(8.0).eval(), ROWS, **options).save(tmp_path / "other" / "b.pte")
    model = edgecore.load(tmp_path / "a.pte", data=[tmp_path / "other" / "rows.ptd"])
    torch.testing.assert_close(torch.as_tensor(model.forward(*ROWS)), Rows(8.0)(*ROWS))


def test_values_for_debugging_do_not_change_the_output():
    quiet, listening = edgecore.load(file()), edgecore.load(file(), values=True)
    for model in (quiet, listening):
        model["prefill"](PROMPT, torch.arange(5))
    args = (PROMPT[:, :1], torch.tensor([5]))
    assert torch.equal(torch.as_tensor(quiet["decode"](*args)), torch.as_tensor(listening["decode"](*args)))
    names = {value.operation for value in listening.take_values("decode")}
    assert {"CacheUpdate", "ScaledDotProductAttention", "FullyConnected"} <= names
