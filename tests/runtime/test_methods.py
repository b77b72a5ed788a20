"""Files with several methods: each is loaded when it is first used, with its backend and its memory."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import edgecore
from edgecore import format as fmt
from edgecore.devtools import Inspector
from edgecore.errors import BackendNotFound, ExecutionError

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def mixed(programs, toy_program) -> bytes:
    """A file with the methods `plain`, which needs no backend, and `toy`, a delegate of ToyBackend that adds one."""
    plain, toy = fmt.read_pte(programs["two"].read_bytes()), fmt.read_pte(toy_program.read_bytes())
    plans = [plain.program.execution_plan[0], toy.program.execution_plan[0]]
    plans[0].name, plans[1].name = "plain", "toy"
    both = fmt.PteFile(fmt.Program(execution_plan=plans), constants=plain.constants, delegate_blobs=toy.delegate_blobs)
    return fmt.write_pte(both)


class Wide(torch.nn.Module):
    """Needs an arena of 128 MiB."""

    def forward(self, x):
        return (x.reshape(6, 1) + torch.zeros(6, 5_000_000)).sum(1).reshape(2, 3) + x.sum()


class Twice(torch.nn.Module):
    def forward(self, x):
        return x * 2.0


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))

    def forward(self, x):
        self.total.add_(x)
        return self.total + 0.0


def compiled(**models):
    return edgecore.compile({n: m.eval() for n, m in models.items()}, dict.fromkeys(models, (torch.from_numpy(X),)))


def loads(program, path) -> int:
    """The number of methods that the trace saw being loaded."""
    program.trace.write(path)
    return sum(event.name == "Program::load_method" for block in Inspector(path).event_blocks for event in block.events)


def test_a_method_is_loaded_when_it_is_first_called(mixed, toy_package):
    program = edgecore.load(mixed)
    assert program.methods == ("plain", "toy")
    assert not any(map(program.is_method_loaded, program))
    assert program.toy.inputs[0].shape == (2, 3)
    assert program.toy.delegates == ("ToyBackend",)
    assert repr(program.toy).startswith("<edgecore.Method toy(")
    assert not program.is_method_loaded("toy"), "its description needs no loading"
    np.testing.assert_array_equal(program.toy(X), X + 1)
    assert list(map(program.is_method_loaded, program)) == [False, True]


def test_load_method_loads_a_method_by_its_name(mixed, toy_package):
    program = edgecore.load(mixed)
    assert program.load_method("toy") is program.toy
    assert program.is_method_loaded("toy")
    program.load_method("toy")  # nothing to do
    np.testing.assert_array_equal(program.toy.start(X).wait(), X + 1)
    for call in (program.load_method, program.is_method_loaded):
        with pytest.raises(KeyError, match="no method 'other'; it has: plain, toy"):
            call("other")


def test_only_the_method_that_needs_an_absent_backend_fails(mixed):
    program = edgecore.load(mixed)
    np.testing.assert_array_equal(program.plain(X)[0], X + X)
    for use in (lambda: program.toy(X), lambda: program.load_method("toy"), lambda: program.toy.delegate_bytes):
        with pytest.raises(BackendNotFound, match="'ToyBackend' is not installed"):
            use()
    assert not program.is_method_loaded("toy")
    np.testing.assert_array_equal(program.plain(X)[0], X + X)


def test_options_for_a_backend_are_checked_when_the_file_is_loaded(mixed, toy_package):
    assert edgecore.load(mixed, options={"toy": {"offset": 5.0}}).toy(X)[0, 0] == 5
    with pytest.raises(edgecore.errors.BackendError, match="options for acme, but .* are: ToyBackend"):
        edgecore.load(mixed, options={"acme": {}})


def test_options_for_an_absent_backend_say_that_it_is_not_installed(mixed):
    with pytest.raises(BackendNotFound, match="'ToyBackend' is not installed"):
        edgecore.load(mixed, options={"toy": {}})


SIZES = """
import sys
from array import array
from pathlib import Path
import edgecore

def address_space():
    return int(Path("/proc/self/statm").read_text().split()[0]) * 4096

