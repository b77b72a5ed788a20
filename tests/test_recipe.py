"""`edgecore.Recipe` and `edgecore.Rule`: what users may write, and what they are told otherwise."""

import subprocess
import sys

import pytest

pytest.importorskip("pydantic")
from torch import nn

import edgecore
from edgecore import Recipe, Rule
from edgecore.errors import CompileError


def test_a_recipe_shows_what_was_written():
    recipe = Recipe("int4-weights", group=64, skip=["head"], rules=[Rule(type=nn.Linear, recipe="int8-dynamic")])
    assert repr(Recipe("int4-weights", group=64)) == "Recipe('int4-weights', group=64)"
    assert str(recipe) == "int4-weights:group=64"
    assert [str(rule) for rule in recipe.all_rules()] == ["module='head'", "type='torch.nn.modules.linear.Linear'"]
    assert recipe.parameters() == {"group": 64}


def test_a_recipe_needs_no_torch():
    code = "import sys, edgecore; edgecore.Recipe('int8', skip=['head']); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    assert edgecore.sdk.Recipe is Recipe


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Recipe("int3"), "^no recipe 'int3'; the recipes are int8, .*, palette4$"),
        (
            lambda: Recipe("int8", bits=3),
            r"^recipe 'int8': no parameter 'bits' \(it has: weights=tensor, channel, group; ",
        ),
        (lambda: Recipe("int8", weights="row"), "weights='row': Input should be 'tensor', 'channel' or 'group'"),
        (lambda: Recipe("int8", group=32, weights="channel"), "group=32 contradicts weights='channel'"),
        (lambda: Recipe("int8", skip="head"), "skip='head': write a list"),
        (lambda: Rule(recipe="int8"), "^a rule of a recipe: it needs module=, type= or operator="),
        (lambda: Rule(module="a", recipe=Recipe("int8", skip=["b"])), "its recipe has rules; write all rules into the"),
        (lambda: Rule(name="a"), "a rule of a recipe: no parameter 'name'"),
    ],
    ids=lambda value: "",
)
def test_what_no_recipe_allows_is_an_error_that_lists_what_it_allows(make, message):
    with pytest.raises(CompileError, match=message):
        make()
