"""Runs that are started and waited for later, and options set between runs, on a backend with a device."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import signal
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import edgecore
from edgecore import format as fmt
from edgecore.errors import BackendError, ErrorCode, ExecutionError

np = pytest.importorskip("numpy")

SIZE = 4
PENDING, FAILS, STATE = 1, 2, 4
X = np.arange(SIZE, dtype=np.float32)


def blob(flags: int) -> bytes:
    """The blob of the null backend, whose output is 2 times its input."""
    return b"NUL0" + struct.pack("<IIfIIIIII", 1, 1, 2.0, 0, 0, 16, 0, 0, flags)


def program(*flags: int, methods: tuple[str, ...] = ("forward",)) -> bytes:
    """Methods of one delegate after the other: with n of them the result is 2**n times the input."""
    values = [fmt.Tensor(fmt.ScalarType.FLOAT, sizes=[SIZE], dim_order=[0]) for _ in range(len(flags) + 1)]
    for i, value in enumerate(values[1:-1]):
        value.allocation_info = fmt.AllocationDetails.at(1, 64 * i)
    plans = [
        fmt.ExecutionPlan(
            name=name,
            container_meta_type=fmt.ContainerMetadata("", ""),
            values=[fmt.EValue(value) for value in values],
            inputs=[0],
            outputs=[len(flags)],
            chains=[fmt.Chain([], [], [fmt.Instruction(fmt.DelegateCall(i, [i, i + 1])) for i in range(len(flags))])],
            delegates=[
                fmt.BackendDelegate("NullBackend", fmt.BackendDelegateDataReference(index=i), [])
                for i in range(len(flags))
            ],
            non_const_buffer_sizes=[0, 64 * len(flags)],
        )
        for name in methods
    ]
    return fmt.write_pte(fmt.PteFile(fmt.Program(execution_plan=plans), delegate_blobs=[blob(flag) for flag in flags]))


class Device:
    """The null backend's: works when `drain` is called, or all the time within `with device`."""

    def __init__(self, library):
        functions = ctypes.CDLL(str(library))
        self.drain = functions.null_backend_drain
        self.live_handles = functions.null_backend_live_handles

    def __enter__(self):
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def work(self):
        while not self.stop.wait(0.001):
            self.drain()


@pytest.fixture
def device(null_library, install):
    install("null", "NullBackend", repr(str(null_library)))
    made = Device(null_library)
    yield made
    gc.collect()
    assert made.drain() == 0  # what was dropped was cancelled
    assert made.live_handles() <= 1  # the driver's


def test_a_run_without_a_device_is_done_when_it_starts():
    torch = pytest.importorskip("torch")
    model = edgecore.load(edgecore.compile(torch.nn.ReLU().eval(), (torch.ones(SIZE),)).buffer)
    run = model.forward.start(X - 2)
    assert run.done()
    assert run.wait().tolist() == [0, 0, 0, 1]
    assert isinstance(model.forward.start(torch.ones(SIZE)).wait(), torch.Tensor)


def test_a_run_goes_on_when_its_device_is_done(device):
    model = edgecore.load(program(PENDING, PENDING))
    run = model.forward.start(X)
    assert not run.done()
    assert device.drain() == 1
    assert not run.done()  # the second delegate has begun
    assert device.drain() == 1
    assert run.done()
    result = run.wait()
    np.testing.assert_array_equal(result, 4 * X)
    assert run.wait() is result


@pytest.mark.parametrize("step", [1, 2])
def test_inputs_of_a_started_run_may_be_changed_at_once(device, step):
    model = edgecore.load(program(PENDING))
    x = np.repeat(X, step)[::step]
    run = model.forward.start(x)
    x[:] = 0
    device.drain()
    np.testing.assert_array_equal(run.wait(), 2 * X)


def test_the_next_call_waits_for_a_started_run(device):
    model = edgecore.load(program(PENDING))
    with device:
        first, second = model.forward.start(X), model.forward.start(X + 1)
        assert first.done()
        np.testing.assert_array_equal(model.forward(X + 2), 2 * (X + 2))
        np.testing.assert_array_equal(second.wait(), 2 * (X + 1))
        np.testing.assert_array_equal(first.wait(), 2 * X)
        last = model.forward.start(X)
        model.reset()
        assert last.done()


def test_started_runs_may_be_awaited(device):
    model = edgecore.load(program(PENDING, PENDING, methods=("a", "b")))

    async def both():
        return await asyncio.gather(*[work(model[name], k) for k, name in enumerate(model)])

    async def work(method, k):
        return [await method.start(X + k + i) for i in range(3)]

    with device:
        for k, results in enumerate(asyncio.run(both())):
            np.testing.assert_array_equal(results, [4 * (X + k + i) for i in range(3)])


def test_several_threads_may_start_runs_of_one_method(device):
    model = edgecore.load(program(PENDING, 0, PENDING))

    def start(k):
        for i in range(20):
            run = model.forward.start(X + k + i)
            if i % 3:
                np.testing.assert_array_equal(run.wait(), 8 * (X + k + i))

    with device, ThreadPoolExecutor(3) as pool:
        list(pool.map(start, (0, 100, 200)))


