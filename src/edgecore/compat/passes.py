"""Passes that scripts of ExecuTorch name: those that have nothing to do here, and one that lowering runs anyway."""

from __future__ import annotations

from typing import Any

from torch.export import ExportedProgram
from torch.fx import GraphModule

from edgecore.passes import PassResult
from edgecore.passes.fold_constants import fold_constants
from edgecore.stability import warn_no_effect


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
