"""Look up the recipes that the user chose in the backends, and check their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.format import EDGECORE
from edgecore.plugin import BackendCompiler, QuantizerRecipe, QuantizingCompiler, RecipeSupport, RewriteRecipe, Selects
from edgecore.quantize import kernels
from edgecore.recipe import Quantize, Recipe, Rule, validation_problems

MARK = "edgecore_recipes"
"""Key in `node.meta["custom"]`, which torch copies to the nodes that replace a node. The value has the numbers of the
recipes that may quantize the node, in order of priority. A node without a mark belongs to recipe 0."""


@dataclass(frozen=True)
class ChosenRecipe:
    """A recipe of a backend, with its parameters.

    Attributes:
        number: The position among all recipes of this compilation.
        backend: The name of the backend.
        name: The name and the parameters, for messages.
        method: The way in which the backend quantizes: by a torchao quantizer, or by a rewrite of the program.
        embeddings: The number of bits to which edgecore quantizes embedding tables; None to leave them in float.
        steps: The number of quantization steps by which results may differ in addition to rounding
            (`RecipeSupport.steps`).
    """

    number: int
    backend: str
    name: str
    method: QuantizerRecipe | RewriteRecipe
    embeddings: int | None
    steps: int

    @property
    def selects(self) -> Selects:
        """A function that returns True for the nodes that this recipe may quantize."""
        return lambda node: marks_of(node)[:1] == (self.number,)


@dataclass(frozen=True)
class BackendPlan:
    """The recipes and rules of one backend.

    Attributes:
        recipes: The backend's recipes. The first applies to all operators to which no rule applies.
        rules: The rules in order of priority, each with its recipe; None keeps operators in floating point.
    """

    recipes: tuple[ChosenRecipe, ...]
    rules: tuple[tuple[Rule, ChosenRecipe | None], ...]


Plan = Sequence[BackendPlan]
"""The recipes and rules of all backends, in the order of the backends' priority."""


def marks_of(node: Node) -> tuple[int, ...]:
    """Return the numbers of the recipes that may quantize a node, in order of priority."""
    marks: tuple[int, ...] = (node.meta.get("custom") or {}).get(MARK, (0,))
    return marks


def recipes_of(plan: Plan) -> list[ChosenRecipe]:
    """List the recipes of all backends."""
    return [recipe for backend in plan for recipe in backend.recipes]


def takes_calibration(plan: Plan) -> bool:
    """Return True if a recipe may need samples. Recipes that quantize only weights take none."""
    return any(isinstance(recipe.method, QuantizerRecipe) for recipe in recipes_of(plan))


def options_of(plan: Plan, backend: str) -> dict[str, Any]:
    """Return the backend options that the recipes of a backend require."""
    methods = [recipe.method for recipe in recipes_of(plan) if recipe.backend == backend]
    return {
        key: value for method in methods if isinstance(method, RewriteRecipe) for key, value in method.options.items()
    }


