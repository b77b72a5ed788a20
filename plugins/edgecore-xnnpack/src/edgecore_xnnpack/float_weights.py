"""The constant float32 weights of a program, for the recipes that replace them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from edgecore.ir.constants import Constants
from edgecore.ir.graph import calls
from edgecore.passes.rewrites import argument


def float_weights(
    graph_module: GraphModule, constants: Constants, names: Mapping[OpOverload, str]
) -> Iterator[tuple[Node, Node]]:
    """Calls of the operators in `names`, each with its weight: the argument of that name, where it is constant."""
    for target, name in names.items():
        for node in calls(graph_module, target):
            weight = argument(node, name)
            if constants.has(weight) and weight.meta["val"].dtype == torch.float32:
                yield node, weight
