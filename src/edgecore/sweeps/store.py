"""Store the results of steps by content in a folder, so that they are not computed again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from edgecore.processes.interrupts import uninterrupted
from edgecore.sweeps.fingerprint import unchanged
from edgecore.sweeps.plan import Build
from edgecore.sweeps.step import FILE, RESULT, Step, StepResult


class Store:
    """The stored results of steps: for each compilation one folder with its file, its report and all results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, build: Build) -> Path:
        """Return the folder with the file and results of a compilation."""
        return self.folder / build.key

    def find(self, step: Step) -> StepResult | None:
        """Return the stored result of a step; None if it is missing or its inputs or exceeded limit have changed."""
        result = self.read(step)
        if result is None:
            return None
        if result.by and result.limit < (step.limits.seconds if result.by == "seconds" else step.limits.memory_mb):
            return None
        return result if unchanged(result.inputs) else None

    def read(self, step: Step) -> StepResult | None:
        """Return the stored result of a step, even if it is outdated; None if there is none."""
        try:
            return StepResult(**json.loads((self.folder / step.result_file()).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def add(self, step: Step, result: StepResult, folder: Path) -> None:
        """Store the result of a step atomically: if this process is killed, the result is complete or absent.

        Args:
            step: The step.
            result: Its result.
            folder: The folder from `scratch`; for a build it becomes part of the store.
        """
        target = self.folder / step.result_file()
        _write(folder / RESULT, result)
        if step.kind == "build":
            shutil.rmtree(target.parent, ignore_errors=True)
            folder.rename(target.parent)
        else:
            (folder / RESULT).replace(target)
            self.discard(folder)

    def scratch(self, step: Step) -> Path:
        """Make a temporary folder for a running step. For a measurement, the folder has a link to the file."""
        name = step.result_file().replace("/", ".")
        folder = self.folder / f"{name}.{os.getpid()}.partial"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if step.kind == "time":
            (folder / FILE).symlink_to((self.path(step.build) / FILE).resolve())
        return folder

    def discard(self, folder: Path) -> None:
        """Remove a folder from `scratch`."""
        shutil.rmtree(folder)

    @contextmanager
    def cleaned(self) -> Iterator[None]:
        """Remove scratch folders of killed sweeps before the `with` block, and of this sweep after it."""
        self._clean()
        try:
            yield
        finally:
            with uninterrupted():
                self._clean()

    def _clean(self) -> None:
        for path in self.folder.glob("*.partial"):
            shutil.rmtree(path)


def _write(path: Path, result: StepResult) -> None:
    path.write_text(json.dumps(asdict(result)), encoding="utf-8")