def test_a_run_that_is_dropped_is_ended(device):
    model = edgecore.load(program(PENDING))
    model.forward.start(X)
    with device:
        np.testing.assert_array_equal(model.forward(X + 1), 2 * (X + 1))
    run = model.forward.start(X)
    del model
    assert not run.done()  # it keeps the model
    del run


def test_a_model_may_be_dropped_while_its_device_works(device):
    data = program(PENDING, PENDING)
    with device:
        for _ in range(30):
            edgecore.load(data).forward.start(X)


def test_a_failure_of_a_started_run_is_raised_by_wait(device):
    model = edgecore.load(program(PENDING | FAILS))
    with pytest.raises(ExecutionError, match=r"Input 0 of method 'forward': dim 0 must be 4, got 5"):
        model.forward.start(np.zeros(5, np.float32))
    with pytest.raises(ExecutionError, match="takes 1 input; got 2"):
        model.forward.start(X, X)
    run = model.forward.start(X)
    device.drain()
    assert run.done()
    for _ in range(2):
        with pytest.raises(ExecutionError, match=r"Method 'forward', instruction 0, .*: the device was lost\."):
            run.wait()


def test_signals_are_handled_while_a_run_is_waited_for(device):
    class Heard(Exception):
        pass

    def hear(*_):
        raise Heard

    model = edgecore.load(program(PENDING))
    run = model.forward.start(X)
    before = signal.signal(signal.SIGALRM, hear)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        began = time.monotonic()
        with pytest.raises(Heard):
            run.wait()
        assert time.monotonic() - began < 30
    finally:
        signal.signal(signal.SIGALRM, before)
    device.drain()
    np.testing.assert_array_equal(run.wait(), 2 * X)


def test_options_of_a_backend_are_set_between_runs(device):
    model = edgecore.load(program(PENDING, methods=("a", "b")), options={"null": {"gain": 3}})
    run = model["a"].start(X)
    with device:
        model.set_options("null", {"gain": 0.5})
        np.testing.assert_array_equal(run.wait(), 6 * X)
        np.testing.assert_array_equal(model["b"](X), X)
    model.set_options("NullBackend", {"gain": 2})
    np.testing.assert_array_equal(model["a"](X), 4 * X)
    with pytest.raises(
        ExecutionError, match="NullBackend has no option 'name' that can be set after loading; it has: gain"
    ):
        model.set_options("null", {"gain": 7, "name": "x"})
    with pytest.raises(ExecutionError, match="option 'gain' of the backend NullBackend is of type float; got bool"):
        model.set_options("null", {"gain": True})
    with pytest.raises(BackendError, match="options for acme, but the backends that the file needs are: NullBackend"):
        model.set_options("acme", {"gain": 7})
    np.testing.assert_array_equal(model["a"](X), 4 * X)


def test_state_of_a_backend_is_exported_and_imported(device):
    data = program(PENDING | STATE, methods=("prefill", "decode"))
    model = edgecore.load(data, share_state=True)
    assert model["prefill"](X).tolist() == [6, 8, 10, 12]  # 2 x, and the sum so far
    state = model.export_state()
    model["decode"](X)
    model.import_state(state)
    assert model["decode"](X).tolist() == [12, 14, 16, 18]
    other = edgecore.load(data, share_state=True)
    run = other["decode"].start(X)
    with device:
        other.import_state(state)
    assert run.done()
    assert other["decode"](X).tolist() == [12, 14, 16, 18]


def test_runs_of_two_sessions_are_pending_at_the_same_time_and_do_not_mix(device):
    model = edgecore.load(program(PENDING | STATE))
    session = model.new_session()
    runs = [one.forward.start(X) for one in (model, session, model.new_session())]
    del model
    assert not any(run.done() for run in runs)
    with device:
        assert [run.wait().tolist() for run in runs] == [[6, 8, 10, 12]] * 3
        assert session.forward(X).tolist() == [12, 14, 16, 18]


def test_methods_that_share_the_state_of_a_backend_run_one_after_the_other(device):
    model = edgecore.load(program(PENDING | STATE, methods=("prefill", "decode")), share_state=True)
    first = model["prefill"].start(X)
    with device:
        second = model["decode"].start(X)  # waits for the first
        assert first.done()
        assert second.wait().tolist() == [12, 14, 16, 18]


def test_after_a_run_that_failed_the_state_of_a_backend_must_be_reset(device):
    model = edgecore.load(program(PENDING | STATE))
    with device:
        with pytest.raises(ExecutionError, match="the sum is not a number"):
            model.forward.start(X * np.nan).wait()
        for refused in (lambda: model.forward(X), model.export_state):
            with pytest.raises(ExecutionError, match="keeps is undefined, because a run has failed") as error:
                refused()
            assert error.value.code == ErrorCode.INVALID_STATE
        model.reset()
        assert model.forward(X).tolist() == [6, 8, 10, 12]
