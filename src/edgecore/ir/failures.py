"""Error messages for unexpected exceptions in passes, operator tables and backends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.fx import Node

from edgecore.errors import CompileError, EdgecoreError, FallbackWarning
from edgecore.ir.graph import describe, is_inside_torch

_MAX_QUOTED = 400
"""Largest number of characters that a message quotes from an exception."""


@contextmanager
def failures_named(what: str) -> Iterator[None]:
    """Turn an exception in the `with` block into a `CompileError` about `what`, such as `the pass decompose`.

    edgecore's own errors are already full sentences and pass unchanged.
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
    """Return the node that was being processed when `error` was raised, or None if the traceback does not show it.

    In edgecore, torch.fx and backends, code that walks a graph usually calls its current node `node`. So the result is
    the local variable `node` of the innermost frame outside of torch that has one.
    """
    innermost, step = None, error.__traceback__
    while step is not None:
        value = step.tb_frame.f_locals.get("node")
        if isinstance(value, Node) and not is_inside_torch(step.tb_frame.f_code.co_filename):
            innermost = value
        step = step.tb_next
    return innermost


def text_of(error: BaseException) -> str:
    """Format an exception by its type and first line: `IndexError: list index out of range`.

    edgecore's own errors are shown without their type.
    """
    line = str(error).strip().partition("\n")[0].strip()
    line = line if len(line) <= _MAX_QUOTED else f"{line[:_MAX_QUOTED]}..."
    if isinstance(error, EdgecoreError) and line:
        return line
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
