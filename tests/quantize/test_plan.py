"""What users ask of the backends' recipes: parameters with values, recipes for several backends."""

from typing import Literal

import pytest
import torch
from pydantic import Field

from edgecore import Recipe, Rule
from edgecore.errors import CompileError
from edgecore.numerics.quality import layer_qualities
from edgecore.plugin import QuantizerRecipe, RecipeSupport, RewriteRecipe
from edgecore.quantize.apply_recipes import quantize_model
from edgecore.quantize.plan import compute_dtype, make_plan, options_of, recipes_of
from edgecore.recipe import RecipeParameters


class Int4(RecipeParameters):
    group: int = Field(default=32, ge=32, multiple_of=32)
    activations: Literal["dynamic", "none"] = "dynamic"
    embeddings: Literal[4, 8] | None = None


def rewrite(program, selects):
    return program


class Compiler:
    """The members of a `QuantizingCompiler`; only `recipes` matters here."""

    Options = partitioner = preprocess = operator_support = verify_blob = check = object

    def __init__(self):
        self.made = []

    def recipes(self):
        def make(parameters):
            self.made.append(parameters)
            return RewriteRecipe(rewrite)

        half = RewriteRecipe(rewrite, {"half": True}, "float16")
        return {
            "int4-weights": RecipeSupport(Int4, make),
            "int8": RecipeSupport(RecipeParameters, lambda parameters: QuantizerRecipe(object, calibrates=True)),
            "fp16": RecipeSupport(RecipeParameters, lambda parameters: half, takes_rules=False),
        }


class Plain:
    """A compiler without recipes."""


def test_parameters_reach_the_backend_with_its_defaults():
    compiler = Compiler()
    make_plan("int4-weights", {"a": compiler})
    (chosen,) = recipes_of(make_plan(Recipe("int4-weights", group=64, embeddings=8), {"a": compiler}))
    assert compiler.made == [Int4(), Int4(group=64, embeddings=8)]
    assert (chosen.backend, chosen.name, chosen.embeddings) == ("a", "int4-weights:group=64,embeddings=8", 8)


def test_a_name_is_for_the_first_backend_with_recipes_and_a_mapping_for_each():
    compilers = {"plain": Plain(), "a": Compiler(), "b": Compiler()}
    assert [backend.recipes[0].backend for backend in make_plan("int8", compilers)] == ["a"]
    rules = [Rule(module="x", recipe="int4-weights"), Rule(operator="add")]
    plan = make_plan({"b": "int8", "a": Recipe("int8", rules=rules)}, compilers)
    assert [(recipe.number, recipe.backend, recipe.name) for recipe in recipes_of(plan)] == [
        (0, "a", "int8"),
        (1, "a", "int4-weights"),
        (2, "b", "int8"),
    ]
    assert [recipe and recipe.number for _, recipe in plan[0].rules] == [1, None]


def test_options_of_a_recipe_count_unless_the_user_sets_others():
    plan = make_plan("fp16", {"a": Compiler()})
    assert options_of(plan, "a") == {"half": True} and options_of(plan, "b") == {}
    assert compute_dtype(plan, {"a": {"half": True}}) == "float16"
    assert compute_dtype(plan, {"a": {"half": False}}) == "float32"


@pytest.mark.parametrize(
    ("quantize", "message"),
    [
        ("int16x8", "backend 'a' has no recipe 'int16x8'; it has fp16, int4-weights, int8"),
        (Recipe("int8", weights="tensor"), r"recipe 'int8' of backend 'a': no parameter 'weights' \(it has: no param"),
        (
            Recipe("int4-weights", group=48),
            r"recipe 'int4-weights' of backend 'a': group=48: Input should be a multiple of 32 \(it has: group=32, other "
            r"multiples of 32; activations=dynamic, none; embeddings=4, 8\)",
        ),
        (Recipe("int4-weights", activations="static"), "activations='static': Input should be 'dynamic' or 'none'"),
        (Recipe("fp16", skip=["x"]), "recipe 'fp16' of backend 'a' applies to the whole model; remove skip and rules"),
        (
            Recipe("int8", rules=[Rule(module="x", recipe="fp16")]),
            "the rule module='x': recipe 'fp16' of backend 'a' applies to the whole model, not to a part of it",
        ),
        ({"c": "int8"}, "quantize has a recipe for backend 'c'; the chosen backends are: plain, a"),
        ({"plain": "int8"}, "quantize has a recipe for backend 'plain', which has no recipes"),
        (8, "quantize contains a int; use the name of a recipe or edgecore.Recipe"),
    ],
    ids=lambda value: "",
)
def test_what_a_backend_cannot_do_is_an_error_that_lists_what_it_can(quantize, message):
    with pytest.raises(CompileError, match=message):
        make_plan(quantize, {"plain": Plain(), "a": Compiler()})


def test_a_rewrite_says_in_the_report_how_weights_are_stored():
    class Tables(Compiler):
        def recipes(self):
            method = RewriteRecipe(
                rewrite, describe_weights=lambda node: "weights as a table" if "linear" in node.name else None
            )
            return {"palette4": RecipeSupport(RecipeParameters, lambda parameters: method)}

    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh()).eval()
    exported = torch.export.export(model, (torch.ones(1, 3),))
    rows = layer_qualities(quantize_model(exported, make_plan("palette4", {"a": Tables()}), None))
    schemes = {row.operator: row.scheme for row in rows}
    assert schemes == {"aten.linear.default": "weights as a table", "aten.tanh.default": "float32"}
