"""Rules of recipes: the operator calls that they match, their order, and those that match nothing."""

import pytest
import torch
from torch import nn

import edgecore
from edgecore import Recipe, Rule
from edgecore.errors import CompileError
from edgecore.quantize.rules import matches


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.act = nn.Linear(64, 64), nn.Linear(64, 64), nn.ReLU(inplace=True)

    def forward(self, x):
        return x + self.down(self.act(self.up(x)))


class Net(nn.Module):
    """Two blocks, the first called twice, and a head."""

    def __init__(self):
        super().__init__()
        self.layers, self.head = nn.ModuleList([Block(), Block()]), nn.Linear(64, 8)

    def forward(self, x):
        return self.head(self.layers[0](self.layers[1](self.layers[0](x))))


X = torch.randn(3, 64, generator=torch.Generator().manual_seed(0))


def net():
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def calls():
    return [node for node in torch.export.export(net(), (X,)).graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        (Rule(module="head"), 1),
        (Rule(module="layers.0"), 8),  # the module with those inside it, in both calls
        (Rule(module="layers.*.up"), 3),
        (Rule(module="*"), 13),
        (Rule(type=nn.Linear), 7),
        (Rule(type="Block"), 12),
        (Rule(type="torch.nn.Linear"), 7),
        (Rule(operator="linear"), 7),
        (Rule(operator="aten.relu"), 3),  # relu_
        (Rule(operator="aten.add.Tensor"), 3),
        (Rule(module="layers.*", operator="linear"), 6),
        (Rule(module="layers"), 12),
        (Rule(module="lay"), 0),
        (Rule(type="Linea"), 0),
    ],
    ids=str,
)
def test_a_rule_matches_calls_by_module_type_and_operator(calls, rule, count):
    assert sum(matches(rule, node) for node in calls) == count


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            Rule(module="haed"),
            "the rule module='haed' of recipe 'int8' matches nothing: the modules with similar names are",
        ),
        (Rule(module="xyz"), r"the modules are head, layers, layers\.0, layers\.1, layers\.0\.up"),
        (Rule(type="Conv2d"), "the types of modules are Net, ReLU, Block, Linear"),
        (Rule(operator="conv2d"), "the operators are add, relu"),
        (Rule(module="head", operator="relu"), "no operator call matches all of its conditions"),
    ],
    ids=str,
)
def test_a_rule_that_matches_nothing_is_an_error_with_the_names_that_exist(rule, message):
    pytest.importorskip("edgecore_xnnpack")
    with pytest.raises(CompileError, match=message):
        edgecore.compile(net(), (X,), backends="xnnpack", quantize=Recipe("int8", rules=[rule]), calibration=[X])


def schemes(program):
    rows = program.report(quantization=True).quantization
    return {row.module: row.scheme for row in rows if row.operator == "aten.linear.default"}


DYNAMIC = "inputs int8 at run time, weights int8 per channel"
INT4 = "inputs int8 per row at run time, weights int4 in groups of 32"


@pytest.mark.parametrize(
    ("recipe", "head", "up", "down"),
    [
        (Recipe("int8-dynamic", skip=["head"]), "float32 by rule module='head'", DYNAMIC, DYNAMIC),
        (
            Recipe("int4-weights", rules=[Rule(module="*.down"), Rule(module="layers", recipe="int8-dynamic")]),
            INT4,
            DYNAMIC,
            "float32 by rule module='*.down'",
        ),
        (Recipe("int8-dynamic", rules=[Rule(module="*.up", recipe="int4-weights")]), DYNAMIC, INT4, DYNAMIC),
        (
            Recipe(
                "int8", rules=[Rule(module="*.up", recipe="int8-dynamic"), Rule(module="head", recipe="int4-weights")]
            ),
            INT4,
            DYNAMIC,
            "inputs int8, weights int8 per channel, result int8",
        ),
    ],
    ids=["skip", "weights and dynamic", "dynamic and weights", "static, dynamic and weights"],
)
def test_each_layer_becomes_what_its_rule_says_and_the_file_computes_it(recipe, head, up, down):
    pytest.importorskip("edgecore_xnnpack")
    calibration = [X] if recipe.name == "int8" else None
    program = edgecore.compile(net(), (X,), backends="xnnpack", quantize=recipe, calibration=calibration)
    got = schemes(program)
    assert (got["head"], got["layers.1.up"], got["layers.1.down"]) == (head, up, down)
    assert program.compare(net()).ok and program.report().left_outside == []


def test_rules_leave_the_program_of_the_user_and_other_compilations_alone():
    pytest.importorskip("edgecore_xnnpack")
    exported = torch.export.export(net(), (X,))
    plain = edgecore.compile(exported, backends="xnnpack", quantize="int8-dynamic").buffer
    edgecore.compile(exported, backends="xnnpack", quantize=Recipe("int8-dynamic", skip=["layers.*"]))
    assert edgecore.compile(exported, backends="xnnpack", quantize="int8-dynamic").buffer == plain
    assert not any("custom" in node.meta for node in exported.graph.nodes)


def test_a_rule_need_match_only_one_of_several_methods():
    pytest.importorskip("edgecore_xnnpack")
    models = {"whole": net(), "part": nn.Sequential(nn.Linear(64, 8)).eval()}
    recipe = Recipe("int8-dynamic", skip=["head"])
    program = edgecore.compile(models, dict.fromkeys(models, (X,)), backends="xnnpack", quantize=recipe)
    rows = program.report(quantization=True).quantization
    assert {row.scheme for row in rows if row.method == "part"} == {DYNAMIC}
    assert {row.scheme for row in rows if row.module == "head"} == {"float32 by rule module='head'"}
