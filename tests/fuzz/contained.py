"""Run a part of a fuzzing run in a forked process, which may crash."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
"""A line of JSON in a progress file."""


def contained(number: int, folder: Path, work: Callable[[Row, Callable[[str], Any]], None]) -> Row:
    """Run `work(row, note)` in a forked process, and return the row.

    `work` adds to the row, and calls `note(text)` with what it is about to do. An exception becomes `finding` in the row.
    If the process dies, the row has the last note instead: as `finding`, or as `eager` if the note is empty, which says
    that PyTorch alone was running.
    """
    start = time.time()
    path, trying = folder / f"chunk-{number}.json", folder / f"trying-{number}.txt"
    trying.write_text("")
    child = os.fork()
    row: Row = {}
    if child == 0:
        try:
            work(row, trying.write_text)
        except BaseException:
            row["finding"] = f"the fuzzer itself: {traceback.format_exc()}"
        path.write_text(json.dumps({**row, "cpu": time.process_time()}))
        sys.stdout.flush()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status and not trying.read_text():
        row = {"eager": f"PyTorch ended the process with {status}"}
    elif status or not path.exists():
        row = {"finding": f"the process ended with {status} at\n{trying.read_text()}"}
    else:
        row = json.loads(path.read_text())
    path.unlink(missing_ok=True)
    trying.unlink(missing_ok=True)
    return {"seed": number, **row, "seconds": round(time.time() - start, 1)}


def read_rows(progress: Path) -> list[Row]:
    """Return the rows of a progress file; none if it does not exist."""
    return [json.loads(line) for line in progress.read_text().splitlines()] if progress.exists() else []


def add_row(progress: Path, row: Row) -> None:
    """Append a row to a progress file."""
    with progress.open("a") as file:
        file.write(json.dumps(row) + "\n")
