"""The steps of a sweep (compile or measure a file): each runs in a process, and the store keeps its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from edgecore.sweeps.fingerprint import digest
from edgecore.sweeps.options import Limits
from edgecore.sweeps.plan import Build, Cell
from edgecore.sweeps.results.result import Status

FILE, REPORT, RESULT = "model.pte", "report.html", "result.json"
Kind = Literal["build", "time"]


@dataclass(frozen=True)
class Step:
    """One process of a sweep or search.

    Attributes:
        kind: "build" compiles a file, "time" measures its times.
        build: The inputs of the compilation.
        limits: Limits of the process.
        needs: Resources that a Ray node must offer to run the step.
        threads: Number of threads of a measurement; 0 for the default.
        runs: Number of measured runs.
        processor: The processor of the machine that measures.
    """

    kind: Kind
    build: Build
    limits: Limits
    needs: tuple[str, ...] = ()
    threads: int = 0
    runs: int = 0
    processor: str = ""

    @property
    def name(self) -> str:
        """The name of the step for messages: model/backend/recipe/runtime, and for measurements the threads."""
        build = self.build
        text = f"{build.model}/{build.backend}/{build.recipe}/{build.runtime}"
        return text if self.kind != "time" else f"{text}, {self.threads or 'default'} threads"

    def result_file(self) -> str:
        """Return the path of the step's result within the store. The path of a measurement depends on the processor."""
        time = f"time-{self.threads}-{self.runs}-{digest(self.processor)[:8]}.json"
        return f"{self.build.key}/{RESULT if self.kind == 'build' else time}"

    def text(self) -> str:
        """Return the step as JSON, from which `of_text` makes an equal step."""
        return json.dumps({**asdict(self), "limits": self.limits.model_dump()})

    @classmethod
    def of_text(cls, text: str) -> Step:
        """Make a step from the JSON that `Step.text` has returned."""
        content = json.loads(text)
        parts = {
            "build": Build(**content["build"]),
            "limits": Limits(**content["limits"]),
            "needs": tuple(content["needs"]),
        }
        return cls(**{**content, **parts})


@dataclass(frozen=True)
class StepResult:
    """The result of a step: of one compilation or measurement.

    Attributes:
        status: As in `CellResult`.
        reason: One sentence that says why the status is not `ok`; else empty.
        seconds: The time of the process.
        figures: Fields of `CellResult` that the step computed.
        inputs: Digests of the user's files and folders that the step has read.
        by: Name of the limit that was exceeded: "seconds", "memory" or "".
        limit: The value of that limit; a step with a larger limit runs again.
        transient: True if the machine failed, not the step. Such a result is not stored.
    """

    status: Status
    reason: str = ""
    seconds: float = 0.0
    figures: Mapping[str, Any] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    by: str = ""
    limit: float = 0.0
    transient: bool = False


def build_step(cell: Cell, limits: Limits) -> Step:
    """Return the step that compiles the file of a cell."""
    return Step("build", cell.build, limits, cell.needs)


def time_step(cell: Cell, limits: Limits, processor: str) -> Step:
    """Return the step that measures the times of a cell on a processor."""
    return Step("time", cell.build, limits, cell.needs, cell.threads, cell.runs, processor)
