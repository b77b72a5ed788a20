"""Field types for a backend's options, which are a pydantic model, and the validation of the options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import BeforeValidator, ValidationError
from typing_extensions import Self

from edgecore.recipe import problem_message


class _Validated(Protocol):
    """The method with which a pydantic model validates options."""

    @classmethod
    def model_validate(cls, obj: Any) -> Self:
        """Return the options with the values of a dict."""


Options = TypeVar("Options", bound=_Validated)


def _split(value: Any) -> Any:
    return tuple(value.split("+")) if isinstance(value, str) else value


SplitNames = BeforeValidator(_split)
"""Validator that splits a string at `+`, as users write it on the command line, into a tuple of names.

For elements of another type than `str`: `Annotated[tuple[Kind, ...], SplitNames]`.
"""

Names = Annotated[tuple[str, ...], SplitNames]
"""Type of an option that holds any number of names, joined by `+` on the command line: `-b acme:only=conv+relu`."""


def validate_options(model: type[Options], values: Mapping[str, Any]) -> Options:
    """Make the options from `values`.

    Raises:
        ValueError: A value is not valid; the message has one sentence for each problem.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise ValueError("; ".join(map(problem_message, error.errors()))) from None
