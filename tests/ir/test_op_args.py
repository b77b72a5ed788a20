"""Arguments of a call by the names of its operator's schema."""

import pytest
import torch
from edge_programs import export

from edgecore.ir.graph import calls
from edgecore.ir.op_args import argument, arguments_by_name

aten = torch.ops.aten


@pytest.fixture(scope="module")
def node():
    program = export(lambda s, x: aten.add.Tensor(x, x, alpha=3) + aten.softmax.int(x, 1), torch.ones(2, 2))
    return calls(program.graph_module, aten.add.Tensor)[0], calls(program.graph_module, aten.softmax.int)[0]


def test_an_argument_is_read_by_position_by_keyword_or_from_its_default(node):
    add, softmax = node
    assert argument(add, "other") is add.args[1]
    assert argument(add, "alpha") == 3
    assert (argument(softmax, "dim"), argument(softmax, "dtype")) == (1, None)


def test_all_arguments_are_given_by_name_with_defaults(node):
    add, softmax = node
    assert arguments_by_name(add) == {"self": add.args[0], "other": add.args[1], "alpha": 3}
    assert arguments_by_name(softmax) == {"self": softmax.args[0], "dim": 1, "dtype": None}


def test_an_argument_that_the_schema_lacks_is_a_key_error(node):
    with pytest.raises(KeyError, match="beta"):
        argument(node[0], "beta")
