"""Recipes of `edgecore.compile(quantize=...)`: coremltools compresses the weights of the converted model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.plugin import RecipeSupport, RewriteRecipe
from edgecore.sdk import RecipeParameters, copy_program


class NoParameters(RecipeParameters):
    """The recipes have no parameters yet."""


def _unchanged(program: ExportedProgram, selects: Callable[[Node], bool]) -> ExportedProgram:
    return copy_program(program)


def _recipe(compression: str) -> RecipeSupport:
    recipe = RewriteRecipe(_unchanged, {"weight_compression": compression})
    return RecipeSupport(NoParameters, lambda parameters: recipe, takes_rules=False)


RECIPES: Mapping[str, RecipeSupport] = {"int8-weights": _recipe("int8"), "palette4": _recipe("palette4")}
