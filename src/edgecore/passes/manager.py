"""Running passes in order, with checks between them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import overload

from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from edgecore.errors import CompileError
from edgecore.ir.failures import failures_named
from edgecore.ir.graph import edit
from edgecore.ir.verifier import verify

ProgramPass = Callable[[ExportedProgram], ExportedProgram]
Pass = ProgramPass | PassBase
"""A function takes a program that it may edit, and returns it or another one; a `PassBase` (such as `ExportPass`) edits the
graph module and has conditions of its own, `requires` and `ensures`."""

Check = Callable[[GraphModule], None]

VERIFY_VARIABLE = "EDGECORE_VERIFY_PASSES"
"""Environment variable: if it is set and not 0, the edge verifier runs after every pass."""


class PassManager:
    """Applies passes in order to a program or a graph module. An exception in one is a `CompileError` that names it.

    With `run_checks_after_each_pass`, or where the environment says so, the edge verifier (for programs) and the checks that
    were added run after every pass; a failed one raises `CompileError` that names the pass, unless
    `suppress_check_failures`.
    """

    def __init__(
        self,
        passes: Iterable[Pass],
        *,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes = list(passes)
        self.checks: list[Check] = []
        self.run_checks = run_checks_after_each_pass or os.environ.get(VERIFY_VARIABLE, "0") not in ("", "0")
        self.suppress_check_failures = suppress_check_failures

    def add_checks(self, check: Check) -> None:
        """Run `check`, which raises if it is not content with a graph module, after each pass."""
        self.checks.append(check)
        self.run_checks = True

    @overload
    def __call__(self, program: ExportedProgram) -> ExportedProgram: ...
    @overload
    def __call__(self, program: GraphModule) -> PassResult: ...

    def __call__(self, program: ExportedProgram | GraphModule) -> ExportedProgram | PassResult:
        modified = False
        for transform in self.passes:
            with failures_named(f"the pass {_name(transform)}"):
                if isinstance(program, GraphModule):
                    result = _on_graph(transform, program)
                    program, modified = result.graph_module, modified or result.modified
                elif isinstance(transform, PassBase):
                    _on_program(transform, program)
                else:
                    program = transform(program)
            if self.run_checks:
                self._check(transform, program)
        return PassResult(program, modified) if isinstance(program, GraphModule) else program

    def _check(self, transform: Pass, program: ExportedProgram | GraphModule) -> None:
        try:
            if isinstance(program, ExportedProgram):
                verify(program)
            for check in self.checks:
                check(program.graph_module if isinstance(program, ExportedProgram) else program)
        except Exception as error:
            if not self.suppress_check_failures:
                raise CompileError(f"after the pass {_name(transform)}: {error}") from error


def _on_graph(transform: Pass, graph_module: GraphModule) -> PassResult:
    if not isinstance(transform, PassBase):
        raise CompileError(f"the pass {_name(transform)} works on programs, not on graph modules")
    result: PassResult | None = transform(graph_module)
    return result or PassResult(graph_module, True)


def _on_program(transform: PassBase, program: ExportedProgram) -> None:
    with edit(program) as graph_module:
        result = _on_graph(transform, graph_module)
        if result.graph_module is not graph_module:
            graph_module.graph = result.graph_module.graph


def _name(transform: Pass) -> str:
    return str(getattr(transform, "__name__", type(transform).__name__))
