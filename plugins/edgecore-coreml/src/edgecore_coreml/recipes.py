"""Recipes of `edgecore.compile(quantize=...)` for Core ML, with their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from pydantic import Field, model_validator
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.plugin import RecipeSupport, RewriteRecipe
from edgecore.sdk import RecipeParameters, copy_program
from edgecore_coreml.palettes import Palette, palettize


class NoParameters(RecipeParameters):
    """The recipe has no parameters yet."""


class Palettes(RecipeParameters):
    """Parameters of `palette4`: bits of an index, and tables for the whole weight or for groups of output channels."""

    weight_bits: Literal[4, 1, 2, 3, 6, 8] = 4
    weights: Literal["tensor", "group"] = "tensor"
    group: int = Field(default=16, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _group_implies_groups(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {"weights": "group", **values} if "group" in values else values


def _palette4(parameters: Palettes) -> RewriteRecipe:
    palette = Palette(parameters.weight_bits, parameters.group if parameters.weights == "group" else 0)
    return RewriteRecipe(partial(palettize, palette=palette))


def _unchanged(program: ExportedProgram, selects: Callable[[Node], bool]) -> ExportedProgram:
    return copy_program(program)


def _recipe(compression: str) -> RecipeSupport:
    recipe = RewriteRecipe(_unchanged, {"weight_compression": compression})
    return RecipeSupport(NoParameters, lambda parameters: recipe, takes_rules=False)


RECIPES: Mapping[str, RecipeSupport] = {
    "int8-weights": _recipe("int8"),
    "palette4": RecipeSupport(Palettes, _palette4),
}
