"""`Recipe` and `Rule`: settings of quantization for `edgecore.compile(quantize=...)`. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from edgecore.errors import CompileError

RecipeName = Literal["int8", "int8-dynamic", "int8-weights", "int4-weights", "int16x8", "fp16", "palette4"]
"""The names of recipes, common to all backends. Each backend supports some of them."""

NAMES: tuple[str, ...] = get_args(RecipeName)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RecipeParameters(_Strict):
    """Base class of the parameters of one recipe of a backend: see `edgecore.plugin.RecipeSupport`.

    A field is named like a field of `Recipe`. Its type allows the values that the backend supports, and its default is
    the backend's. This class itself has no parameters.

    Example:
        >>> class Int4(RecipeParameters):
        ...     group: int = Field(default=32, ge=32, multiple_of=32)
        ...     activations: Literal["dynamic", "none"] = "dynamic"
    """


def _module_type(value: Any) -> Any:
    return f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else value


def _recipe(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Recipe(**{"name": None, **value})
    return Recipe(value) if isinstance(value, str) else value


class Rule(_Strict):
    """An exception from a recipe: operators that stay in floating point, or that another recipe quantizes.

    A rule applies to an operator call if all of `module`, `type` and `operator` that are set match.

    Args:
        module: Pattern of the qualified name of a module, as in `named_modules()`: `head`, `layers.0.*`. It applies to
            the operators of the module and of the modules inside it. `*` stands for any characters, also for dots.
        type: Type of a module: the class, or its name: `torch.nn.Linear`, `Linear`. It applies like `module`.
        operator: Name of an operator of the exported program: `linear`, `aten.linear`, `aten.linear.default`.
        recipe: Recipe (or its name) of the same backend; None to keep the operators in floating point.

    Raises:
        CompileError: An argument is wrong, or none of `module`, `type` and `operator` is given.

    Example:
        >>> edgecore.Rule(module="layers.0.*", recipe="int8-dynamic")
    """

    module: str | None = None
    type: Annotated[str | None, BeforeValidator(_module_type)] = None
    operator: str | None = None
    recipe: Annotated[Recipe | None, BeforeValidator(_recipe)] = None

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise CompileError(f"a rule of a recipe: {validation_problems(error, Rule)}") from None

    @model_validator(mode="after")
    def _check(self) -> Rule:
        if not (self.module or self.type or self.operator):
            raise ValueError("it needs module=, type= or operator=")
        if self.recipe is not None and self.recipe.all_rules():
            raise ValueError("its recipe has rules; write all rules into the outer recipe")
        return self

    def __str__(self) -> str:
        fields = {"module": self.module, "type": self.type, "operator": self.operator}
        return " and ".join(f"{name}={value!r}" for name, value in fields.items() if value)


class Recipe(_Strict):
    """A way to quantize a model: a name, parameters, and rules for parts of the model.

    Each backend supports some of the recipes, with some parameters and values. A parameter that is not passed has the
    backend's default.

    Args:
        name: `int8` (weights and activations), `int8-dynamic` (activations are quantized at run time), `int8-weights`,
            `int4-weights`, `int16x8` (activations of 16 bits), `fp16`, `palette4` (16 values per weight).
        weights: Scales of weights: one per `tensor`, per output `channel`, or per `group` of elements of a row.
        group: Number of elements in a group; implies `weights="group"`.
        weight_bits: Bits of weights, if the recipe's name has other bits or none.
        symmetric: True: activations have the zero point 0; in recipes that only round weights, weights have it.
        activations: Quantization of activations: `static` (from calibration), `dynamic` (at run time) or `none`.
        observer: Method that chooses static ranges of activations: `minmax`, `histogram` or `moving-average`.
        embeddings: Bits of embedding tables, 4 or 8.
        kv_cache: Bits of the keys and values in a KV cache, 4 or 8.
        skip: Patterns of modules that stay in floating point: `skip=["head"]` is `Rule(module="head")`.
        rules: Rules for parts of the model. After `skip`, the first rule that matches an operator decides.

    Raises:
        CompileError: There is no such name, parameter or value.

    Example:
        >>> edgecore.Recipe("int4-weights", group=64, skip=["head"])
    """

    name: RecipeName
    weights: Literal["tensor", "channel", "group"] | None = None
    group: Annotated[int, Field(ge=1)] | None = None
    weight_bits: Literal[1, 2, 3, 4, 6, 8] | None = None
    symmetric: bool | None = None
    activations: Literal["static", "dynamic", "none"] | None = None
    observer: Literal["minmax", "histogram", "moving-average"] | None = None
    embeddings: Literal[4, 8] | None = None
    kv_cache: Literal[4, 8] | None = None
    skip: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()

    def __init__(self, name: str, **parameters: Any) -> None:
        try:
            super().__init__(**{"name": name, **parameters})
        except ValidationError as error:
            if name not in NAMES:
                raise CompileError(f"no recipe {name!r}; the recipes are {', '.join(NAMES)}") from None
            raise CompileError(f"recipe {name!r}: {validation_problems(error, Recipe)}") from None

    @model_validator(mode="after")
    def _check(self) -> Recipe:
        if self.group is not None and self.weights not in (None, "group"):
            raise ValueError(f"group={self.group} contradicts weights={self.weights!r}")
        return self

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that the user passed, without name and rules."""
        return self.model_dump(exclude={"name", "skip", "rules"}, exclude_none=True)

    def all_rules(self) -> tuple[Rule, ...]:
        """Return the rules in order of priority, `skip` first."""
        return (*(Rule(module=pattern) for pattern in self.skip), *self.rules)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(None, self.name), *((key, value) for key, value in self if key in self.model_fields_set - {"name"})]

    def __str__(self) -> str:
        return ":".join(
            filter(None, [self.name, ",".join(f"{key}={value}" for key, value in self.parameters().items())])
        )


