"""`Check`, the type of all checks, and `BackendUnderTest`, their argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgecore.backend import Backend
    from edgecore.conformance.workers.runner import Runner
    from edgecore.plugin import BackendCompiler, BackendInfo, OperatorSupport


class Failed(Exception):
    """The backend fails a check. The text says what is wrong and where."""


class Skipped(Exception):
    """The check does not apply to this backend or machine. The text is the reason."""


@dataclass(frozen=True)
class Check:
    """One check of the suite.

    Attributes:
        name: `group/name`.
        run: Performs the check and returns a detail for the report. Raises `Failed` or `Skipped`; any other exception
            is a failure, too.
        seconds: Time limit between two calls of `BackendUnderTest.trying`. A check that exceeds it counts as hanging.
        needs_run: True if the check executes delegates. It is skipped if this machine cannot run them.
        in_process: The reason that the check needs the runtime in this process; `run(runner=...)` reports it when it
            skips the check. Empty if a runner can do the check.
    """

    name: str
    run: Callable[[BackendUnderTest], str]
    seconds: float = 60
    needs_run: bool = False
    in_process: str = ""

    @property
    def group(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Declared:
    """Parts of the table that the native library exports; empty if the library does not load."""

    flags: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    """Names of the functions that the table has."""
    load_options: tuple[Mapping[str, Any], ...] = ()
    """One dict for each option, with the keys name, type, when, help."""


@dataclass
class BackendUnderTest:
    """The backend that the suite checks, the settings of this run, and data that checks share."""

    name: str
    info: BackendInfo
    compiler: BackendCompiler
    distribution: str
    options: Mapping[str, Any]
    load_options: Mapping[str, Any]
    quick: bool
    tolerance: float | None
    seconds: float | None
    folder: Path
    """Temporary folder for files of the checks."""
    library: Path | None
    """The native library; None if the backend only compiles."""
    declared: Declared
    cannot_run: str = ""
    """Reason that this machine cannot execute the backend's delegates; empty if it can."""
    individually: bool = False
    """True if the process died in this check before. The check then tries its inputs one by one to find the culprit."""
    last_input: str = ""
    """The last argument of `trying` in this check."""
    runner: Runner | None = None
    """The command that runs delegates; None: the runtime in this process runs them."""
    limit: float = 60
    """Time limit of the running check, in seconds; see `Check.seconds`."""
    report_input: Callable[[str], None] = lambda text: None
    cache: dict[Any, Any] = field(default_factory=dict)
    """Compiled programs and other results that several checks use."""

    @property
    def backend_id(self) -> str:
        """Id of the backend in the `.pte`."""
        return self.info.backend_id

    @property
    def options_of_load(self) -> dict[str, dict[str, Any]]:
        """The load options under test, as `edgecore.load(..., options=...)` takes them."""
        return {self.backend_id: dict(self.load_options)} if self.load_options else {}

    @property
    def backend(self) -> Backend:
        """The backend and its options for `edgecore.compile(backends=[...])`."""
        from edgecore.backend import Backend

        return Backend(self.name, **self.options)

    @property
    def operators(self) -> Sequence[OperatorSupport]:
        """The operators that the backend claims with the options under test."""
        from edgecore.plugin import TargetingCompiler

        if isinstance(self.compiler, TargetingCompiler):
            return self.compiler.operator_support_with(self.compiler.Options(**self.options))
        return self.compiler.operator_support()

    def trying(self, description: str) -> None:
        """Report the input that the check tries next, and restart the time limit `Check.seconds`.

        If the process crashes or hangs, the error message contains the description.
        """
        self.last_input = description
        self.report_input(description)
