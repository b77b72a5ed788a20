"""Exceptions of a pass or a backend as one sentence that names the node."""

import pytest
import torch
from edge_programs import export

from edgecore.errors import CompileError
from edgecore.ir.failures import _MAX_QUOTED, failing_node, failures_named, text_of
from edgecore.ir.graph import calls


def node_of_a_sine():
    (node,) = calls(export(lambda s, x: x.sin(), torch.ones(2)).graph_module)
    return node


def fails_at(node):
    raise IndexError("list index out of range\nof the table")


def test_an_exception_becomes_an_error_that_names_the_block_and_the_node():
    sine = node_of_a_sine()
    with pytest.raises(
        CompileError, match=r"^the pass shrink failed at aten\.sin\.default .*IndexError: list index out of range;"
    ):
        with failures_named("the pass shrink"):
            fails_at(sine)


def test_an_error_of_edgecore_stays_as_it_is():
    with pytest.raises(CompileError, match="^a sentence$"), failures_named("the pass shrink"):
        raise CompileError("a sentence")


def test_the_failing_node_is_the_variable_of_the_innermost_frame():
    sine = node_of_a_sine()
    with pytest.raises(IndexError) as raised:
        fails_at(sine)
    assert failing_node(raised.value) is sine
    with pytest.raises(IndexError) as raised:
        fails_at("no node")
    assert failing_node(raised.value) is None


def test_the_text_of_an_exception_is_its_type_and_first_line():
    assert text_of(ValueError("one\ntwo")) == "ValueError: one"
    assert text_of(ValueError()) == "ValueError"
    assert text_of(CompileError("a sentence")) == "a sentence"
    assert text_of(ValueError("x" * 1000)) == f"ValueError: {'x' * _MAX_QUOTED}..."
