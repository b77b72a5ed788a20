"""The checks of declared recipes: wrong declarations, recipes that ignore rules, and those that keep small weights."""

from types import SimpleNamespace
from typing import Literal

import pytest
from pydantic import Field

pytest.importorskip("edgecore_xnnpack")
import edgecore
from edgecore.conformance import run
from edgecore.conformance.check import Failed, Skipped
from edgecore.conformance.checks import networks, recipe_parameters
from edgecore.conformance.checks.recipe_parameters import declaration_problem, trial_parameters
from edgecore.pipeline.preprocess import compiler_of
from edgecore.plugin import RecipeSupport, RewriteRecipe, registry
from edgecore.recipe import RecipeParameters
from edgecore_xnnpack.recipes.linear_weights import quantize_linear_layers


class Good(RecipeParameters):
    weights: Literal["group", "channel"] = "group"
    group: int = Field(default=32, multiple_of=32)
    symmetric: bool = False
    embeddings: Literal[4, 8] | None = None


class Own(RecipeParameters):
    cores: int = 2


class Incomplete(RecipeParameters):
    group: int


def support(parameters):
    return RecipeSupport(parameters, lambda chosen: RewriteRecipe(lambda program, selects: program))


def test_a_declaration_has_names_and_fields_of_the_vocabulary_and_defaults():
    assert declaration_problem("int4-weights", support(Good)) == ""
    assert declaration_problem("int3", support(Good)).startswith(
        "recipes() has the name 'int3'; use one of edgecore.Recipe"
    )
    assert "int8 have the fields cores; edgecore.Recipe has activations" in declaration_problem("int8", support(Own))
    assert "int8 have no default for group" in declaration_problem("int8", support(Incomplete))


def test_each_value_of_a_parameter_is_tried_alone():
    assert list(trial_parameters(support(Good))) == [{"weights": "channel"}, {"group": 64}, {"symmetric": True}]


def test_a_recipe_that_ignores_rules_fails(monkeypatch):
    compiler = compiler_of(registry.find_by_name("xnnpack"))
    monkeypatch.setattr(
        "edgecore_xnnpack.recipes.table.RECIPES",
        {"int4-weights": RecipeSupport(RecipeParameters, lambda chosen: RewriteRecipe(ignores_rules))},
    )
    subject = SimpleNamespace(backend=edgecore.Backend("xnnpack"), compiler=compiler, trying=lambda text: None)
    checks = {check.name: check for check in recipe_parameters.checks(subject)}
    with pytest.raises(Failed, match="the rule module='up' excludes a layer, which is quantized nevertheless .*int4"):
        checks["recipes/int4-weights, rules"].run(subject)


@pytest.mark.parametrize(
    ("raised", "error"),
    [(edgecore.errors.NothingToQuantize, Skipped), (edgecore.errors.CompileError, edgecore.errors.CompileError)],
)
def test_a_recipe_may_keep_the_small_weights_of_the_networks(monkeypatch, raised, error):
    def refuse(program, selects):
        raise raised("quantize='int4-weights': no large weight")

    compiler = compiler_of(registry.find_by_name("xnnpack"))
    monkeypatch.setattr(
        "edgecore_xnnpack.recipes.table.RECIPES",
        {"int4-weights": RecipeSupport(RecipeParameters, lambda chosen: RewriteRecipe(refuse))},
    )
    subject = SimpleNamespace(
        backend=edgecore.Backend("xnnpack"), compiler=compiler, trying=lambda text: None, cache={}
    )
    checks = {check.name: check for check in networks.checks(subject)}
    with pytest.raises(error, match="quantizes nothing of these networks" if error is Skipped else "no large weight"):
        checks["networks/int4-weights"].run(subject)


def test_a_recipe_whose_results_are_near_those_of_the_float_network_passes():
    (row,) = run("xnnpack", only="networks/int8-weights").rows
    assert row.outcome == "passed" and "mlp 0." in row.detail, row


def ignores_rules(program, selects):
    return quantize_linear_layers(program, lambda node: True, bits=4, group=32)
