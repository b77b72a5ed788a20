"""Symbolic sizes and numbers: each file at the min, a middle and the max shape, here and on executorch's runtime."""

import math
from importlib.util import find_spec

import pytest
import torch
from torch import nn
from torch.export import Dim

import edgecore
from edgecore import format as fmt
from edgecore.errors import CompileError, ExecutionError

B, T = Dim("b", min=1, max=8), Dim("t", min=3, max=12)
SIZES = {"min": (1, 3), "middle": (3, 5), "max": (8, 12)}


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        n = x.shape[1]
        mask = torch.full((n, n), -math.inf).triu(1)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return y.transpose(1, 2).flatten(2).softmax(-1)


class LstmCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.x, self.h = nn.Linear(4, 16), nn.Linear(4, 16)

    def forward(self, x, h, c):
        i, f, g, o = (self.x(x) + self.h(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Join(nn.Module):
    def forward(self, x, y):
        return torch.cat([x, y, x], 0) * 2, torch.stack([x, x]), x.repeat(2, 1), y[:1].expand(x.shape[0], -1)


class Views(nn.Module):
    def forward(self, x):
        b, t, _ = x.shape
        return (
            x.view(b * t, -1),
            x.reshape(t, b, 4),
            x.flatten(),
            x[:, 1:],
            x[:, -1],
            nn.functional.pad(x, (0, 0, 1, 2)),
        )


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 4)

    def forward(self, x):
        n = x.shape[1]
        return x + self.table(torch.arange(n)), torch.arange(n - 1, -1, -1), torch.zeros(n, 2)


class Numbers(nn.Module):
    """Symbolic arithmetic: executorch_prim operators and symbolic results."""

    def forward(self, x):
        n = x.shape[0]
        scaled = x * (n // 2 + n % 3) - max(n, 4) + torch.sym_min(n, 5) * (1.0 / n) + math.ceil(n / 3) * round(n / 3)
        return scaled, n, n * 2 - 1, n / 4


class Prefix(nn.Module):
    def forward(self, x, n: int):
        return x[:n] * 2.0, n + 1


def one(*shape):
    """Inputs of `one` tensor; None stands for the batch, ... for the time."""
    return lambda b, t: (torch.randn([{None: b, ...: t}.get(size, size) for size in shape]),)


CASES = {
    "convolution": (Convolution, one(None, 3, 8, ...), {"x": {0: B, 3: T}}),
    "attention": (Attention, one(None, ..., 16), {"x": {0: B, 1: T}}),
    "lstm": (LstmCell, lambda b, t: tuple(torch.randn(3, b, 4)), {name: {0: B} for name in "xhc"}),
    "join": (Join, lambda b, t: (torch.randn(b, 3), torch.randn(t, 3)), {"x": {0: B}, "y": {0: T}}),
    "views": (Views, one(None, ..., 4), {"x": {0: B, 1: T}}),
    "positions": (Positions, one(None, ..., 4), {"x": {0: B, 1: T}}),
    "numbers": (Numbers, one(..., 4), {"x": {0: T}}),
    "number in": (Prefix, lambda b, t: (torch.randn(8, 4), b), {"x": None, "n": Dim.DYNAMIC(min=1, max=8)}),
}


@pytest.fixture(scope="module")
def compiled():
    made = {}

    def make(name):
        if name not in made:
            torch.manual_seed(0)
            kind, inputs, shapes = CASES[name]
            model = kind().eval()
            made[name] = model, edgecore.compile(model, inputs(4, 6), dynamic_shapes=shapes)
        return made[name]

    return make


def close(results, expected):
    for got, want in zip(results, expected if isinstance(expected, tuple) else [expected], strict=True):
        dtype = torch.as_tensor(want).dtype
        torch.testing.assert_close(torch.as_tensor(got, dtype=dtype), torch.as_tensor(want), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_min_middle_and_max_shapes_equal_eager(name, compiled):
    model, program = compiled(name)
    assert fmt.verify(program.pte) == []
    forward = edgecore.load(program.buffer).forward
    for sizes in [*SIZES.values(), SIZES["min"]]:
        given = CASES[name][1](*sizes)
        with torch.no_grad():
            expected = model(*given)
        results = forward(*given)
        close(results if isinstance(results, list) else [results], expected)


@pytest.mark.skipif(find_spec("executorch") is None, reason="needs executorch, the peer")
@pytest.mark.parametrize("name", [name for name in CASES if name != "number in"])  # it takes the file's number only
def test_the_peer_runs_the_file_at_all_shapes(name, compiled, tmp_path):
    from executorch.runtime import Runtime

    model, program = compiled(name)
    program.save(tmp_path / "model.pte")
    method = Runtime.get().load_program(tmp_path / "model.pte").load_method("forward")
    for sizes in SIZES.values():
        given = CASES[name][1](*sizes)
        with torch.no_grad():
            close(method.execute(list(given)), model(*given))


VIEWS = {
    "flatten": lambda x: torch.flatten(x, 1) * 2,
    "split": lambda x: x.unflatten(2, (2, 2)) + 1,
    "repeat": lambda x: torch.repeat_interleave(x, 2, 1) + 1,
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_symbolic_size_beside_an_empty_dim_equals_eager(name):
    class View(nn.Module):
        def forward(self, x):
            return VIEWS[name](x)

    program = edgecore.compile(View().eval(), (torch.rand(3, 0, 4),), dynamic_shapes=({0: Dim("rows", max=8)},))
    model = edgecore.load(program.buffer)
    for rows in (1, 3, 8):
        x = torch.rand(rows, 0, 4)
        assert torch.as_tensor(model.forward(x)).shape == VIEWS[name](x).shape


def test_a_shape_beyond_the_bound_is_refused(compiled):
    _, program = compiled("lstm")
    with pytest.raises(ExecutionError, match=r"Input 'x' \(0\) of method 'forward': dim 0 .* must be .*8, got 9"):
        edgecore.load(program.buffer).forward(*torch.randn(3, 9, 4))


def test_a_size_without_bound_is_a_clear_error():
    with pytest.raises(CompileError, match=r"without an upper bound; give torch.export.Dim a max"):
        edgecore.compile(nn.ReLU().eval(), (torch.ones(4, 4),), dynamic_shapes=({0: Dim("b")},))


def test_a_dim_that_the_model_fixes_is_explained():
    class Fixed(nn.Module):
        def forward(self, x):
            return x * float(x.shape[0])

    with pytest.raises(
        CompileError, match=r"dim 0 of 'x' \(b\) is always 4 in this model, so leave it out of dynamic_shapes"
    ):
        edgecore.compile(Fixed().eval(), (torch.ones(4, 4),), dynamic_shapes={"x": {0: B}})


class Settings(nn.Module):
    def forward(self, x, scale: float, flip: bool, bias=None, times: int = 2):
        y = x * scale * times
        return (-y if flip else y), None, 3, 0.5, True


@pytest.mark.parametrize("memory", [None, "static"])
def test_numbers_bools_and_none_go_in_and_out(memory):
    given = (torch.randn(2, 3), 0.5, True, None, 3)
    program = edgecore.compile(Settings().eval(), given, memory=memory)
    forward = edgecore.load(program.buffer).forward
    results = forward(*given)
    torch.testing.assert_close(results[0], Settings()(*given)[0])
    assert results[1:] == [None, 3, 0.5, True]
    assert [info.dtype for info in forward.inputs] == ["float32", "float", "bool", "none", "int"]
    assert [info.planned for info in forward.inputs][:1] == [memory == "static"]
    assert forward.outputs[0].planned is (memory == "static")
    with pytest.raises(ExecutionError, match=r"Input 'times' \(4\) of method 'forward' was fixed to 3"):
        forward(*given[:4], 4)
