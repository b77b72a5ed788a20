"""Long work reports its tasks; a terminal shows them with the time left, and nothing else does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import edgecore
from edgecore.progress import Task, duration, reported_to, shown, task, track

posix = pytest.mark.skipif(sys.platform == "win32", reason="opens a pseudo-terminal")


def recorded(work):
    """(title, total, done, detail, ended) of each report."""
    seen = []
    with reported_to(lambda task: seen.append((task.title, task.total, task.done, task.detail, task.ended))):
        work()
    return seen


def test_a_listener_receives_the_beginning_the_steps_and_the_end():
    def work():
        with task("outer") as outer:
            outer.describe("the first part")
            assert list(track("ab", "inner")) == ["a", "b"]

    assert recorded(work) == [
        ("outer", None, 0, "", False),
        ("outer", None, 0, "the first part", False),
        ("inner", 2, 0, "", False),
        ("inner", 2, 1, "", False),
        ("inner", 2, 2, "", False),
        ("inner", 2, 2, "", True),
        ("outer", None, 0, "the first part", True),
    ]  # fmt: skip
    work()  # nobody listens


def test_a_task_that_fails_has_ended_for_the_listener():
    def work():
        with pytest.raises(ZeroDivisionError), task("fails"):
            raise ZeroDivisionError

    assert [report[-1] for report in recorded(work)] == [False, True]


def test_the_time_left_follows_from_the_steps_that_are_done(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 130.0)
    assert Task("t", 10, since=100.0).seconds_left is None, "no step is done"
    assert Task("t", None, done=3, since=100.0).seconds_left is None, "the number of steps is unknown"
    assert Task("t", 10, done=3, since=100.0).seconds_left == pytest.approx(70)
    late = Task("t", since=100.0)
    late.expect(10)
    late.done = 1
    monkeypatch.setattr("time.monotonic", lambda: 132.0)
    assert late.seconds_left == pytest.approx(18), "the 30 s before the number was known do not count"
    assert (duration(59.6), duration(200), duration(3)) == ("1 min 0 s", "3 min 20 s", "3 s")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x):
        return self.layers(x)


def test_compiling_reports_export_calibration_passes_and_partitions():
    inputs = (torch.randn(2, 8),)
    samples = [torch.randn(2, 8) for _ in range(3)]
    seen = recorded(
        lambda: edgecore.compile(Net().eval(), inputs, backends=["xnnpack"], quantize="int8", calibration=samples)
    )
    ends = {title: (total, done) for title, total, done, _, ended in seen if ended}
    assert ends["exporting forward"] == (None, 0)
    assert ends["calibrating"] == (3, 3)
    assert ends["compiling partitions"][0] == ends["compiling partitions"][1]
    passes = {detail for title, _, _, detail, _ in seen if title == "running passes"}
    assert "decompose" in passes and len(passes) > 5
    assert all(total == done for title, total, done, _, ended in seen if title == "running passes" and ended)


def test_the_samples_of_a_folder_are_counted_before_they_are_read(tmp_path):
    for index in range(2):
        np.save(tmp_path / f"{index}.npy", np.ones((2, 8), np.float32))
    seen = recorded(
        lambda: edgecore.compile(
            Net().eval(), (torch.ones(2, 8),), backends=["xnnpack"], quantize="int8", calibration=tmp_path
        )
    )
    assert ("calibrating", 2, 2, "", True) in seen


MODEL = """
import sys, time, torch

class Net(torch.nn.Module):
    def forward(self, x):
        if not torch.compiler.is_compiling():
            time.sleep(0.02)
        return x @ x

def net():
    print("printed by the model", file=sys.stderr)
    return Net().eval(), (torch.ones(8, 8),)

def slow_steps():
    from edgecore.progress import track

    for step in track(range(4), "preparing"):
        time.sleep(0.3)
    return net()
"""


def run_on_terminal(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run `edgecore` with a terminal as stderr and a pipe as stdout; return its status and what both received."""
    import pty

    (folder / "nets.py").write_text(MODEL)
    here, there = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "edgecore", *arguments],
        cwd=folder,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=there,
        text=True,
    )
    os.close(there)
    shown = bytearray()

    def read() -> None:
        try:
            while part := os.read(here, 1 << 16):
                shown.extend(part)
        except OSError:  # Linux reports the end of a terminal like this
            pass

    reader = threading.Thread(target=read)
    reader.start()
    out = process.communicate(timeout=120)[0]
    reader.join()
    os.close(here)
    return process.returncode, out, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


@posix
def test_a_terminal_shows_bars_with_the_time_left_and_keeps_what_the_work_printed(tmp_path):
    status, out, terminal = run_on_terminal(tmp_path, "compile", "nets:slow_steps")
    assert status == 0 and "slow_steps.pte" in out
    assert "loading nets:slow_steps" in terminal and "compiling nets:slow_steps" in terminal
    assert re.search(r"━.* [1-3]/4 [0-9]+ s left preparing", terminal), terminal
    assert terminal.rstrip().count("printed by the model") == 1
    assert "━" not in out and "left" not in out


def test_a_pipe_receives_no_progress_even_if_colors_are_forced(tmp_path):
    (tmp_path / "nets.py").write_text(MODEL)
    done = subprocess.run(
        [sys.executable, "-m", "edgecore", "compile", "nets:slow_steps"],
        cwd=tmp_path,
        env={**os.environ, "FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stderr == "printed by the model\n"


def test_python_shows_nothing_without_a_terminal(capsys):
    with shown(), task("work"):
        pass
    assert capsys.readouterr() == ("", "")