def compute_dtype(plan: Plan, options: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the dtype in which the backends compute floating-point values, such as "float16".

    Args:
        plan: The recipes of each backend.
        options: Name of the backend -> its options. A recipe counts only if the options that it requires are among
            these.
    """
    for recipe in recipes_of(plan):
        method = recipe.method
        if isinstance(method, RewriteRecipe) and method.computes_in != "float32":
            actual = options[recipe.backend]
            if all(actual[key] == value for key, value in method.options.items()):
                return method.computes_in
    return "float32"


def make_plan(
    quantize: Quantize, compilers: Mapping[str, BackendCompiler], *, with_kernels: bool = False
) -> list[BackendPlan]:
    """Look up the recipes that the user chose.

    Args:
        quantize: A recipe (or its name) for the first backend that has recipes, or a mapping from backends to recipes.
        compilers: Name of the backend -> compiler, in order of priority.
        with_kernels: True if the target runtime is `edgecore`: its own kernels are then the last backend, `kernels`.

    Raises:
        CompileError: A backend does not have the recipe or parameter, or does not accept a value.
    """
    supports = {
        name: dict(compiler.recipes()) if isinstance(compiler, QuantizingCompiler) else {}
        for name, compiler in compilers.items()
    }
    if with_kernels:
        supports[kernels.NAME] = dict(kernels.RECIPES)
    wanted = _by_backend(quantize, supports)
    plan, count = [], 0
    for backend, recipe in wanted.items():
        plan.append(_backend_plan(backend, recipe, supports[backend], count))
        count += len(plan[-1].recipes)
    return plan


def _by_backend(quantize: Quantize, supports: Mapping[str, Mapping[str, RecipeSupport]]) -> dict[str, Recipe]:
    """Return the recipe of each backend, in the order of the backends."""
    chosen = ", ".join(supports) or "none"
    if not isinstance(quantize, Mapping):
        recipe = _as_recipe(quantize)
        for backend, of_backend in supports.items():
            if of_backend:
                return {backend: recipe}
        raise CompileError(
            f"quantize={recipe.name!r} needs a backend with recipes; the chosen backends are: {chosen}; or compile "
            f'with runtime="{EDGECORE}", whose own kernels have the recipes {", ".join(kernels.RECIPES)}'
        )
    for backend in quantize:
        if backend == kernels.NAME and backend not in supports:
            raise CompileError(
                f"quantize has a recipe for edgecore's own kernels, which only its runtime has: compile with "
                f'runtime="{EDGECORE}"'
            )
        if backend not in supports:
            raise CompileError(f"quantize has a recipe for backend {backend!r}; the chosen backends are: {chosen}")
        if not supports[backend]:
            raise CompileError(f"quantize has a recipe for backend {backend!r}, which has no recipes")
    return {backend: _as_recipe(quantize[backend]) for backend in supports if backend in quantize}


def _as_recipe(value: Any) -> Recipe:
    if not isinstance(value, (str, Recipe)):
        raise CompileError(f"quantize contains a {type(value).__name__}; use the name of a recipe or edgecore.Recipe")
    return Recipe(value) if isinstance(value, str) else value


def _backend_plan(backend: str, recipe: Recipe, supports: Mapping[str, RecipeSupport], first: int) -> BackendPlan:
    recipes = [_choose(backend, recipe, supports, first)]
    rules = list[tuple[Rule, ChosenRecipe | None]]()
    if recipe.all_rules() and not supports[recipe.name].takes_rules:
        raise CompileError(
            f"recipe {recipe.name!r} of backend {backend!r} applies to the whole model; remove skip and rules"
        )
    for rule in recipe.all_rules():
        if rule.recipe is None:
            rules.append((rule, None))
            continue
        recipes.append(_choose(backend, rule.recipe, supports, first + len(recipes)))
        if not supports[rule.recipe.name].takes_rules:
            raise CompileError(
                f"the rule {rule}: recipe {rule.recipe.name!r} of backend {backend!r} applies to the whole model, not "
                "to a part of it"
            )
        rules.append((rule, recipes[-1]))
    return BackendPlan(tuple(recipes), tuple(rules))


def _choose(backend: str, recipe: Recipe, supports: Mapping[str, RecipeSupport], number: int) -> ChosenRecipe:
    support = supports.get(recipe.name)
    if support is None:
        raise CompileError(f"backend {backend!r} has no recipe {recipe.name!r}; it has {', '.join(sorted(supports))}")
    try:
        parameters = support.parameters(**recipe.parameters())
    except ValidationError as error:
        problems = validation_problems(error, support.parameters)
        raise CompileError(f"recipe {recipe.name!r} of backend {backend!r}: {problems}") from None
    embeddings = getattr(parameters, "embeddings", None)
    return ChosenRecipe(number, backend, str(recipe), support.make(parameters), embeddings, support.steps)
