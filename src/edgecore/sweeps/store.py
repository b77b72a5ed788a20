"""The results of steps by content, in a folder: what is there is not computed again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from edgecore.devtools.track import processor
from edgecore.sweeps.fingerprint import digest, unchanged
from edgecore.sweeps.options import Limits
from edgecore.sweeps.plan import Build, Cell
from edgecore.sweeps.result import Status

FILE, REPORT, RESULT = "model.pte", "report.html", "result.json"


@dataclass(frozen=True)
class Step:
    """One process of a sweep: it makes the file of a build, or measures the times of a file.

    Attributes:
        kind: "build" or "time".
        build: What makes the file.
        limits: Limits of the process.
        threads: Number of threads of a measurement; 0 for the default.
        runs: Number of measured runs.
    """

    kind: Literal["build", "time"]
    build: Build
    limits: Limits
    threads: int = 0
    runs: int = 0

    @property
    def name(self) -> str:
        """A name for people."""
        one = self.build
        text = f"{one.model}/{one.backend}/{one.recipe}/{one.runtime}"
        return text if self.kind == "build" else f"{text}, {self.threads or 'default'} threads"

    def result_file(self) -> str:
        """Return the path of the step's result within the store. Times depend on the processor, too."""
        if self.kind == "build":
            return f"{self.build.key}/{RESULT}"
        return f"{self.build.key}/time-{self.threads}-{self.runs}-{digest(processor())[:8]}.json"

    def text(self) -> str:
        """Return the step as JSON."""
        return json.dumps({**asdict(self), "limits": self.limits.model_dump()})

    @classmethod
    def of_text(cls, text: str) -> Step:
        """Read what `text` returns."""
        content = json.loads(text)
        return cls(**{**content, "build": Build(**content["build"]), "limits": Limits(**content["limits"])})


@dataclass(frozen=True)
class StepResult:
    """The result of a step.

    Attributes:
        status: As of `CellResult`.
        reason: One sentence that says why the status is not `ok`; else empty.
        seconds: The time of the process.
        figures: Fields of `CellResult` that the step has found.
        inputs: Digests of the user's files and folders that the step has read.
        by: The limit that was exceeded: "seconds", "memory" or "".
        limit: The limit that was exceeded; a larger one makes the result void.
    """

    status: Status
    reason: str = ""
    seconds: float = 0.0
    figures: Mapping[str, Any] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    by: str = ""
    limit: float = 0.0


class Store:
    """The results of steps in a folder: for each build one folder with its file, its report and its results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, build: Build) -> Path:
        """Return the folder of a build."""
        return self.folder / build.key

    def find(self, step: Step) -> StepResult | None:
        """Return the result of a step if there is one that still holds."""
        try:
            found = StepResult(**json.loads((self.folder / step.result_file()).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        if found.by and found.limit < (step.limits.seconds if found.by == "seconds" else step.limits.memory_mb):
            return None
        return found if unchanged(found.inputs) else None

    def add(self, step: Step, result: StepResult, made: Path | None = None) -> None:
        """Keep the result of a step, as one change: after a kill it is there completely, or not at all.

        Args:
            step: The step.
            result: Its result.
            made: For a build, the folder of `scratch` with its files, which becomes that of the build.
        """
        target = self.folder / step.result_file()
        if made is not None:
            _write(made / RESULT, result)
            shutil.rmtree(target.parent, ignore_errors=True)
            made.rename(target.parent)
        else:
            partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
            _write(partial, result)
            partial.replace(target)

    def scratch(self, step: Step) -> Path:
        """Make an empty folder for the files of a build."""
        folder = self.folder / f"{step.build.key}.{os.getpid()}.partial"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def clean(self) -> None:
        """Remove what killed sweeps have left."""
        for path in self.folder.glob("**/*.partial"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _write(path: Path, result: StepResult) -> None:
    path.write_text(json.dumps(asdict(result)), encoding="utf-8")


def build_step(cell: Cell, limits: Limits) -> Step:
    """Return the step that makes the file of a cell."""
    return Step("build", cell.build, limits)


def time_step(cell: Cell, limits: Limits) -> Step:
    """Return the step that measures the times of a cell."""
    return Step("time", cell.build, limits, cell.threads, cell.runs)
