"""The pass manager: runs passes in order, with checks after each."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any, overload

from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from edgecore.errors import CompileError
from edgecore.ir.dialect.verifier import verify
from edgecore.ir.failures import failures_named
from edgecore.ir.graph import edit, has_result, take_graph
from edgecore.ir.program.completion import complete_program, complete_vals
from edgecore.passes.pass_list import NamedPass, Pass, name_of
from edgecore.progress import Task, task

GraphCheck = Callable[[GraphModule], None]
"""A function that raises an exception if a graph module breaks a rule."""

GraphPass = Callable[[GraphModule], "PassResult | None"]
"""A function that edits a graph module; a pass for a manager that is called with a graph module."""

ProgramCheck = Callable[[ExportedProgram], None]
"""A function that raises an exception if a program breaks a rule."""

_RUNNING = threading.RLock()
"""A lock that allows one running pass at a time: while a pass traces, torch replaces functions of the whole process."""

VERIFY_VARIABLE = "EDGECORE_VERIFY_PASSES"
"""Environment variable; if it is set and not 0, programs are verified after every pass."""


class PassManager:
    """A list of passes to run on a program or a graph module.

    A pass that is a function receives the argument of the manager, a program or a graph module. A function that
    receives a graph module edits the module, and returns a `PassResult` or nothing. An exception in a pass becomes a
    `CompileError` that names the pass. The manager computes each `val` that a call lacks.

    Args:
        passes: The passes.
        run_checks_after_each_pass: True to run the checks of `add_checks` after every pass. A program is also checked
            by `check_program`; a graph module must call only functions. The environment variable
            `EDGECORE_VERIFY_PASSES` does the same. A failed check is a `CompileError` that names the pass.
        suppress_check_failures: True to ignore failed checks.
        check_program: The check for programs. The default is the verifier of the edge dialect.
        after_pass: Called after each pass on a program, with the name of the pass and the program.
    """

    def __init__(
        self,
        passes: Iterable[Pass | NamedPass | GraphPass] = (),
        *,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
        check_program: ProgramCheck = verify,
        after_pass: Callable[[str, ExportedProgram], None] | None = None,
    ) -> None:
        self.passes = list(passes)
        self.checks: list[GraphCheck] = []
        self.run_checks = run_checks_after_each_pass or os.environ.get(VERIFY_VARIABLE, "0") not in ("", "0")
        self.suppress_check_failures = suppress_check_failures
        self._check_program = check_program
        self._after_pass = after_pass

    def add_pass(self, transform: Pass | NamedPass | GraphPass) -> None:
        """Add `transform` at the end of the list."""
        self.passes.append(transform)

    def add_checks(self, check: GraphCheck) -> None:
        """Add a check to run after each pass."""
        self.checks.append(check)
        self.run_checks = True

    @overload
    def __call__(self, program: ExportedProgram) -> ExportedProgram: ...
    @overload
    def __call__(self, program: GraphModule) -> PassResult: ...

    def __call__(self, program: ExportedProgram | GraphModule) -> ExportedProgram | PassResult:
        with task("running passes", len(self.passes)) as work:
            return self._run(program, work)

    def _run(self, program: ExportedProgram | GraphModule, work: Task) -> ExportedProgram | PassResult:
        modified = False
        for transform in self.passes:
            name = name_of(transform)
            work.describe(name)
            function: Any = transform.function if isinstance(transform, NamedPass) else transform
            with _RUNNING, failures_named(f"the pass {name}"):
                if isinstance(program, GraphModule):
                    if isinstance(transform, NamedPass) and not isinstance(function, PassBase):
                        raise CompileError(
                            f"the pass {name} works on programs, not on graph modules: call it with a program"
                        )
                    result = _on_graph(name, function, program)
                    program, modified = result.graph_module, modified or result.modified
                elif isinstance(function, PassBase):
                    _on_program(name, function, program)
                else:
                    program = function(program)
            if isinstance(program, ExportedProgram):
                complete_program(program, f"after the pass {name}")
            if self.run_checks:
                self._check(name, program)
            if self._after_pass is not None and isinstance(program, ExportedProgram):
                self._after_pass(name, program)
            work.advance()
        return PassResult(program, modified) if isinstance(program, GraphModule) else program

    def _check(self, name: str, program: ExportedProgram | GraphModule) -> None:
        try:
            if isinstance(program, ExportedProgram):
                self._check_program(program)
            else:
                _check_graph(program)
            for check in self.checks:
                check(program.graph_module if isinstance(program, ExportedProgram) else program)
        except Exception as error:
            if not self.suppress_check_failures:
                raise CompileError(f"after the pass {name}: {error}") from error


def check_structure(program: ExportedProgram) -> None:
    """Check the structure of a program, which need not be in the edge dialect.

    Raises:
        RuntimeError: The graph reads a node before it is computed, or a node of another graph.
        CompileError: A call has no `val`, or the signature does not match the graph's inputs or its number of results.
    """
    graph = program.graph_module.graph
    graph.lint()
    for node in graph.nodes:
        if node.op == "call_function" and "val" not in node.meta and has_result(node):
            raise CompileError(f"node {node.name} ({node.target}) has no val")
    inputs = [node.name for node in graph.nodes if node.op == "placeholder"]
    named = [getattr(spec.arg, "name", None) for spec in program.graph_signature.input_specs]
    if inputs != named:
        raise CompileError(f"the graph has the inputs {inputs}, but its signature has {named}")
    results, specs = graph.output_node().args[0], program.graph_signature.output_specs
    assert isinstance(results, (tuple, list))
    if len(results) != len(specs):
        raise CompileError(f"the graph has {len(results)} results, but its signature has {len(specs)}")


def _check_graph(graph_module: GraphModule) -> None:
    for node in graph_module.graph.nodes:
        if node.op in ("call_method", "call_module"):
            raise CompileError(f"node {node.name}: an edge graph has no {node.op} nodes; call an operator")


def _on_graph(name: str, transform: GraphPass, graph_module: GraphModule) -> PassResult:
    try:
        result = transform(graph_module)
    except AttributeError as error:
        if error.obj is not graph_module or not hasattr(ExportedProgram, str(error.name)):
            raise
        raise CompileError(
            f"the pass {name} gets a graph module, but reads {error.name}, which only programs have: give transform "
            f"edgecore.passes.NamedPass({name!r}, ...), or call the manager with a program"
        ) from error
    if isinstance(result, GraphModule):
        result = PassResult(result, True)
    if not isinstance(result, (PassResult, NoneType)):
        raise CompileError(
            f"the pass {name} gave a {type(result).__name__}; return PassResult(graph_module, modified), the graph "
            "module, or nothing"
        )
    result = result or PassResult(graph_module, True)
    try:
        complete_vals(result.graph_module)
    except CompileError as error:
        raise CompileError(f"after the pass {name}: {error}") from error
    return result


def _on_program(name: str, transform: PassBase, program: ExportedProgram) -> None:
    with edit(program) as graph_module:
        result = _on_graph(name, transform, graph_module)
        if result.graph_module is not graph_module:
            take_graph(graph_module, result.graph_module)
