"""Ctrl-C and other signals end a command with one line, without half files, and without living processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecore.processes.interrupts import Interrupted, raise_at_signals, uninterrupted

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
SECONDS = 120

MODELS = """
import time
from pathlib import Path

def wait():
    # A signal that comes just before a sleep does not end it, so that a single long one could miss the signal.
    for _ in range(6000):
        time.sleep(0.1)

def waits():
    Path("begun").touch()
    wait()

def calls_a_compiler():
    from edgecore.processes.command import run_command

    run_command(["sh", "-c", "touch begun; sleep 600 & wait"])

def half_a_file():
    import torch
    import edgecore.format

    def half(pte, file):
        file.write(b"half of it")
        file.flush()
        Path("begun").touch()
        wait()

    edgecore.format.write_pte_to = half
    return torch.nn.ReLU().eval(), (torch.ones(2),)
"""


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Undo ignored signals, which commands would inherit: shells ignore SIGINT in the background, `nohup` SIGHUP."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Command:
    """An `edgecore` command in a folder with the module `nets`; all processes that it starts carry its mark."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        (folder / "nets.py").write_text(MODELS)
        self.folder, self.mark = folder, f"EDGECORE_TEST_MARK={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "edgecore", *arguments],
            cwd=folder,
            env={**os.environ, name: value, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, path: str) -> None:
        end = time.monotonic() + SECONDS
        while not (self.folder / path).exists():
            assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
            assert time.monotonic() < end, f"{path} does not appear"
            time.sleep(0.02)

    def processes(self) -> set[int]:
        """Living processes with the mark."""
        found = set()
        for environment in Path("/proc").glob("[0-9]*/environ"):
            try:
                if self.mark.encode() in environment.read_bytes():
                    found.add(int(environment.parent.name))
            except OSError:
                continue
        return found

    def files(self) -> list[str]:
        return sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*"))

    def stop(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Send a signal to the command, as a terminal does; return the exit status and the text on stderr."""
        os.killpg(self.process.pid, number)
        error = self.process.communicate(timeout=SECONDS)[1]
        end = time.monotonic() + 5
        while self.processes() and time.monotonic() < end:  # a killed process disappears when init has read its status
            time.sleep(0.02)
        return self.process.returncode, error

    def kill(self) -> None:
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def start(tmp_path) -> Iterator:
    commands: list[Command] = []

    def begin(*arguments: str) -> Command:
        commands.append(Command(tmp_path, *arguments))
        return commands[-1]

    yield begin
    for command in commands:
        command.kill()


@linux
@pytest.mark.parametrize(
    ("number", "status", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 129, "terminated")],
)
def test_a_signal_ends_a_command_with_one_line_and_the_status_that_shells_know(start, number, status, word):
    command = start("compile", "nets:waits")
    command.wait_for("begun")
    assert command.stop(number) == (status, f"edgecore: {word}\n")


@linux
def test_an_interrupted_compile_leaves_no_half_file_and_keeps_the_old_one(start, tmp_path):
    (tmp_path / "half_a_file.pte").write_bytes(b"the old program")
    command = start("compile", "nets:half_a_file", "--etrecord", "record")
    command.wait_for("begun")
    assert command.stop() == (130, "edgecore: interrupted\n")
    assert command.files() == ["begun", "half_a_file.pte", "nets.py"]
    assert (tmp_path / "half_a_file.pte").read_bytes() == b"the old program"


@linux
@pytest.mark.parametrize("name", ["sweep", pytest.param("search", marks=pytest.mark.slow)])
def test_an_interrupted_sweep_leaves_no_process_and_no_scratch_folder(start, tmp_path, name):
    (tmp_path / "s.toml").write_text(
        'models = ["nets:calls_a_compiler"]\nbackends = ["kernels"]\nrecipes = ["float"]\n'
    )
    command = start(*(["sweep", "s.toml", "-o", "out"] if name == "sweep" else ["search", "nets:calls_a_compiler"]))
    command.wait_for("begun")
    assert len(command.processes()) >= 3, "the command, its step, and the compiler"
    status, error = command.stop()
    assert status == 130 and error.splitlines()[-1] == "edgecore: interrupted"
    assert not command.processes()
    assert not [path for path in command.files() if "partial" in path]


@linux
@pytest.mark.slow
def test_an_interrupted_conformance_suite_leaves_no_process(start):
    command = start("conformance", "xnnpack", "--quick", "-k", "operators/", "--json", "rows.json")
    assert command.process.stdout is not None
    command.process.stdout.readline()  # the first group of checks: a worker runs them
    assert len(command.processes()) >= 3, "the command, the server of workers, and a worker"
    assert command.stop() == (130, "edgecore: interrupted\n")
    assert not command.processes()
    assert command.files() == ["nets.py"]


@pytest.fixture
def handled() -> Iterator[None]:
    """Signals raise exceptions during the test."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    raise_at_signals()
    yield
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGTERM, before[1])


@pytest.mark.usefixtures("handled")
def test_clean_up_code_runs_to_its_end_before_a_signal_is_raised():
    steps = []
    with pytest.raises(Interrupted) as caught, uninterrupted():
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGTERM)
            steps.append("inner")
        steps.append("outer")
    assert steps == ["inner", "outer"] and caught.value.status == 143
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("handled")
def test_an_ignored_signal_stays_ignored_as_nohup_wants():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise_at_signals()
    os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
