"""Checks before and after each pass, and what is reported where a pass fails."""

import pytest
import torch
from edge_programs import edge_of
from fake_backends import (
    CALL_OF_CONV,
    edge,
    exported,
)

from edgecore.errors import CompileError
from edgecore.ir.graph import calls, edit
from edgecore.passes import ExportPass, PassManager, remove_dead_code
from edgecore.pipeline import to_edge_transform_and_lower

aten = torch.ops.aten


def break_program(program):
    with edit(program) as graph_module:
        calls(graph_module)[0].meta.pop("val")
    return program


def test_a_check_that_fails_after_a_pass_names_the_pass(monkeypatch):
    x = torch.randn(2)
    monkeypatch.delenv("EDGECORE_VERIFY_PASSES", raising=False)
    assert PassManager([break_program])(edge_of(lambda s, x: x + 1, x))
    monkeypatch.setenv("EDGECORE_VERIFY_PASSES", "1")
    with pytest.raises(CompileError, match="after the pass break_program: .*has no val"):
        PassManager([break_program])(edge_of(lambda s, x: x + 1, x))
    PassManager([break_program], suppress_check_failures=True)(edge_of(lambda s, x: x + 1, x))

    def no_relu(graph_module):
        if calls(graph_module, aten.relu.default):
            raise ValueError("a relu")

    manager = PassManager([remove_dead_code])
    manager.add_checks(no_relu)
    with pytest.raises(CompileError, match="after the pass remove_dead_code: a relu"):
        manager(edge_of(lambda s, x: x.relu(), x))


class Stumbles(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        return super().call_operator(op, args[: 7 if op is aten.convolution.default else None], kwargs, meta)


def drop_everything(program):
    raise LookupError("nothing\nto drop")


def test_a_pass_that_raises_is_named_with_the_node():
    with pytest.raises(CompileError, match="^the pass Stumbles failed at aten.convolution.default ") as error:
        PassManager([Stumbles()])(edge())
    assert CALL_OF_CONV in str(error.value)
    with pytest.raises(CompileError, match="^the pass drop_everything failed: LookupError: nothing; ") as error:
        to_edge_transform_and_lower(exported(), transform_passes=[drop_everything])
    assert isinstance(error.value.__cause__, LookupError)


def test_an_error_of_edgecore_in_a_pass_stays_as_it_is():
    def refuse(program):
        raise CompileError("not this one")

    with pytest.raises(CompileError, match="^not this one$"):
        PassManager([refuse])(edge())
