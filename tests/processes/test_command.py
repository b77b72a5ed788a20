"""Commands: what they print, their limits, and that nothing which they have started outlives them."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from edgecore.processes.command import Ended, exit_text, last_line, run_command

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def shell(line: str, **settings: object) -> Ended:
    return run_command(["sh", "-c", line], **settings)  # type: ignore[arg-type]


def test_the_end_of_a_command_has_its_status_and_what_it_printed(tmp_path):
    done = shell("pwd; echo $WORD; printf 'a\\r\\nb' >&2; exit 3", folder=tmp_path, environment={"WORD": "x y"})
    assert done == Ended(3, f"{tmp_path}\nx y\n", "a\nb")
    assert (
        done.reason == "b"
        and Ended(3, "out\n\n", "").reason == "out"
        and Ended(-9, "", "").reason.startswith("signal 9")
    )
    with pytest.raises(OSError, match="No such file"):
        run_command(["/no/such/program"])


def test_the_input_is_written_while_the_output_is_read():
    part = bytes(range(256)) * 4096
    with tempfile.TemporaryFile() as file:
        done = run_command(["cat"], stdin=[part, part], stdout=file)
        file.seek(0)
        assert done.status == 0 and done.out == "" and file.read() == part * 2
    assert run_command(["cat"]).out == ""
    assert shell("exec 0<&-; exit 4", stdin=[part] * 4).status == 4


def test_only_the_end_of_an_endless_stderr_is_kept():
    done = shell("yes begin | head -c 1200000 >&2; echo end >&2", err_bytes=100)
    assert len(done.err) == 100 and last_line(done.err) == "end"


@linux
@pytest.mark.parametrize("limit", ["seconds", "cancelled", "memory", ""])
def test_what_a_command_has_started_ends_with_it(tmp_path, limit):
    stop = threading.Event()
    stop.set()
    settings = {"seconds": {"seconds": 2.0}, "cancelled": {"stop": stop}, "memory": {"memory_mb": 0.01}, "": {}}[limit]
    child = tmp_path / "child"
    ends = "" if limit == "" else "; wait"
    done = shell(f"sleep 600 >&- 2>&- & echo $! > {child}; mv {child} {child}.pid{ends}", **settings)
    assert done.stopped == limit and done.status == (-9 if limit else 0)
    if not Path(f"{child}.pid").exists():
        assert limit in ("cancelled", "memory")  # it was stopped before
        return
    status = Path("/proc", Path(f"{child}.pid").read_text().strip(), "stat")
    end = time.monotonic() + 60
    while runs(status):
        assert time.monotonic() < end
        time.sleep(0.05)


def runs(status: Path) -> bool:
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_status_of_a_process_is_told_in_words():
    assert exit_text(3) == "status 3"
    assert exit_text(-11) == "signal 11 (SIGSEGV)"
    assert exit_text(-40) == "signal 40"
    assert last_line("a\n b \n \n") == "b" and last_line("\n") == ""
