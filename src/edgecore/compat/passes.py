"""The manager of passes, and passes that scripts of ExecuTorch name.

Of these, some have nothing to do here, and one runs anyway in lowering.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.export import ExportedProgram
from torch.fx import GraphModule

from edgecore import passes as edgecore_passes
from edgecore.errors import CompileError
from edgecore.passes import NamedPass, PassBase, PassResult
from edgecore.passes.fold_constants import fold_constants
from edgecore.stability import warn_no_effect


class PassManager(edgecore_passes.PassManager):
    """A manager of passes with ExecuTorch's order of arguments.

    Args:
        passes: The passes, also lists of passes.
        run_checks_after_each_pass: As for `edgecore.passes.PassManager`.
        suppress_check_failures: As for `edgecore.passes.PassManager`.
    """

    def __init__(
        self, passes: Any = None, run_checks_after_each_pass: bool = False, suppress_check_failures: bool = False
    ) -> None:
        super().__init__(
            flat(passes),
            run_checks_after_each_pass=run_checks_after_each_pass,
            suppress_check_failures=suppress_check_failures,
        )


def flat(passes: Any) -> list[Any]:
    """List the passes of nested lists; of None, none; of a pass, itself.

    Raises:
        CompileError: Something else is given, such as a partitioner.
    """
    if isinstance(passes, (PassBase, NamedPass)):
        return [passes]
    if isinstance(passes, type):
        raise CompileError(f"{passes.__name__} is a class, no pass: call it to make one")
    if isinstance(passes, Iterable) and not isinstance(passes, str):
        return [one for some in passes for one in flat(some)]
    is_pass = callable(passes) and not hasattr(passes, "partition")
    if passes is not None and not is_pass:
        raise CompileError(
            f"an object of type {type(passes).__name__} is no pass: give functions of graph modules, PassBase objects or "
            "managers of passes, and partitioners in the argument partitioner"
        )
    return [] if passes is None else [passes]


def constant_prop_pass(
    exported_program: ExportedProgram, custom_skip_targets: Any = None, _skip_dim_order: bool = True
) -> ExportedProgram:
    """Compute operators that read only constants, as lowering does. The arguments after the first have no effect."""
    if custom_skip_targets is not None:
        reason = "dequantizations of weights stay and all other operators on constants are computed"
        warn_no_effect("constant_prop_pass(custom_skip_targets=...)", reason)
    return fold_constants(exported_program)


class _Nothing:
    """A pass that leaves a graph as it is."""

    def __call__(self, graph_module: GraphModule) -> PassResult:
        """Return the graph as it is."""
        return PassResult(graph_module, False)


class ConstraintBasedSymShapeEvalPass(_Nothing):
    """Upper bounds of sizes from the ranges of the exported program: what edgecore always does."""


class HintBasedSymShapeEvalPass(_Nothing):
    """Upper bounds of sizes from the example inputs. edgecore takes them from the ranges of the exported program."""


class DuplicateDynamicQuantChainPass(_Nothing):
    """Own scales for each user of an input that is quantized at run time. edgecore's lowering takes shared ones."""
