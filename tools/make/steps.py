"""Steps of the build, and the rule that decides when one runs."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAMPS = ROOT / ".stamps"
BYPRODUCTS = {"__pycache__", "build", "corpus"}  # folders that are no inputs of a build; fuzzers read `corpus` later
DRY_RUN = False


@dataclass(frozen=True)
class Step:
    """Commands, and the files and steps that they depend on.

    `inputs` and `sources` are files and folders below ROOT; tests in `sources` do not count. The steps of `needs` and
    `after` are brought up to date first; the step runs again after a step in `needs` has run.
    """

    title: str
    commands: Callable[[], object]
    inputs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def files(self) -> list[Path]:
        sources = [path for path in files_below(self.sources) if not path.name.endswith("_test.cpp")]
        return sorted([*files_below(self.inputs), *(path for path in sources if "tests" not in path.parts)])


def files_below(names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        if (ROOT / name).is_file():
            yield Path(name)
        for folder, folders, files in os.walk(ROOT / name):
            folders[:] = [each for each in folders if each not in BYPRODUCTS]
            yield from (Path(folder, file).relative_to(ROOT) for file in files)


def bring_up_to_date(names: Iterable[str], steps: dict[str, Step]) -> None:
    """Run the steps `names` and the steps before them, except those that are up to date (`due`)."""
    begin = time.monotonic()
    names_due = due(names, steps)
    for number, name in enumerate(names_due, 1):
        minutes, seconds = divmod(round(time.monotonic() - begin), 60)
        print(f"\033[1m==> [{number}/{len(names_due)}, {minutes}:{seconds:02}] {steps[name].title}\033[0m", flush=True)
        started = time.time()
        steps[name].commands()
        if not DRY_RUN:
            STAMPS.mkdir(exist_ok=True)
            stamp = STAMPS / name
            stamp.write_text(digest(steps[name].files()))
            os.utime(stamp, (started, started))  # so that a file that is edited during the step is newer


def due(names: Iterable[str], steps: dict[str, Step]) -> list[str]:
    """Return the steps to run for `names`, in order.

    A step is due unless its stamp is newer than its files and than the stamps of the steps that it needs.
    """
    is_due: dict[str, bool] = {}

    def visit(name: str) -> None:
        if name in is_due:
            return
        step, stamp = steps[name], STAMPS / name
        for other in (*step.needs, *step.after):
            visit(other)
        files = step.files()
        has_due_needs = any(is_due[other] for other in step.needs)
        is_due[name] = (
            has_due_needs
            or not stamp.exists()
            or stamp.read_text() != digest(files)
            or is_older(stamp, files, step.needs)
        )

    for name in names:
        visit(name)
    return [name for name, must_run in is_due.items() if must_run]


def digest(files: list[Path]) -> str:
    """Return a hash of the files' names, which differs after a file was deleted."""
    return hashlib.sha256("\n".join(map(str, files)).encode()).hexdigest()


def is_older(stamp: Path, files: list[Path], needs: tuple[str, ...]) -> bool:
    paths = [*(ROOT / file for file in files), *(STAMPS / name for name in needs)]
    return max((path.lstat().st_mtime for path in paths), default=0) > stamp.stat().st_mtime


def run(*command: str | Path, check: bool = True) -> bool:
    """Run a command in ROOT. If it fails, return False, or end the program if `check` is true."""
    print(shlex.join(map(str, command)), flush=True)
    if DRY_RUN:
        return True
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if status and check:
        sys.exit(status)
    return status == 0


def run_build(*command: str | Path) -> None:
    """Run a command in ROOT that builds with Ninja, and print its progress ("[3/10]" in its output) at each 20 %.

    If the command fails, print all of its output and end the program.
    """
    print(shlex.join(map(str, command)), flush=True)
    if DRY_RUN:
        return
    lines: list[str] = []
    fifth = 0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            counts = re.match(r"\s*\[(\d+)/(\d+)\]", line)
            if counts and 5 * int(counts[1]) // int(counts[2]) != fifth:
                fifth = 5 * int(counts[1]) // int(counts[2])
                print(f"{20 * fifth} % of {counts[2]} files", flush=True)
    if process.returncode:
        sys.exit("".join(lines))


def output_of(*command: str | Path) -> str:
    """Run a command in ROOT and return the line that it prints; in a dry run, the command itself."""
    print(shlex.join(map(str, command)), flush=True)
    if DRY_RUN:
        return f"$({shlex.join(map(str, command))})"
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
