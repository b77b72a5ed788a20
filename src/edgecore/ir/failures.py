"""Sentences about exceptions that a pass, a table or a backend raised by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.fx import Node

from edgecore.errors import CompileError, EdgecoreError, FallbackWarning
from edgecore.ir.graph import describe, is_inside_torch

LONGEST = 400
"""Characters of an exception's text that a sentence quotes."""


@contextmanager
def failures_named(what: str) -> Iterator[None]:
    """Turn any exception of the block into a `CompileError` about `what`, such as `the pass decompose`.

    Errors that edgecore raises on purpose are sentences already and stay as they are.
    """
    try:
        yield
    except (EdgecoreError, FallbackWarning):
        raise
    except Exception as error:
        node = failing_node(error)
        place = f" at {describe(node)}" if node is not None else ""
        raise CompileError(
            f"{what} failed{place}: {text_of(error)}; this is a fault of edgecore or of that code, not of the model: "
            "please report it, with the model if you can"
        ) from error


def failing_node(error: BaseException) -> Node | None:
    """The node that was at work when `error` was raised, if the traceback shows one.

    Code that goes through a graph calls the node in its hand `node`, in edgecore as in torch.fx and in backends: this is
    the local variable of that name in the innermost frame, outside torch, that has one.
    """
    found, step = None, error.__traceback__
    while step is not None:
        value = step.tb_frame.f_locals.get("node")
        if isinstance(value, Node) and not is_inside_torch(step.tb_frame.f_code.co_filename):
            found = value
        step = step.tb_next
    return found


def text_of(error: BaseException) -> str:
    """`IndexError: list index out of range`: the first line of what may be many; edgecore's own errors without the type."""
    first = str(error).strip().partition("\n")[0].strip()
    first = first if len(first) <= LONGEST else f"{first[:LONGEST]}..."
    if isinstance(error, EdgecoreError) and first:
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