x = memoryview(array("f", range(6))).cast("B").cast("f", (2, 3))
program, before = edgecore.load(sys.argv[1]), address_space()
program.small(x)
used = address_space()
assert used - before < 32 << 20, used - before
program.load_method("big")
assert address_space() - used > 100 << 20, address_space() - used
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_big_method_that_is_not_used_costs_no_memory(run_python, tmp_path):
    compiled(small=Twice(), big=Wide()).save(tmp_path / "two.pte")
    done = run_python(SIZES, tmp_path / "two.pte")
    assert done.returncode == 0, done.stderr


def test_threads_that_use_a_method_first_load_it_once(mixed, toy_package, tmp_path):
    program = edgecore.load(mixed, trace=True)
    start = threading.Barrier(8)

    def use(index):
        start.wait()
        return program.plain(X)[0] if index % 2 else program.toy(X)

    with ThreadPoolExecutor(8) as pool:
        for index, result in enumerate(pool.map(use, range(8))):
            np.testing.assert_array_equal(result, X + X if index % 2 else X + 1)
    assert loads(program, tmp_path / "trace.etdp") == 2


def test_a_trace_covers_methods_that_are_loaded_later(mixed, tmp_path):
    program = edgecore.load(mixed)
    program.trace.start("calls")
    with pytest.raises(ExecutionError, match="no method was loaded yet"):
        program.trace.write(tmp_path / "empty.etdp")
    program.plain(X)
    program.trace.write(tmp_path / "trace.etdp")
    names = [event.name for block in Inspector(tmp_path / "trace.etdp").event_blocks for event in block.events]
    assert names == ["Method::execute"]


def test_a_stopped_trace_does_not_start_with_a_method(mixed, tmp_path):
    program = edgecore.load(mixed, trace=True)
    program.trace.stop()
    program.plain(X)
    program.trace.write(tmp_path / "trace.etdp")
    names = [event.name for block in Inspector(tmp_path / "trace.etdp").event_blocks for event in block.events]
    assert names == ["Program::load_method"]


def test_a_session_loads_what_its_program_has_loaded(mixed):
    program = edgecore.load(mixed)
    program.load_method("plain")
    session = program.new_session()
    assert list(map(session.is_method_loaded, session)) == [True, False]
    np.testing.assert_array_equal(session.plain(X)[0], X + X)
    unused = edgecore.load(mixed).new_session()
    np.testing.assert_array_equal(unused.plain(X)[1], X * 3)


def test_state_of_methods_that_are_not_loaded_is_saved_and_restored():
    program = edgecore.load(compiled(count=Counter(), other=Counter()))
    program["count"](X)
    state = program.export_state()
    restored = edgecore.load(compiled(count=Counter(), other=Counter()))
    restored.import_state(state)
    np.testing.assert_array_equal(restored["count"](X), X * 2)
    np.testing.assert_array_equal(restored.other(X), X)


def test_methods_that_share_state_see_it_however_late_they_are_loaded():
    program = edgecore.load(compiled(count=Counter(), other=Counter()), share_state=True)
    program["count"](X)
    program["count"](X)
    np.testing.assert_array_equal(program.other(X), X * 3)
    np.testing.assert_array_equal(program["count"](X), X * 4)


def test_the_runtime_by_the_names_of_executorch_loads_one_method(mixed):
    from edgecore.runtime import Runtime

    program = Runtime.get().load_program(mixed)
    outputs = program.load_method("plain").execute([torch.from_numpy(X)])
    np.testing.assert_array_equal(outputs[0], X + X)
    with pytest.raises(BackendNotFound, match="ToyBackend"):
        program.load_method("toy")


LOGGED = """
import logging, sys, edgecore
texts = []

class Use(logging.Handler):
    def emit(self, record):
        texts.append(record.getMessage())
        assert model["toy"].planned_bytes >= 0

logging.getLogger("edgecore").addHandler(Use())
logging.getLogger("edgecore").setLevel(logging.INFO)
model = edgecore.load(sys.argv[1], options={"toy": {"log": True}})
assert not texts
model.load_method("toy")
assert texts == ["toy driver created"], texts
"""


def test_a_log_handler_may_use_the_method_whose_loading_it_hears_of(mixed, toy_package, run_python, tmp_path):
    (tmp_path / "mixed.pte").write_bytes(mixed)
    done = run_python(LOGGED, tmp_path / "mixed.pte", path=[toy_package])
    assert done.returncode == 0 and done.stderr == "", done.stderr
