"""Recipes by their types: the registry asks the provider of a backend."""

from __future__ import annotations

import pytest

from edgecore.errors import CompileError
from edgecore.executorch.export.export import ExportRecipe
from edgecore.executorch.export.recipes import BackendRecipeProvider, RecipeRegistry, RecipeType


class Kind(RecipeType):
    FAST = "fast"
    SMALL = "small"

    @classmethod
    def get_backend_name(cls):
        return "acme"


class Provider(BackendRecipeProvider):
    @property
    def backend_name(self):
        return "acme"

    def get_supported_recipes(self):
        return [Kind.FAST]

    def create_recipe(self, recipe_type, **kwargs):
        return ExportRecipe(f"{recipe_type.value} {kwargs}") if recipe_type in self.get_supported_recipes() else None


def test_a_registry_makes_the_recipes_of_the_providers_that_it_has():
    registry = RecipeRegistry()
    with pytest.raises(CompileError, match="no provider makes recipes for the backend 'acme'; registered are: none"):
        registry.create_recipe(recipe_type=Kind.FAST, backend="acme")
    registry.register_backend_recipe_provider(Provider())
    assert registry.list_backends() == ["acme"] and registry.get_supported_recipes("acme") == [Kind.FAST]
    assert registry.create_recipe(recipe_type=Kind.FAST, backend="acme", bits=4).name == "fast {'bits': 4}"
    assert registry.create_recipe(recipe_type=Kind.SMALL, backend="acme") is None
