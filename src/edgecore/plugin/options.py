"""A backend's options, which are a pydantic model: types for their fields, and their validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import BeforeValidator, ValidationError
from typing_extensions import Self

from edgecore.recipe import problem_message


class _Validated(Protocol):
    """A pydantic model, or a protocol that a pydantic model has."""

    @classmethod
    def model_validate(cls, obj: Any) -> Self:
        """Return the options with the values of a dict."""


Options = TypeVar("Options", bound=_Validated)


def _split(value: Any) -> Any:
    return tuple(value.split("+")) if isinstance(value, str) else value


SplitNames = BeforeValidator(_split)
"""Validator that splits a string at `+` into a tuple of names, as users write it on the command line.

For a field whose elements have another type than `str`: `Annotated[tuple[Kind, ...], SplitNames]`.
"""

Names = Annotated[tuple[str, ...], SplitNames]
"""Type of an option that holds any number of names, joined by `+` on the command line: `-b acme:only=conv+relu`."""


def validate_options(model: type[Options], values: Mapping[str, Any]) -> Options:
    """Return the options that have `values`.

    Raises:
        ValueError: A value is not possible; the message has the sentences of all problems, and no more.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise ValueError("; ".join(map(problem_message, error.errors()))) from None
