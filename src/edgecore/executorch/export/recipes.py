"""Recipes by name: a backend's enumeration of recipe types, and the provider that makes an `ExportRecipe` of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from edgecore.errors import CompileError

if TYPE_CHECKING:
    from edgecore.executorch.export.export import ExportRecipe


class RecipeType(Enum):
    """The base class of a backend's enumeration of recipes. The value of a member is the name of the recipe."""

    @classmethod
    def get_backend_name(cls) -> str:
        """Return the name under which the provider of these recipes is registered; each subclass defines it."""
        raise NotImplementedError(f"{cls.__name__} defines no get_backend_name")


class BackendRecipeProvider(ABC):
    """Makes the recipes of one backend."""

    @property
    @abstractmethod
    def backend_name(self) -> str:
        """The name of the backend, which `RecipeType.get_backend_name` returns for the provider's types."""

    @abstractmethod
    def get_supported_recipes(self) -> Sequence[RecipeType]:
        """Return all types that `create_recipe` supports."""

    @abstractmethod
    def create_recipe(self, recipe_type: RecipeType, **kwargs: Any) -> ExportRecipe | None:
        """Make the recipe of a type with parameters; None for a type of another backend."""


class RecipeRegistry:
    """The providers by the names of their backends. `recipe_registry` is the registry of this process."""

    def __init__(self) -> None:
        self._providers: dict[str, BackendRecipeProvider] = {}

    def register_backend_recipe_provider(self, provider: BackendRecipeProvider) -> None:
        """Add a provider; it replaces an earlier provider of the same backend."""
        self._providers[provider.backend_name] = provider

    def create_recipe(self, recipe_type: RecipeType, backend: str, **kwargs: Any) -> ExportRecipe | None:
        """Make a recipe.

        Raises:
            CompileError: No provider of this backend is registered.
        """
        return self._provider(backend).create_recipe(recipe_type, **kwargs)

    def get_supported_recipes(self, backend: str) -> Sequence[RecipeType]:
        """Return the types that a backend has recipes for.

        Raises:
            CompileError: No provider of this backend is registered.
        """
        return self._provider(backend).get_supported_recipes()

    def list_backends(self) -> list[str]:
        """Return the names of the backends with a provider."""
        return list(self._providers)

    def _provider(self, backend: str) -> BackendRecipeProvider:
        if backend not in self._providers:
            known = ", ".join(self._providers) or "none"
            raise CompileError(f"no provider makes recipes for the backend {backend!r}; registered are: {known}")
        return self._providers[backend]


recipe_registry = RecipeRegistry()


def recipe_of(recipe_type: Any, parameters: dict[str, Any]) -> ExportRecipe:
    """Make the recipe of a type, for `ExportRecipe.get_recipe`.

    Raises:
        CompileError: The argument is not a recipe type, or no registered provider makes it.
    """
    if not isinstance(recipe_type, RecipeType):
        raise CompileError(f"get_recipe takes a member of a RecipeType such as XNNPackRecipeType, not {recipe_type!r}")
    backend = recipe_type.get_backend_name()
    recipe = recipe_registry.create_recipe(recipe_type, backend, **parameters)
    if recipe is None:
        supported = ", ".join(supported_type.name for supported_type in recipe_registry.get_supported_recipes(backend))
        raise CompileError(f"the backend {backend!r} has no recipe {recipe_type.name}; it has: {supported}")
    return recipe
