"""Define `Check`, one check of the conformance suite, and `BackendUnderTest`, the argument of its function."""

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
    """A check raises this exception if the backend fails the check. The message says what is wrong and where."""


class Skipped(Exception):
    """A check raises this exception if it does not apply to the backend or machine. The message is the reason."""


@dataclass(frozen=True)
class Check:
    """One check of the conformance suite.

    Attributes:
        name: Name of the form `group/name`, such as "blobs/truncated".
        run: Function that performs the check and returns one line for the report. Raises `Failed` or `Skipped`; any
            other exception counts as a failure, too.
        seconds: Time limit between two calls of `BackendUnderTest.trying`. A check that exceeds it counts as hanging.
        needs_run: True if the check executes delegates. The suite skips it if this machine cannot run them.
        in_process: The reason that the check needs the runtime in the suite's own process. If the suite runs files by
            an external command (`run(runner=...)`), it skips the check with this reason. Empty if the external command
            suffices.
    """

    name: str
    run: Callable[[BackendUnderTest], str]
    seconds: float = 60
    needs_run: bool = False
    in_process: str = ""

    @property
    def group(self) -> str:
        """The group of the check: the part of its name before the slash."""
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Declared:
    """Facts from the function table that a backend's native library exports; empty if the library does not load."""

    flags: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    """Names of the functions whose pointers in the table are not null, such as `execute`."""
    load_options: tuple[Mapping[str, Any], ...] = ()
    """The options that the library takes: one dict for each, with the keys name, type, when, help."""


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
    """Temporary folder for the files that checks write."""
    library: Path | None
    """Path of the backend's native library; None if the backend only compiles."""
    declared: Declared
    cannot_run: str = ""
    """Reason that this machine cannot execute the backend's delegates; empty if it can."""
    individually: bool = False
    """True if this check killed the worker process in an earlier attempt: the check then tries its inputs one by one,
    so that the error names the culprit."""
    last_input: str = ""
    """The input that the running check tries: the last argument of `trying`."""
    runner: Runner | None = None
    """The external command that runs compiled files; None: the runtime in this process runs them."""
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
        """The load options under test as the argument `options` of `edgecore.load`: `{"acme": {name: value}}`."""
        return {self.backend_id: dict(self.load_options)} if self.load_options else {}

    @property
    def backend(self) -> Backend:
        """The backend with the options under test, for `edgecore.compile(backends=[...])`."""
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

        If the process crashes or hangs, the error message contains this input.
        """
        self.last_input = description
        self.report_input(description)
