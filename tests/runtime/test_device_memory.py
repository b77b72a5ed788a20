"""Values in memory of a device, as the device counts the copies: none between its delegates and for state that stays
there, one where a value crosses to or from the host."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")
from device_package import device_counters, device_folder, device_package  # noqa: F401
from torch import nn

import edgecore
from edgecore import Backend
from edgecore.errors import ExecutionError

X, Y = torch.arange(8.0).reshape(2, 4), torch.linspace(-1, 1, 8).reshape(2, 4)
FLOAT = 4
"""Bytes."""


class Zigzag(nn.Module):
    """Two delegates with a kernel, sin, between them. `c` goes from one to the other; the host and both use `a`."""

    def forward(self, x, y):
        a = x + y
        b, c = torch.sin(a), a * x
        return c * b + a + x


class Total(nn.Module):
    """Adds its input to a mutable buffer."""

    def __init__(self, function=lambda self, x: self.add(x)):
        super().__init__()
        self.register_buffer("total", Y.clone())
        self.function = function

    def add(self, x):
        self.total.copy_(self.total + x)
        return self.total * x

    def running(self, x):
        """Return the new content itself, which a caller gets in memory of the host."""
        self.total.add_(x)
        return self.total

    def and_sine(self, x):
        """Compute a function of the new content on the host, too."""
        self.total.copy_(self.total + x)
        return torch.sin(self.total) * x

    def multiply(self, x):
        self.total.copy_(self.total * x)
        return self.total + x

    def write_and_read(self, x):
        """Replace the content; another delegate reads it, and none the old content."""
        squares = x * x
        self.total.copy_(squares)
        return torch.sin(x + x) * squares

    def read(self, x):
        return self.total * x

    def write(self, x):
        """Replace the content: the compiler plans the new content in the memory of the buffer."""
        self.total.copy_(x * x)
        return x + x

    def sine(self, x):
        return torch.sin(self.total) * x

    def forward(self, x):
        return self.function(self, x)


class Cache(nn.Module):
    """Writes rows of a cache at the positions `at`."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.arange(32.0).reshape(8, 4))

    def forward(self, x, at):
        self.cache[at] = x
        return self.cache * self.cache


def compiled(model, inputs, **options):
    hold = options.pop("hold_state", False)
    model = {name: one.eval() for name, one in model.items()} if isinstance(model, dict) else model.eval()
    return edgecore.compile(model, inputs, backends=[Backend("device", hold_state=hold)], **options)


def copies(counts, *names):
    return [counts[name] for name in names or ("flushes", "invalidates", "maps")]


def test_one_copy_crosses_each_border_and_none_lies_between_neighbours(device_counters):  # noqa: F811
    program = compiled(Zigzag(), (X, Y))
    assert program.report().delegates == {"DeviceBackend": 2}
    model = edgecore.load(program.buffer)
    for _ in range(3):
        device_counters()
        torch.testing.assert_close(model.forward(X, Y), Zigzag()(X, Y))
        counts = device_counters()
        assert copies(counts) == [3, 2, 5]  # x, y and sin(a) to the device; a and the result back
        assert counts["bytes"] == 5 * 8 * FLOAT and counts["executions"] == 2


def test_values_of_dynamic_sizes_stay_on_the_device(device_counters):  # noqa: F811
    rows = torch.export.Dim("rows", min=1, max=6)
    program = compiled(Zigzag(), (X, Y), dynamic_shapes=({0: rows}, {0: rows}))
    model = edgecore.load(program.buffer)
    for size in (2, 6, 1, 3):
        x, y = torch.randn(size, 4), torch.randn(size, 4)
        device_counters()
        torch.testing.assert_close(model.forward(x, y), Zigzag()(x, y))
        counts = device_counters()
        assert copies(counts) == [3, 2, 5] and counts["bytes"] == 5 * size * 4 * FLOAT


@pytest.mark.parametrize("hold", [False, True])
def test_state_is_not_copied_by_steps(device_counters, hold):  # noqa: F811
    program = compiled(Total(), (X,), hold_state=hold)
    (row,) = program.report().buffers
    assert row.where == ("DeviceBackend" if hold else "edgecore")
    model, eager = edgecore.load(program.buffer), Total()
    for step in range(4):
        device_counters()
        torch.testing.assert_close(model.forward(X), eager(X))
        counts = device_counters()
        sent = 1 if step == 0 and not hold else 0
        assert copies(counts) == [1 + sent, 1, 2 + sent]  # x, the result, and once the initial values
        assert counts["state_copies"] == 0
    saved = model.export_state()
    assert copies(device_counters(), "invalidates", "state_copies") == ([0, 1] if hold else [1, 0])
    torch.testing.assert_close(model.forward(X), eager(X))
    assert copies(device_counters()) == [1, 1, 2]  # an export leaves the state on the device
    other = edgecore.load(program.buffer)
    other.import_state(saved)
    model.import_state(saved)
    device_counters()
    torch.testing.assert_close(other.forward(X), model.forward(X))
    assert copies(device_counters()) == ([2, 2, 4] if hold else [4, 2, 6])
    model.reset()
    torch.testing.assert_close(model.forward(X), Total()(X))


