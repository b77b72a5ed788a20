"""Error messages for unexpected exceptions in passes, operator tables and backends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.fx import Node

from edgecore.errors import CompileError, EdgecoreError, FallbackWarning
from edgecore.ir.graph import describe, is_inside_torch

_MAX_QUOTED = 400
"""Maximum number of characters that an error message quotes from the text of an exception."""


@contextmanager
def failures_named(what: str) -> Iterator[None]:
    """Turn an exception in the `with` block into a `CompileError` about `what`, such as `the pass decompose`.

    Errors that edgecore raises on purpose already are understandable sentences; they pass unchanged.
    """
    try:
        yield
    except (EdgecoreError, FallbackWarning):
        raise
    except Exception as error:
        node = failing_node(error)
        location = f" at {describe(node)}" if node is not None else ""
        raise CompileError(
            f"{what} failed{location}: {text_of(error)}; "
            "this is a fault of edgecore or of that code, not of the model: please report it, with the model if you can"
        ) from error


def failing_node(error: BaseException) -> Node | None:
    """Return the node that the code worked on when it raised `error`, or None if the traceback does not show one.

    Code that walks a graph usually calls its current node `node`, in edgecore, torch.fx and backends alike. So the
    node is the local variable `node` in the innermost frame that has one; frames inside torch do not count.
    """
    innermost, step = None, error.__traceback__
    while step is not None:
        value = step.tb_frame.f_locals.get("node")
        if isinstance(value, Node) and not is_inside_torch(step.tb_frame.f_code.co_filename):
            innermost = value
        step = step.tb_next
    return innermost


def text_of(error: BaseException) -> str:
    """Return the type and the first line of an exception: `IndexError: list index out of range`.

    edgecore's own errors have no type in front.
    """
    line = str(error).strip().partition("\n")[0].strip()
    line = line if len(line) <= _MAX_QUOTED else f"{line[:_MAX_QUOTED]}..."
    if isinstance(error, EdgecoreError) and line:
        return line
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
