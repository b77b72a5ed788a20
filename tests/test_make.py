"""The steps of tools/make: one runs when its files, or a step that it needs, have changed, and at no other time."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info < (3, 11):
    pytest.skip("tools/make reads plugins.toml with Python 3.11's tomllib", allow_module_level=True)

MAKE = Path(__file__).resolve().parents[1] / "tools" / "make"


class Project:
    """A folder with two steps, `library` and `program`, which needs it, and a third that only comes after `library`."""

    def __init__(self, folder: Path) -> None:
        spec = importlib.util.spec_from_file_location("make_steps", MAKE / "steps.py")
        assert spec is not None and spec.loader is not None
        self.module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.module.ROOT, self.module.STAMPS = folder, folder / ".stamps"
        self.folder, self.log = folder, []
        step = self.module.Step
        self.steps = {
            "library": step("", lambda: self.log.append("library"), ("library",), sources=("native",)),
            "program": step("", lambda: self.log.append("program"), ("program",), needs=("library",)),
            "later": step("", lambda: self.log.append("later"), after=("library",)),
        }
        for name in ("library/a.h", "library/b.h", "program/main.c", "native/x.cpp", "native/tests/y.cpp"):
            self.write(name, seconds=-10)

    def write(self, name: str, seconds: float = 10) -> None:
        """Write a file with a time that many seconds after the stamps."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        latest = max((stamp.stat().st_mtime for stamp in self.folder.glob(".stamps/*")), default=path.stat().st_mtime)
        os.utime(path, (latest + seconds, latest + seconds))

    def build(self, *names: str) -> list[str]:
        """Return the steps that ran, in order."""
        self.log.clear()
        self.module.bring_up_to_date(names, self.steps)
        return list(self.log)


@pytest.fixture
def project(tmp_path):
    built = Project(tmp_path)
    assert built.build("program", "later") == ["library", "program", "later"]
    return built


def test_a_build_without_changes_runs_nothing(project):
    assert project.build("program", "later") == []


def test_a_changed_file_runs_its_step_and_the_steps_that_need_it(project):
    project.write("library/a.h")
    assert project.build("program", "later") == ["library", "program"]


def test_a_step_runs_alone_if_only_its_own_file_has_changed(project):
    project.write("program/main.c")
    assert project.build("program", "later") == ["program"]


def test_a_step_that_was_needed_and_built_alone_counts_the_next_time(project):
    stamp = project.folder / ".stamps" / "program"
    os.utime(stamp, (0, 0))
    os.utime(project.folder / "program" / "main.c", (-1, -1))
    assert project.build("program") == ["program"]


def test_a_new_file_and_a_deleted_file_count_whatever_their_times(project):
    project.write("library/c.h", seconds=-10)
    assert project.build("program") == ["library", "program"]
    (project.folder / "library" / "b.h").unlink()
    assert project.build("program") == ["library", "program"]


@pytest.mark.parametrize("name", ["native/tests/y.cpp", "native/x_test.cpp", "library/__pycache__/a.pyc"])
def test_tests_and_byproducts_are_no_sources_of_a_wheel(project, name):
    project.write(name)
    assert project.build("program") == []


def test_a_failed_command_ends_the_build_without_a_stamp(project):
    project.steps["program"] = project.module.Step("", lambda: project.module.run("false"), ("program",))
    project.write("program/main.c")
    for _ in range(2):
        with pytest.raises(SystemExit):
            project.build("program")


def test_a_build_shows_its_progress_and_all_of_its_output_if_it_fails(project, capfd):
    script = "print('[1/2] a.c'); print('[2/2] b.c'); print('warning'); raise SystemExit({})"
    project.module.run_build(sys.executable, "-c", script.format(0))
    shown = capfd.readouterr().out.splitlines()
    assert shown[1:] == ["40 % of 2 files", "100 % of 2 files"]
    with pytest.raises(SystemExit, match="b.c\nwarning"):
        project.module.run_build(sys.executable, "-c", script.format(1))


def test_the_steps_of_each_plugin_have_a_package_and_are_known():
    def make(*arguments: str) -> str:
        command = [sys.executable, MAKE, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    names = make("--with", "name").split()
    folders = {path.parent.name for path in MAKE.parents[1].glob("plugins/*/pyproject.toml")}
    assert {f"edgecore-{name}" for name in names} == folders
    tested = {f"edgecore-{name}" for name in make("--with", "cpp_tests").split()}
    native = MAKE.parents[1].glob("plugins/*/native/**/CMakeLists.txt")
    assert tested == {path.parts[path.parts.index("plugins") + 1] for path in native if "_TESTS" in path.read_text()}
