"""The options of a sweep: the tables and keys of a `sweep.toml`, checked before anything runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from edgecore.cli.models import stem
from edgecore.errors import EdgecoreError
from edgecore.recipe import problem_message

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelOptions(_Strict):
    """A model, with its calibration samples and the function that scores its accuracy."""

    source: str
    calibration: str | None = None
    accuracy: str | None = None


class BackendOptions(BaseModel):
    """A backend with options.

    Attributes:
        backend: Its name; by default the name of the table.
        needs: Resources that a Ray node must offer to run cells with this backend.

    All other keys are options of the backend.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    backend: str
    needs: tuple[str, ...] = ()


class RecipeOptions(BaseModel):
    """A recipe with parameters: `recipe` is its name, all other keys are parameters of `edgecore.Recipe`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    recipe: str


class Limits(_Strict):
    """Limits of each process that compiles or measures a file of a sweep: seconds, and MiB of resident memory."""

    seconds: Annotated[float, Field(gt=0)] = 900.0
    memory_mb: Annotated[int, Field(ge=1)] = 8192


class Selection(_Strict):
    """Patterns of names that select cells of a sweep; `*` stands for any characters. A missing key matches all."""

    model: str = "*"
    backend: str = "*"
    recipe: str = "*"
    runtime: str = "*"
    threads: int | None = None


def _named(key: str, name_of: Any = str) -> BeforeValidator:
    """Accept a list of names in place of a table of tables: `["a"]` becomes `{"a": {key: "a"}}`.

    In a table, the default of `key` is the table's name; `source` has no default.
    """

    def convert(value: Any) -> Any:
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            return {name_of(name): {key: name} for name in value}
        if isinstance(value, Mapping) and key != "source":
            return {
                name: {key: name, **table} if isinstance(table, Mapping) else table for name, table in value.items()
            }
        return value

    return BeforeValidator(convert)


class SweepOptions(_Strict):
    """A sweep, as `sweep.toml` describes it.

    Attributes:
        models: The models by name. In a list of sources, the name of a model is the last part of its source.
        backends: The backends by name; `kernels` is edgecore's own kernels. `"installed"`: all that work.
        recipes: The recipes by name; `float` does not quantize. `"all"`: `float` and all recipes of each backend.
        runtimes: Target runtimes.
        threads: Numbers of threads for timing; 0 is edgecore's default.
        include: If not empty, only cells that match one of these selections are computed.
        exclude: Cells that match one of these selections are left out.
        limits: Limits of each process.
        runs: Number of measured runs; 0 measures no times.
    """

    models: Annotated[dict[str, ModelOptions], _named("source", stem), Field(min_length=1)]
    backends: Annotated[dict[str, BackendOptions], _named("backend"), Field(min_length=1)] | Literal["installed"]
    recipes: Annotated[dict[str, RecipeOptions], _named("recipe"), Field(min_length=1)] | Literal["all"] = Field(
        default_factory=lambda: {"float": RecipeOptions(recipe="float")}
    )
    runtimes: tuple[Literal["executorch-1.5", "edgecore"], ...] = Field(("executorch-1.5",), min_length=1)
    threads: tuple[Annotated[int, Field(ge=0)], ...] = Field((0,), min_length=1)
    include: tuple[Selection, ...] = ()
    exclude: tuple[Selection, ...] = ()
    limits: Limits = Limits()
    runs: Annotated[int, Field(ge=0)] = 20


def read_options(source: str | Path | Mapping[str, Any]) -> SweepOptions:
    """Read the options of a sweep.

    Args:
        source: Path of a `.toml` file, or its content as a mapping.

    Raises:
        EdgecoreError: The file cannot be read, or a table or key is wrong.
    """
    place = "the sweep" if isinstance(source, Mapping) else str(source)
    content: Any = source
    if not isinstance(source, Mapping):
        try:
            content = tomllib.loads(Path(source).read_text(encoding="utf-8"))
        except OSError as error:
            raise EdgecoreError(f"{place} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise EdgecoreError(f"{place} is no TOML file: {error}") from error
    models = content.get("models")
    if isinstance(models, list) and all(isinstance(model, str) for model in models):
        names = [stem(model) for model in models]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise EdgecoreError(f"{place}: two models are called {twice!r}; write a table [models.NAME] for each")
    try:
        return SweepOptions(**content)
    except ValidationError as error:
        raise EdgecoreError(f"{place}: {_problem(error)}") from None


def _problem(error: ValidationError) -> str:
    """Describe the first problem of a file: the table, the key, and the remedy."""
    problems = error.errors()
    # For a union such as `dict | Literal["installed"]`, pydantic reports the problems of each member: take the dict's.
    first = next((problem for problem in problems if problem["type"] != "literal_error"), problems[0])
    path = [str(part) for part in first["loc"] if not str(part).startswith(("function-before", "literal[", "dict["))]
    *tables, key = path or ["?"]
    where = f"[{'.'.join(tables)}]" if tables else "the top of the file"
    if first["type"] == "extra_forbidden":
        model: type[BaseModel] = _MODELS.get(tables[0], SweepOptions) if tables else SweepOptions
        return f"{where} has no key {key!r}; it has {', '.join(model.model_fields)}"
    if first["type"] == "missing":
        return f"{where} needs the key {key!r}"
    return f"{where}, {key} = {first['input']!r}: {problem_message(first)}"


_MODELS: dict[str, type[BaseModel]] = {
    "models": ModelOptions,
    "limits": Limits,
    "include": Selection,
    "exclude": Selection,
}
