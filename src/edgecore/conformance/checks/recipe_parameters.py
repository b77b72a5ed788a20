"""Check the parameters and rules of the backend's quantization recipes on one network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgecore.conformance.check import BackendUnderTest, Check, Failed
from edgecore.conformance.checks.networks import MAX_ERROR
from edgecore.conformance.programs import compiled, eager, error_by_norm, load, outputs
from edgecore.conformance.samples.network_models import attention
from edgecore.errors import CompileError
from edgecore.plugin import RecipeSupport
from edgecore.quantize import make_plan
from edgecore.recipe import NAMES, Recipe, Rule

SKIPPED = "up"
"""Name of the layer that the check of a recipe's rules excludes from quantization."""


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield a check of the parameters of each recipe, and of the rules (exceptions) of each recipe that has rules."""
    recipes: dict[str, RecipeSupport] = dict(getattr(subject.compiler, "recipes", dict)())
    for name, support in recipes.items():
        yield Check(f"recipes/{name}, parameters", _Parameters(name, support), seconds=240, needs_run=True)
        if support.takes_rules:
            yield Check(f"recipes/{name}, rules", _Rules(name, support), seconds=120)


def declaration_problem(name: str, support: RecipeSupport) -> str:
    """Return a sentence about a mistake in the declaration of a recipe; empty if there is none."""
    if name not in NAMES:
        return f"recipes() has the name {name!r}; use one of edgecore.Recipe: {', '.join(NAMES)}"
    allowed = Recipe.model_fields.keys() - {"name", "skip", "rules"}
    if unknown := sorted(support.parameters.model_fields.keys() - allowed):
        known = ", ".join(sorted(allowed))
        return f"the parameters of {name} have the fields {', '.join(unknown)}; edgecore.Recipe has {known}"
    required = [field for field, info in support.parameters.model_fields.items() if info.is_required()]
    if required:
        return f"the parameters of {name} have no default for {', '.join(required)}; give each field a default"
    return ""


def trial_parameters(support: RecipeSupport) -> Iterator[dict[str, Any]]:
    """Yield values of a recipe's parameters to try: each choice except the default; for a number, twice its default.

    Omits the parameter `embeddings`, because edgecore, not the backend, quantizes embedding tables.
    """
    defaults = support.parameters().model_dump()
    for name, schema in support.parameters.model_json_schema().get("properties", {}).items():
        if schema.get("type") == "integer" and "enum" not in schema:
            values = [2 * defaults[name]]
        else:
            values = [True, False] if schema.get("type") == "boolean" else schema.get("enum", [])
        if name != "embeddings":
            yield from ({name: value} for value in values if value != defaults[name])


class _Parameters:
    def __init__(self, name: str, support: RecipeSupport) -> None:
        self.name = name
        self.support = support

    def __call__(self, subject: BackendUnderTest) -> str:
        if problem := declaration_problem(self.name, self.support):
            raise Failed(problem)
        tried, refused = [], []
        for parameters in trial_parameters(self.support):
            recipe = Recipe(self.name, **parameters)
            try:
                make_plan(recipe, {subject.backend.name: subject.compiler})
            except CompileError:  # skip a value that the recipe takes only together with another parameter
                refused.append(str(recipe))
                continue
            subject.trying(f"attention with quantize={recipe!r}")
            error = self._error(subject, recipe)
            if not error < MAX_ERROR:
                raise Failed(f"{recipe}: the results differ from those of the float network by {error:.0%}, by norm")
            tried.append(f"{recipe} {error:.1%}")
        text = f"errors by norm: {', '.join(tried)}" if tried else "no parameters with several values"
        return text + (f"; only together with others: {', '.join(refused)}" if refused else "")

    def _error(self, subject: BackendUnderTest, recipe: Recipe) -> float:
        model, inputs = attention()
        samples = [inputs] if self.support.calibrates else None
        program = compiled(subject, model, inputs, quantize=recipe, calibration=samples)
        (want,), (got,) = eager(model, inputs), outputs(load(subject, program).forward(*inputs))
        return error_by_norm(got, want)


class _Rules:
    def __init__(self, name: str, support: RecipeSupport) -> None:
        self.name = name
        self.support = support

    def __call__(self, subject: BackendUnderTest) -> str:
        model, inputs = attention()
        samples = [inputs] if self.support.calibrates else None
        recipe = Recipe(self.name, rules=[Rule(module=SKIPPED)])
        subject.trying(f"attention with quantize={recipe!r}")
        program = compiled(subject, model, inputs, quantize=recipe, calibration=samples)
        rows = [row for row in program.report(quantization=True).quantization if row.module == SKIPPED]
        wrong = [row.scheme for row in rows if "weights" in row.scheme]
        if wrong:
            raise Failed(
                f"the rule {recipe.rules[0]} excludes a layer, which is quantized nevertheless ({wrong[0]}); a "
                "RewriteRecipe must leave nodes for which its second argument returns False"
            )
        return f"the layer {SKIPPED!r} stays in floating point"
