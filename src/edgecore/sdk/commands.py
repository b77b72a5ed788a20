"""Make commands for the entry-point group `edgecore.commands` from data classes, whose fields are the parameters.

Experimental: may change in any release.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_type_hints

Arguments = TypeVar("Arguments")


def takes(arguments: type[Arguments]) -> Callable[[Callable[[Arguments], None]], Callable[..., None]]:
    """Turn a function that takes an instance of a data class into a command whose parameters are the class's fields."""
    hints = get_type_hints(arguments, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(arguments)  # type: ignore[arg-type]
    ]

    def make_command(function: Callable[[Arguments], None]) -> Callable[..., None]:
        @functools.wraps(function)
        def command(**values: Any) -> None:
            function(arguments(**values))

        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return make_command
