"""Tables of the options and operators of a backend, for its README, the terminal and the report. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

    from edgecore.plugin.api import OperatorSupport

OPTION_TITLES = ("option", "type", "default", "meaning")
OPERATOR_TITLES = ("operator", "dtypes", "constraints")


def option_rows(options: type[BaseModel]) -> list[tuple[str, str, str, str]]:
    """Return (name, type, default, description) of each option."""
    return [
        (name, _type(field.annotation), _default(field), field.description or "")
        for name, field in options.model_fields.items()
    ]


def operator_rows(support: Sequence[OperatorSupport]) -> list[tuple[str, str, str]]:
    """Return a row (operator, dtypes, constraints) for each supported operator."""
    return [(row.operator, ", ".join(row.dtypes), row.constraints) for row in support]


def markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table, with the first column as code.

    Args:
        titles: Titles of the columns.
        rows: Cells of each row.

    Returns:
        The text of the table, with a line feed after each line.
    """
    head = [" | ".join(titles), " | ".join("---" for _ in titles)]
    body = [" | ".join((f"`{first}`", *(cell.replace("|", "\\|") for cell in rest))) for first, *rest in rows]
    return "".join(f"| {line} |\n" for line in head + body)


def options_markdown(options: type[BaseModel]) -> str:
    """Format the options of a backend as a Markdown table. `options` is `BackendCompiler.Options`."""
    return markdown(OPTION_TITLES, option_rows(options))


def operators_markdown(support: Sequence[OperatorSupport]) -> str:
    """Format the operators of a backend as a Markdown table. `support` is the result of `operator_support()`."""
    return markdown(OPERATOR_TITLES, operator_rows(support))


def _type(annotation: Any) -> str:
    text = (
        annotation.__name__ if isinstance(annotation, type) and not hasattr(annotation, "__args__") else str(annotation)
    )
    return text.replace("typing.", "")


def _default(field: Any) -> str:
    return "required" if field.is_required() else str(field.get_default(call_default_factory=True))
