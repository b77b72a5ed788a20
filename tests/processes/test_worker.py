"""Workers that answer, print, crash, hang and go on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgecore.processes.worker import Worker, WorkerEnded, WorkerHangs

SECONDS = 60


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Worker]]:
    """start(code) starts a worker that runs this code for each `request`."""
    workers: list[Worker] = []

    def start(code: str) -> Worker:
        lines = "\n".join(f"        {line}" for line in code.splitlines())
        text = (
            f"import os, subprocess, sys, time\n\ndef serve(parent):\n    for request in parent.requests():\n{lines}\n"
        )
        (tmp_path / "target.py").write_text(text)
        workers.append(Worker("target:serve", [str(tmp_path), *sys.path]))
        return workers[-1]

    yield start
    for worker in workers:
        worker.close()


def test_a_worker_answers_and_what_it_prints_is_no_answer(start):
    worker = start(
        "print('printed', request, sys.stdin.read(), flush=True)\n"
        "subprocess.run('echo child; cat', shell=True)\n"
        "parent.send({'twice': request * 2, 'path': sys.path[-1]})"
    )
    for request in ("ab", [1, 2]):
        worker.forget_printed()
        worker.send(request)
        assert worker.receive(SECONDS) == {"twice": request * 2, "path": sys.path[-1]}
        assert worker.printed() == f"printed {request} \nchild\n"
    assert worker.alive
    worker.close(SECONDS)
    assert not worker.alive


def test_a_worker_that_dies_or_hangs_is_told(start):
    worker = start("parent.send('begins')\nprint('last words', flush=True)\nos.kill(os.getpid(), request)")
    worker.send(11)
    assert worker.receive(SECONDS) == "begins"
    for _ in range(2):
        with pytest.raises(WorkerEnded) as end:
            worker.receive(SECONDS)
        assert end.value.status == -11
    assert worker.printed() == "last words\n"
    worker.send(11)
    worker = start("time.sleep(1000)")
    worker.send(1)
    with pytest.raises(WorkerHangs):
        worker.receive(0.5)
    worker.close()
    assert not worker.alive


def test_a_fork_that_is_killed_in_the_middle_of_an_answer_spoils_no_other_one(start):
    worker = start(
        "child = os.fork()\n"
        "if not child:\n"
        "    os.write(parent._answers.fileno(), b'[\"half')\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "parent.send(request)"
    )
    for number in range(3):
        worker.send(number)
        assert worker.receive(SECONDS) == number
