"""Find the weights that a recipe replaces, and fold batch norms into convolutions before the replacement."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.nn.utils.fusion import fuse_conv_bn_weights

from edgecore.errors import NothingToQuantize
from edgecore.plugin import Selects
from edgecore.sdk import Constants, argument, calls, copy_program, edit, functionalize, replace

aten = torch.ops.aten

CONVOLUTIONS = (
    aten.conv1d.default, aten.conv1d.padding, aten.conv2d.default, aten.conv2d.padding, aten.conv3d.default,
    aten.conv3d.padding,
)  # fmt: skip
TRANSPOSED = (aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input)
OTHERS = (
    aten.convolution.default, aten.linear.default, aten.embedding.default, aten.matmul.default, aten.mm.default,
    aten.addmm.default, aten.bmm.default,
)  # fmt: skip


def rewrite_weights(
    program: ExportedProgram,
    selects: Selects,
    is_weight: Callable[[torch.Tensor], bool],
    rewrite: Callable[[GraphModule, Constants, Node, list[Node]], None],
    missing: str,
) -> ExportedProgram:
    """Return a copy of an exported program in which `rewrite` has replaced the selected weights.

    First, batch norms are folded into the convolutions that precede them.

    Args:
        program: The exported program.
        selects: Returns True for the calls that a recipe may quantize.
        is_weight: Returns True for a constant that counts as a weight.
        rewrite: Replaces a weight for the calls that read it.
        missing: Error message if the program has no such weight.

    Raises:
        NothingToQuantize: The program has no such weight.
    """
    program = functionalize(copy_program(program))
    constants = Constants(program)
    with edit(program) as graph_module:
        fuse_batch_norms(graph_module, constants, selects)
        readers = readers_of_weights(graph_module, constants, selects, is_weight)
        for weight, nodes in readers.items():
            rewrite(graph_module, constants, weight, nodes)
    if not readers:
        raise NothingToQuantize(missing)
    constants.drop_unused()
    return program


def readers_of_weights(
    graph_module: GraphModule, constants: Constants, selects: Selects, is_weight: Callable[[torch.Tensor], bool]
) -> dict[Node, list[Node]]:
    """Map each weight of a layer, and each constant factor of a matmul, to the nodes that read it, in execution order.

    Args:
        graph_module: The graph.
        constants: The constants of the program.
        selects: Returns True for the calls that a recipe may quantize.
        is_weight: Returns True for a constant that counts as a weight.
    """
    readers: dict[Node, list[Node]] = {}
    for node in filter(selects, calls(graph_module, *CONVOLUTIONS, *TRANSPOSED, *OTHERS)):
        for source in node.all_input_nodes:
            if constants.has(source) and is_weight(source.meta["val"]):
                readers.setdefault(source, []).append(node)
    return readers


def store(constants: Constants, weight: Node, readers: Sequence[Node], values: torch.Tensor, suffix: str) -> None:
    """Replace a weight for `readers`. If other nodes also read it, add the new weight under the name plus `suffix`."""
    if set(weight.users) <= set(readers):
        constants.set(weight, values)
        return
    changed = constants.add(f"{constants.specs[weight.name].target}{suffix}", values)
    for reader in readers:
        reader.replace_input_with(weight, changed)


def fuse_batch_norms(graph_module: GraphModule, constants: Constants, selects: Selects) -> None:
    """Fold batch norms into convolutions before weights are quantized: a later fold would change quantized weights."""
    for norm in calls(graph_module, aten.batch_norm.default):
        conv = norm.args[0]
        if not isinstance(conv, Node) or conv.target not in CONVOLUTIONS + TRANSPOSED or len(conv.users) != 1:
            continue
        names = ("running_mean", "running_var", "weight", "bias")
        parameters = [argument(conv, "weight"), argument(conv, "bias"), *(argument(norm, name) for name in names)]
        is_constant = all(parameter is None or constants.has(parameter) for parameter in parameters)
        is_grouped = conv.target in TRANSPOSED and argument(conv, "groups") != 1
        if not is_constant or is_grouped or argument(norm, "training") or not selects(conv):
            continue
        weight, bias, *of_norm = (constants.get(node).double() if node else None for node in parameters)
        mean, variance, gamma, beta = of_norm
        assert weight is not None and mean is not None and variance is not None
        fused = fuse_conv_bn_weights(
            weight, bias, mean, variance, argument(norm, "eps"), gamma, beta, transpose=conv.target in TRANSPOSED
        )
        dtype = argument(conv, "weight").meta["val"].dtype
        store(constants, argument(conv, "weight"), [conv], fused[0].detach().to(dtype), "_fused")
        added = constants.add(f"{conv.name}_bias", fused[1].detach().to(dtype))
        conv.args = (*conv.args[:2], added, *conv.args[3:])
        replace(norm, conv)
