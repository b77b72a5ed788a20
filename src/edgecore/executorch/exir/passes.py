"""ExecuTorch's manager of passes, and passes that its scripts name.

In edgecore some of these passes do nothing, and lowering always folds constants as `constant_prop_pass` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.passes.infra import pass_manager

from edgecore import passes as edgecore_passes
from edgecore.errors import CompileError
from edgecore.passes import NamedPass, PassBase, PassResult
from edgecore.passes.library.fold_constants import fold_constants
from edgecore.stability import warn_no_effect


class PassManager(edgecore_passes.PassManager):
    """A manager of passes with ExecuTorch's arguments.

    Args:
        passes: A pass, or nested lists of passes.
        run_checks_after_each_pass: As for `edgecore.passes.PassManager`.
        suppress_check_failures: As for `edgecore.passes.PassManager`.
        steps: Maximum number of times that the passes run. They run again only if one of them changed the graph.
        constraints: Functions of two passes that return False if the first must not run before the second; see
            `torch.fx.passes.infra.pass_manager.this_before_that_pass_constraint`.

    Raises:
        RuntimeError: A call of the manager raises it if no order satisfies all constraints.
    """

    def __init__(
        self,
        passes: Any = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
        steps: int = 1,
        constraints: Iterable[Callable[[Any, Any], bool]] | None = None,
    ) -> None:
        super().__init__(
            flat(passes),
            run_checks_after_each_pass=run_checks_after_each_pass,
            suppress_check_failures=suppress_check_failures,
        )
        self.steps = steps
        self.constraints = list(constraints or ())

    def set_checks(self, check: Callable[[GraphModule], None]) -> None:
        """Run `check` after each pass, instead of the checks that were added before."""
        self.checks.clear()
        self.add_checks(check)

    def add_constraint(self, constraint: Callable[[Any, Any], bool]) -> None:
        """Add a constraint on the order of two passes; see the argument `constraints` of `PassManager`."""
        self.constraints.append(constraint)

    def solve_constraints(self) -> None:
        """Bring the passes into an order that the constraints allow. A call of the manager does this, too.

        Raises:
            RuntimeError: There is no such order.
        """
        ordered = self._ordered()
        ordered.solve_constraints()
        self.passes = [*ordered.passes]

    def validate_constraints(self) -> None:
        """Check that the constraints allow the order of the passes.

        Raises:
            RuntimeError: The constraints do not allow the order.
        """
        self._ordered().validate_constraints()

    def check(self, module: GraphModule) -> None:
        """Run the checks of `set_checks` and `add_checks` on a graph module."""
        for check in self.checks:
            check(module)

    def _ordered(self) -> pass_manager.PassManager:
        passes: list[Any] = [*self.passes]
        return pass_manager.PassManager(passes, self.constraints)

    def __call__(self, program: Any) -> Any:
        """Run the passes, in an order that the constraints allow."""
        if self.constraints:
            self.solve_constraints()
        result = super().__call__(program)
        modified = isinstance(result, PassResult) and result.modified
        for _ in range(self.steps - 1):
            if not isinstance(result, PassResult) or not result.modified:
                break
            result = super().__call__(result.graph_module)
        return PassResult(result.graph_module, modified) if isinstance(result, PassResult) else result


def flat(passes: Any) -> list[Any]:
    """Flatten nested lists of passes. A single pass gives a list of one, and None an empty list.

    Raises:
        CompileError: An object, such as a partitioner, is not a pass.
    """
    if isinstance(passes, (PassBase, NamedPass)):
        return [passes]
    if isinstance(passes, type):
        raise CompileError(f"{passes.__name__} is a class, no pass: call it to make one")
    if isinstance(passes, Iterable) and not isinstance(passes, str):
        return [single for nested in passes for single in flat(nested)]
    is_pass = callable(passes) and not hasattr(passes, "partition")
    if passes is not None and not is_pass:
        raise CompileError(
            f"an object of type {type(passes).__name__} is no pass: give functions of graph modules, PassBase objects "
            "or managers of passes, and partitioners in the argument partitioner"
        )
    return [] if passes is None else [passes]


def constant_prop_pass(
    exported_program: ExportedProgram, custom_skip_targets: Any = None, _skip_dim_order: bool = True
) -> ExportedProgram:
    """Fold operators that read only constants, as lowering does.

    Args:
        exported_program: The program, which is edited and returned.
        custom_skip_targets: Without effect.
        _skip_dim_order: False has no effect: edgecore has no operators that only change dim orders.
    """
    if custom_skip_targets is not None:
        reason = "all operators on constants are computed, but not dequantizations of weights"
        warn_no_effect("constant_prop_pass(custom_skip_targets=...)", reason)
    if not _skip_dim_order:
        warn_no_effect("constant_prop_pass(_skip_dim_order=False)", "dim orders are read off the strides of values")
    return fold_constants(exported_program)


class _Nothing:
    """A pass that does not change the graph, and warns that it has no effect."""

    reason: str

    def __call__(self, graph_module: GraphModule) -> PassResult:
        """Return the graph unchanged."""
        warn_no_effect(f"{type(self).__name__}()", self.reason)
        return PassResult(graph_module, False)


class ConstraintBasedSymShapeEvalPass(_Nothing):
    """In ExecuTorch, this pass takes upper bounds of sizes from the program's ranges, as edgecore always does."""

    reason = "memory always is planned for the upper bounds of sizes in the program"


class HintBasedSymShapeEvalPass(_Nothing):
    """In ExecuTorch, this pass takes upper bounds of sizes from example inputs; edgecore takes the program's."""

    reason = "upper bounds of sizes come from the program, not from the example inputs"


class DuplicateDynamicQuantChainPass(_Nothing):
    """In ExecuTorch, this pass repeats an input's run-time quantization for each user; in edgecore users share it."""

    reason = "partitioners take an input that is quantized at run time for several users"