Rule.model_rebuild()

Quantize = str | Recipe | Mapping[str, str | Recipe]
"""A recipe or its name, or a recipe for each backend by the backend's name."""


def validation_problems(error: ValidationError, model: type[BaseModel]) -> str:
    """Describe pydantic's errors for a model in a clause, such as `no parameter 'bits' (it has: weights=channel)`."""
    problems = "; ".join(_problem(problem) for problem in error.errors())
    return f"{problems} (it has: {'; '.join(describe_fields(model)) or 'no parameters'})"


def problem_message(problem: Mapping[str, Any]) -> str:
    """Return the message of an error that pydantic found, as the validator wrote it."""
    return str(problem["msg"]).removeprefix("Value error, ")


def _problem(problem: Mapping[str, Any]) -> str:
    name = ".".join(map(str, problem["loc"]))
    message = problem_message(problem)
    if problem["type"] == "extra_forbidden":
        return f"no parameter {name!r}"
    if problem["type"] == "tuple_type":
        message = "write a list"
    return f"{name}={problem['input']!r}: {message}" if name else message


def describe_fields(model: type[BaseModel]) -> list[str]:
    """Describe the fields of a model with their possible values, default first, such as `weights=channel, tensor`."""
    schema = model.model_json_schema()
    properties = schema.get("$defs", {}).get(model.__name__, schema).get("properties", {})
    return [f"{name}={', '.join(_values(field)) or 'a value'}" for name, field in properties.items() if name != "name"]


def _values(schema: Mapping[str, Any]) -> Iterable[str]:
    """List the values that a JSON schema allows, as users write them; the default comes first."""
    values: list[Any] = [schema.get("default")] if schema.get("default") else []
    for choice in schema.get("anyOf", [schema]):
        if choice.get("type") == "boolean":
            values += [False, True]
        elif "multipleOf" in choice:
            values.append(f"other multiples of {choice['multipleOf']}")
        elif choice.get("type") != "null":
            values += choice.get("enum", [choice["const"]] if "const" in choice else [_KINDS.get(choice.get("type"))])
    return dict.fromkeys(str(value) for value in values if value is not None)


_KINDS = {"string": "a text", "integer": "a number", "array": "a list"}
