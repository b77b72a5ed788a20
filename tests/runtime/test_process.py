"""The runtime within a process: what it imports, forks, interpreters that end."""

from __future__ import annotations

import sys

PLAIN = """
import sys
from array import array
import edgecore
x = memoryview(array("f", range(6))).cast("B").cast("f", (2, 3))
assert edgecore.load(sys.argv[1]).forward(x, x).tolist() == [[0, 2, 4], [6, 8, 10]]
heavy = {"torch", "numpy", "pydantic", "typer", "rich", "flatbuffers", "jinja2"} & set(sys.modules)
assert not heavy, heavy
"""

# Without site-packages' own start-up code, which may import anything.
BACKEND = """
import sys
sys.path[:0] = sys.argv[2:]
from array import array
import edgecore
x = memoryview(array("f", range(6))).cast("B").cast("f", (2, 3))
assert edgecore.load(sys.argv[1]).forward(x).tolist() == [[1, 2, 3], [4, 5, 6]]
heavy = {"torch", "numpy", "pydantic", "pluggy", "importlib.metadata", "dataclasses", "typing", "inspect", "re", "enum"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""

TOY = """
import sys
from array import array
import edgecore
x = memoryview(array("f", range(6))).cast("B").cast("f", (2, 3))
model = edgecore.load(sys.argv[1], threads=2)
assert model.forward(x).tolist() == [[1, 2, 3], [4, 5, 6]]
heavy = {"torch", "numpy", "pydantic", "typer", "rich"} & set(sys.modules)
assert not heavy, heavy
"""

FORK = """
import os, sys
from array import array
import edgecore
x = memoryview(array("f", range(6))).cast("B").cast("f", (2, 3))
expected = [[1, 2, 3], [4, 5, 6]]
model = edgecore.load(sys.argv[1], threads=3)
assert model.forward(x).tolist() == expected
child = os.fork()
for _ in range(50):
    assert model.forward(x).tolist() == expected
assert edgecore.load(sys.argv[1], threads=2).forward(x).tolist() == expected
if child == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_load_and_run_imports_nothing_heavy(programs, run_python):
    done = run_python(PLAIN, programs["add"], options=["-X", "importtime"])
    assert done.returncode == 0, done.stderr[-2000:]
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "edgecore._runtime" in imported
    assert not {"torch", "numpy"} & imported


def test_loading_with_a_backend_imports_nothing_heavy(toy_program, toy_library, install_toy, run_python):
    folder = install_toy(repr(str(toy_library)))
    done = run_python(BACKEND, toy_program, *sys.path, path=[folder], options=["-S"])
    assert done.returncode == 0, done.stderr


def test_parent_and_child_run_after_a_fork(toy_program, toy_package, run_python):
    done = run_python(FORK, toy_program, path=[toy_package], options=["-W", "ignore"])
    assert done.returncode == 0, done.stderr


def test_the_environment_sets_the_log_level(toy_program, toy_package, run_python):
    quiet = run_python(TOY, toy_program, path=[toy_package])
    assert "toy driver" not in quiet.stderr
    loud = run_python(TOY, toy_program, path=[toy_package], environment={"EDGECORE_LOG": "info"})
    assert "edgecore info: toy driver created" in loud.stderr
