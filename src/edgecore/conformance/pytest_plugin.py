"""Plugin for pytest: with `--edgecore-backend NAME` each check of the conformance suite is a test.

pytest loads this plugin in every run, so it imports nothing unless the option is given.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import pytest

    from edgecore.conformance.report import Row


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--edgecore-backend` and `--edgecore-quick` to pytest."""
    group = parser.getgroup("edgecore")
    group.addoption("--edgecore-backend", metavar="NAME", action="append", help="check this installed backend")
    group.addoption("--edgecore-quick", action="store_true", help="fewer sizes and repetitions")


def pytest_configure(config: pytest.Config) -> None:
    """If `--edgecore-backend` is given, register the part of the plugin that adds tests."""
    if config.getoption("edgecore_backend"):
        config.pluginmanager.register(_plugin(), "edgecore-conformance-checks")


def _plugin() -> Any:
    import pytest

    from edgecore.conformance.workers.session import list_checks, make_settings, rows
    from edgecore.errors import BackendError

    class Backend(pytest.Collector):
        """The tests of a backend. The first test starts the suite; each test reports the result of one check."""

        def prepare(self, quick: bool) -> list[pytest.Item]:
            self.settings = make_settings(self.name, quick=quick)
            self.rows: Iterator[Row] | None = None
            self.done: dict[str, Row] = {}
            try:
                names = list_checks(self.name, quick=quick)
            except BackendError as error:
                raise pytest.UsageError(str(error)) from None
            return [CheckItem.from_parent(self, name=f"{self.name}/{name}", check=name) for name in names]

        def collect(self) -> list[pytest.Item]:
            return []

        def row(self, check: str) -> Row:
            """Return the result of a check (a `Row`). Run the selected checks in order until this check has ended."""
            if self.rows is None:
                selected = [item.check for item in self.session.items if isinstance(item, CheckItem)]
                self.rows = rows(self.settings, selected, exactly=True)
            while check not in self.done:
                row = next(self.rows)
                self.done[row.name] = row
                if row.name == "installation/start":  # if no worker process starts, each test reports this failure
                    return row
            return self.done[check]

    class CheckItem(pytest.Item):
        """The test that reports the result of one check of the suite."""

        def __init__(self, *, check: str, **others: Any) -> None:
            super().__init__(**others)
            self.check = check

        def runtest(self) -> None:
            assert isinstance(self.parent, Backend)
            row = self.parent.row(self.check)
            self.add_report_section("call", "detail", row.detail)
            if row.outcome == "skipped":
                pytest.skip(row.detail)
            if row.outcome == "failed":
                pytest.fail(row.detail, pytrace=False)

        def reportinfo(self) -> tuple[str, None, str]:
            return f"edgecore conformance {self.name.partition('/')[0]}", None, self.name

    class Checks:
        @pytest.hookimpl(tryfirst=True)  # add the tests before pytest filters them by -k and -m
        def pytest_collection_modifyitems(
            self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
        ) -> None:
            for name in config.getoption("edgecore_backend"):
                backend = Backend.from_parent(session, name=name, nodeid=f"edgecore-conformance/{name}")
                items += backend.prepare(config.getoption("edgecore_quick"))

    return Checks()
