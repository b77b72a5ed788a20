"""Passes that scripts of ExecuTorch name, and that have nothing to do here."""

from __future__ import annotations

from torch.fx import GraphModule

from edgecore.passes import PassResult


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
