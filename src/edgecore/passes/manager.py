"""Running passes in order, with checks between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch.export import ExportedProgram

from edgecore.ir.verifier import verify

Pass = Callable[[ExportedProgram], ExportedProgram]
"""A pass takes a program that it may edit, and returns it or another one."""


class PassManager:
    """Applies passes in order; with `verify_each` the edge verifier runs after every one of them."""

    def __init__(self, passes: Iterable[Pass], *, verify_each: bool = False) -> None:
        self.passes = list(passes)
        self.verify_each = verify_each

    def __call__(self, program: ExportedProgram) -> ExportedProgram:
        for transform in self.passes:
            program = transform(program)
            if self.verify_each:
                verify(program)
        return program
