"""Steps of the build, and the rule that decides when one runs."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAMPS = ROOT / ".stamps"
BYPRODUCTS = {"__pycache__", "build", "corpus"}  # a fuzzer reads its corpus when it runs
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


def bring_up_to_date(name: str, steps: dict[str, Step], ran: dict[str, bool]) -> None:
    """Run the step `name`, unless its stamp is newer than its files and needed steps; first the steps before it.

    Args:
        name: A key of `steps`.
        steps: All steps by name.
        ran: The steps that this function has seen, and True for those that it has run.
    """
    if name in ran:
        return
    step, stamp = steps[name], STAMPS / name
    for other in (*step.needs, *step.after):
        bring_up_to_date(other, steps, ran)

    started = time.time()
    files = step.files()
    names = hashlib.sha256("\n".join(map(str, files)).encode()).hexdigest()  # so that a deleted file counts
    needed = any(ran[other] for other in step.needs)
    ran[name] = needed or not stamp.exists() or stamp.read_text() != names or is_older(stamp, files, step.needs)
    if ran[name]:
        print(f"\033[1m==> {step.title}\033[0m", flush=True)
        step.commands()
    if ran[name] and not DRY_RUN:
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(names)
        os.utime(stamp, (started, started))  # a file that was edited meanwhile is newer


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


def output_of(*command: str | Path) -> str:
    """Run a command in ROOT and return the line that it prints; in a dry run, the command itself."""
    print(shlex.join(map(str, command)), flush=True)
    if DRY_RUN:
        return f"$({shlex.join(map(str, command))})"
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
