"""`PassManager` with the arguments of torch's and executorch's: the order of passes, how often they run, and their checks."""

from __future__ import annotations

import pytest
import torch
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.fx.passes.infra.pass_manager import this_before_that_pass_constraint

from edgecore.errors import CompileError
from edgecore.executorch.exir.passes import PassManager


@pytest.fixture
def graph_module():
    return torch.export.export(torch.nn.Tanh(), (torch.ones(2),)).graph_module


class Note(PassBase):
    """Notes what is called of it; the first `changes` calls change the graph."""

    def __init__(self, name, log, changes=0):
        self.name, self.log, self.changes = name, log, changes

    def requires(self, graph_module):
        self.log.append(f"before {self.name}")

    def ensures(self, graph_module):
        self.log.append(f"after {self.name}")

    def call(self, graph_module):
        self.log.append(self.name)
        self.changes -= 1
        return PassResult(graph_module, self.changes >= 0)


def order_of(log):
    return "".join(line for line in log if len(line) == 1)


@pytest.mark.parametrize(("steps", "order"), [(1, "ab"), (2, "abab"), (3, "ababab"), (9, "ababab")])
def test_passes_run_again_as_long_as_they_change_the_graph_and_with_their_conditions(graph_module, steps, order):
    logs = []
    for kind in (PassManager, pytest.importorskip("executorch.exir.pass_manager").PassManager):
        logs.append([])
        passes = [Note("a", logs[-1], changes=2), Note("b", logs[-1])]
        assert kind(passes, steps=steps)(graph_module).modified
    assert order_of(logs[0]) == order
    assert logs[0][:3] == ["before a", "a", "after a"] and all(log == logs[0] for log in logs)


def test_constraints_order_the_passes(graph_module):
    log = []
    a, b, c = (Note(name, log) for name in "abc")
    manager = PassManager([a, b, c], constraints=[this_before_that_pass_constraint(c, a)])
    with pytest.raises(RuntimeError, match="pass schedule constraint violated"):
        manager.validate_constraints()
    assert not manager(graph_module).modified and order_of(log) == "bca"
    manager.validate_constraints()
    manager.add_constraint(constraint=this_before_that_pass_constraint(c, b))
    manager.solve_constraints()
    assert manager.passes == [c, b, a]
    manager.add_constraint(this_before_that_pass_constraint(a, c))
    with pytest.raises(RuntimeError, match="Circular dependency"):
        manager(graph_module)
    assert order_of(log) == "bca"


def failing(word):
    def check(graph_module):
        raise ValueError(word)

    return check


def test_a_set_check_replaces_the_earlier_ones_and_an_added_one_does_not(graph_module):
    log = []
    manager = PassManager([Note("a", log), Note("b", log)], run_checks_after_each_pass=True)
    manager.add_checks(failing("first"))
    manager.set_checks(lambda module: log.append("second"))
    manager.add_checks(lambda module: log.append("third"))
    manager(graph_module)
    assert log == [line for name in "ab" for line in (f"before {name}", name, f"after {name}", "second", "third")]
    manager.check(graph_module)
    assert log[-2:] == ["second", "third"]
    manager.set_checks(failing("fourth"))
    with pytest.raises(CompileError, match="after the pass .*Note.*: fourth") as error:
        manager(graph_module)
    assert isinstance(error.value.__cause__, ValueError)


@pytest.mark.parametrize("condition", ["requires", "ensures"])
def test_a_condition_of_a_pass_that_does_not_hold_is_an_error_that_names_the_pass(graph_module, condition):
    log = []
    broken = Note("b", log)
    setattr(broken, condition, failing("not so"))
    with pytest.raises(CompileError, match="the pass Note failed: ValueError: not so") as error:
        PassManager([Note("a", log), broken, Note("c", log)], suppress_check_failures=True)(graph_module)
    assert isinstance(error.value.__cause__, ValueError)
    assert order_of(log) == ("a" if condition == "requires" else "ab")
