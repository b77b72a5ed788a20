"""Find the constant floating-point weights of a program, for recipes that quantize them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch.fx import GraphModule, Node

from edgecore.plugin import Selects
from edgecore.sdk import Constants, argument, calls
from edgecore.sdk.torch_compat import OpOverload


def float_weights(
    graph_module: GraphModule,
    constants: Constants,
    names: Mapping[OpOverload, str],
    selects: Selects,
    dtypes: tuple[torch.dtype, ...] = (torch.float32,),
) -> Iterator[tuple[Node, Node]]:
    """Yield each fx node whose weight is a non-empty constant tensor of at least 2 dims, together with the weight.

    Args:
        graph_module: The graph.
        constants: The constants of the program.
        names: Maps operators to the name of their weight argument.
        selects: Returns True for the calls that a recipe may quantize.
        dtypes: The dtypes that a weight may have.
    """
    for target, name in names.items():
        for node in filter(selects, calls(graph_module, target)):
            weight = argument(node, name)
            val = weight.meta["val"]
            if constants.has(weight) and val.dtype in dtypes and val.numel() and val.dim() > 1:
                yield node, weight
