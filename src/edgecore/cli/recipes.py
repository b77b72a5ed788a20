"""Parse the recipes of `edgecore compile --quantize`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecore.cli.common import parse_value
from edgecore.errors import CompileError

if TYPE_CHECKING:
    from edgecore.recipe import Quantize, Recipe


def parse_quantize(texts: Sequence[str]) -> Quantize | None:
    """Parse the values of `--quantize` into the argument `quantize` of `edgecore.compile`.

    Args:
        texts: Each is `[BACKEND=]NAME[:key=value,...]`, where `+` joins the elements of a list, or a `.yaml` file.

    Raises:
        CompileError: A value or file does not have this form, or a recipe is wrong.
    """
    by_backend: dict[str, str | Recipe] = {}
    single: list[Recipe] = []
    for text in texts:
        for backend, recipe in _read(Path(text)) if text.endswith((".yaml", ".yml")) else [_parse(text)]:
            if not backend:
                single.append(recipe)
            elif backend in by_backend:
                raise CompileError(f"--quantize has two recipes for backend {backend!r}")
            else:
                by_backend[backend] = recipe
    if len(single) + bool(by_backend) > 1:
        raise CompileError("--quantize has several recipes; name the backend of each: -q BACKEND=RECIPE")
    return single[0] if single else by_backend or None


def _parse(text: str) -> tuple[str, Recipe]:
    """Parse `xnnpack=int4-weights:group=64,skip=head+layers.0.*` into the backend ("" if not named) and the recipe."""
    from edgecore.recipe import Recipe

    head, _, rest = text.partition(":")
    backend, _, name = head.rpartition("=")
    parameters: dict[str, Any] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise CompileError(f"--quantize: {text!r} is not [BACKEND=]NAME[:key=value,...]")
        parameters[key] = tuple(value.split("+")) if key == "skip" else parse_value(value)
    return backend, Recipe(name, **parameters)


def _has_text_keys(value: Any) -> bool:
    """Return True if all keys of a mapping and its nested mappings are strings; YAML allows keys of any type."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _has_text_keys(each) for key, each in value.items())
    return all(map(_has_text_keys, value)) if isinstance(value, list) else True


def _read(path: Path) -> list[tuple[str, Recipe]]:
    """Read a file with one recipe (keys `name`, `group`, ...), or with a mapping for each backend."""
    import yaml

    from edgecore.recipe import Recipe

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CompileError(f"--quantize: {path} cannot be read as a YAML file: {error}") from error
    if not isinstance(content, Mapping):
        raise CompileError(f"--quantize: {path} holds no mapping, such as 'name: int8'")
    if not _has_text_keys(content):
        raise CompileError(f"--quantize: {path} has a key that is no text; put it in quotes")
    if "name" in content:
        return [("", Recipe(**content))]
    recipes = []
    for backend, fields in content.items():
        if not isinstance(fields, Mapping) or "name" not in fields:
            raise CompileError(f"--quantize: {path} needs the key 'name' with a recipe, at the top or for each backend")
        recipes.append((backend, Recipe(**fields)))
    return recipes