@pytest.mark.parametrize("function", [Total.running, Total.and_sine])
def test_state_whose_new_content_the_host_reads_stays_on_the_device(device_counters, function):  # noqa: F811
    model, eager = edgecore.load(compiled(Total(function), (X,)).buffer), Total()
    each = 2 if function is Total.and_sine else 1  # x to the device, the new content back; the sine and the result
    for step in range(3):
        device_counters()
        torch.testing.assert_close(model.forward(X), function(eager, X))
        sent = 1 if step == 0 else 0
        assert copies(device_counters()) == [each + sent, each, 2 * each + sent]


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("function", [Total.write, Total.write_and_read, Total.read])
def test_state_that_is_only_written_or_read_stays_too(device_counters, hold, function):  # noqa: F811
    models = {"other": Total(function), "add": Total(Total.add)}
    program = compiled(models, {name: (X,) for name in models}, share_state=True, hold_state=hold)
    model, eager = edgecore.load(program.buffer), Total()
    for step in range(3):
        for name, call in (("other", function), ("add", Total.add)):
            device_counters()
            torch.testing.assert_close(model[name](X), call(eager, X))
            sent = 1 if step == 0 and name == "other" and not hold else 0
            each = 2 if name == "other" and function is Total.write_and_read else 1  # there the host computes a sine
            assert copies(device_counters()) == [each + sent, each, 2 * each + sent]


@pytest.mark.parametrize("hold", [False, True])
def test_state_stays_between_methods_and_sessions_do_not_mix(device_counters, hold):  # noqa: F811
    models = {"add": Total(Total.add), "multiply": Total(Total.multiply)}
    program = compiled(models, {name: (X,) for name in models}, share_state=True, hold_state=hold)
    first = edgecore.load(program.buffer)
    sessions = [(first, Total()), (first.new_session(), Total()), (first.new_session(), Total())]
    for step in range(3):
        for model, eager in sessions[: step + 1]:
            for name in ("add", "multiply"):
                new = not hold and name == "add" and model is sessions[step][0]
                device_counters()
                torch.testing.assert_close(model[name](X), getattr(eager, name)(X))
                assert copies(device_counters()) == ([2, 1, 3] if new else [1, 1, 2])


def test_a_method_that_needs_the_state_on_the_host_gets_it_there(device_counters):  # noqa: F811
    models = {"add": Total(Total.add), "sine": Total(Total.sine)}
    program = compiled(models, {name: (X,) for name in models}, share_state=True)
    model, eager = edgecore.load(program.buffer), Total()
    for name, expected in (
        ("add", [2, 1]), ("add", [1, 1]), ("sine", [2, 2]), ("sine", [2, 1]), ("add", [2, 1]), ("add", [1, 1])
    ):  # fmt: skip
        device_counters()
        torch.testing.assert_close(model[name](X), getattr(eager, name)(X))
        assert copies(device_counters(), "flushes", "invalidates") == expected, name


@pytest.mark.parametrize("hold", [False, True])
def test_rows_of_a_cache_are_written_on_the_device_by_pending_runs(device_counters, hold):  # noqa: F811
    program = compiled(Cache(), (X, torch.tensor([1, 5])), hold_state=hold)
    model, eager = edgecore.load(program.buffer), Cache()
    model.forward(X, torch.tensor([0, 1]))
    eager(X, torch.tensor([0, 1]))
    for step in range(3):
        at = torch.tensor([step, 7 - step])
        device_counters()
        run = model.forward.start(X * step, at)
        torch.testing.assert_close(run.wait(), eager(X * step, at))
        counts = device_counters()
        assert copies(counts) == [2, 1, 3] and counts["pending"] == counts["executions"] == 1


@pytest.mark.parametrize("hold", [False, True])
def test_a_run_that_fails_on_the_device_leaves_no_half_updated_state(device_package, hold):  # noqa: F811
    model, eager = edgecore.load(compiled(Cache(), (X, torch.tensor([1, 5])), hold_state=hold).buffer), Cache()
    good, bad = torch.tensor([2, 3]), torch.tensor([4, 99])
    torch.testing.assert_close(model.forward(X, good), eager(X, good))
    saved = model.export_state()
    with pytest.raises(ExecutionError, match="an index is out of range"):
        model.forward(X + 1, bad)
    if hold:
        with pytest.raises(ExecutionError, match="reset or import it first"):
            model.forward(X, good)
        model.import_state(saved)
    torch.testing.assert_close(model.forward(X * 2, good), eager(X * 2, good))


@pytest.mark.parametrize("hold", [False, True])
def test_two_sessions_run_at_once_on_two_threads(device_counters, hold):  # noqa: F811
    program = compiled(Total(), (X,), hold_state=hold)
    first = edgecore.load(program.buffer)
    sessions = [first, first.new_session()]
    device_counters()

    def run(number):
        eager, x = Total(), X * (number + 1) / 8
        for _ in range(50):
            torch.testing.assert_close(sessions[number].forward(x), eager(x), rtol=1e-4, atol=1e-4)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(2)))
    sent = 0 if hold else 2
    assert copies(device_counters()) == [100 + sent, 100, 200 + sent]


def test_device_memory_is_freed_with_its_programs(device_counters):  # noqa: F811
    for hold in (False, True):
        model = edgecore.load(compiled(Total(), (X,), hold_state=hold).buffer)
        session = model.new_session()
        model.forward(X)
        session.forward(X)
        del model, session
    assert device_counters()["buffers"] == 0
