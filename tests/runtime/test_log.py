"""Messages of the runtime and of backends in Python's logging."""

from __future__ import annotations

import pytest

KEEP = """
import logging, sys, threading
from array import array
records = []

class Keep(logging.Handler):
    def emit(self, record):
        records.append((record.levelname, record.name, record.getMessage()))

logging.getLogger("edgecore").addHandler(Keep())
logging.getLogger("edgecore").setLevel(LEVEL)
import edgecore
x = memoryview(array("f", range(6))).cast("B").cast("f", (2, 3))
model = edgecore.load(sys.argv[1], threads=4, options={"toy": {"log": True}})
"""

ORDER = """
assert records == [("INFO", "edgecore", "toy driver created")], records
model.forward(x)
assert {record[2] for record in records[1:]} == {"toy part computed"}, records
assert len(records) > 1
"""

THREADS = """
def work(model):
    for _ in range(200):
        model.forward(x)

sessions = [model, *(model.new_session() for _ in range(3))]
threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
texts = [record[2] for record in records]
assert texts.count("toy part computed") >= 800, len(texts)
"""

FAILING = """
class Fails(logging.Handler):
    def emit(self, record):
        raise ValueError("this handler fails")

logging.getLogger("edgecore").addHandler(Fails())
assert model.forward(x).tolist() == [[1, 2, 3], [4, 5, 6]]
"""

QUIET = """
assert not records, records
model.forward(x)
assert not records, records
logging.getLogger("edgecore").setLevel(logging.INFO)
model.new_session().forward(x)  # the level counts from the next load on
assert records
"""

LEAVE = """
import sys
from array import array
import edgecore
x = memoryview(array("f", range(6))).cast("B").cast("f", (2, 3))
edgecore.load(sys.argv[1], options={"toy": {"log": True}}).forward(x)
assert ("logging" in sys.modules) == LOADED, "logging" in sys.modules
"""


@pytest.mark.parametrize("script", [ORDER, THREADS, FAILING], ids=["order", "threads", "failing"])
def test_messages_arrive_at_the_logger(toy_program, toy_package, run_python, script):
    done = run_python(KEEP.replace("LEVEL", "logging.INFO") + script, toy_program, path=[toy_package])
    assert done.returncode == 0, done.stderr
    assert ("this handler fails" in done.stderr) == (script is FAILING)


def test_the_level_of_the_logger_counts(toy_program, toy_package, run_python):
    done = run_python(KEEP.replace("LEVEL", "logging.WARNING") + QUIET, toy_program, path=[toy_package])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("level", "loud"), [(None, False), ("warning", False), ("info", True), ("off", False)])
def test_the_environment_sets_the_level(toy_program, toy_package, run_python, level, loud):
    environment = {} if level is None else {"EDGECORE_LOG": level}
    done = run_python(
        LEAVE.replace("LOADED", str(level is not None)), toy_program, path=[toy_package], environment=environment
    )
    assert done.returncode == 0, done.stderr
    assert ("edgecore info: toy driver created" in done.stderr) == loud
    assert ("edgecore info: toy part computed" in done.stderr) == loud
