"""What a check is, and what it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgecore.backend import Backend
    from edgecore.plugin import BackendCompiler, BackendInfo


class Failed(Exception):
    """The backend does not do what the check asks: a sentence with what and where."""


class Skipped(Exception):
    """The check does not apply to this backend or machine: the reason."""


@dataclass(frozen=True)
class Check:
    """One check. `run` gives a detail for the report, or raises `Failed` or `Skipped`; any other exception is a failure.

    `seconds`: how long it may be silent (see `BackendUnderTest.trying`) before it counts as hanging.
    `needs_run`: it executes delegates, so it is skipped where the backend cannot run.
    """

    name: str
    run: Callable[[BackendUnderTest], str]
    seconds: float = 60
    needs_run: bool = False

    @property
    def group(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Declared:
    """What the table of the native library says: its flags by name, and whether it could be read."""

    flags: frozenset[str] = frozenset()
    load_options: tuple[Mapping[str, Any], ...] = ()
    """name, type, when, help of each."""


@dataclass
class BackendUnderTest:
    """The backend under test."""

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
    """For files of the checks; removed afterwards."""
    library: Path | None
    """The native library; None if the backend compiles only."""
    declared: Declared
    cannot_run: str = ""
    """Why this machine cannot execute its delegates, empty if it can."""
    individually: bool = False
    """The check ran before and died: it shall try its inputs one by one, to name the guilty one."""
    last_input: str = ""
    """What was tried last in this check."""
    report_input: Callable[[str], None] = lambda text: None
    cache: dict[Any, Any] = field(default_factory=dict)
    """Compiled programs that several checks use."""

    @property
    def backend_id(self) -> str:
        """As in the `.pte`."""
        return self.info.backend_id

    @property
    def backend(self) -> Backend:
        """For `edgecore.compile(backends=[...])`."""
        from edgecore.backend import Backend

        return Backend(self.name, **self.options)

    def trying(self, what: str) -> None:
        """Say which input is tried next: a death or a hang is reported with it. Restarts the clock of `Check.seconds`."""
        self.last_input = what
        self.report_input(what)
