"""Crop the outer rows and columns of convolution kernels that only ever read padding."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.graph import Editor, calls, edit, fake_mode, for_each
from edgecore.ir.program.constants import Constants
from edgecore.passes.quantized import is_dequantize

aten = torch.ops.aten


def crop_padding_only_taps(program: ExportedProgram) -> ExportedProgram:
    """Crop constant kernels and the padding by the same amount on both sides of a dim.

    A tap is an element of a kernel along one dim. For example, of a 3 x 3 kernel with dilation 24 and padding 24 on
    14 x 14 pixels, only the middle tap meets pixels, so that a 1 x 1 kernel without padding remains. Dims of symbolic
    size are not cropped.
    """
    constants = Constants(program)
    with edit(program) as graph_module:
        mode = fake_mode(graph_module)
        for conv in calls(graph_module, aten.convolution.default):
            weight = _constant(constants, conv.args[1])
            cuts = [] if weight is None or conv.args[6] else _cuts(conv)
            if weight is not None and any(cuts):
                _crop(constants, Editor(graph_module, conv, mode), weight, cuts)
    constants.drop_unused()
    return program


def _constant(constants: Constants, weight: object) -> Node | None:
    source = weight.args[0] if isinstance(weight, Node) and is_dequantize(weight) else weight
    return source if isinstance(source, Node) and constants.has(source) else None


def _cuts(conv: Node) -> list[int]:
    """For each dim, return the number of taps to remove at each end of the kernel."""
    source, weight = conv.args[0], conv.args[1]
    assert isinstance(source, Node) and isinstance(weight, Node)
    pixels, kernel = source.meta["val"].shape[2:], weight.meta["val"].shape[2:]
    outputs = conv.meta["val"].shape[2:]
    strides, padding, dilation = (for_each(conv.args[index], len(pixels)) for index in (3, 4, 5))
    cuts = []
    for size, taps, out, stride, pad, step in zip(pixels, kernel, outputs, strides, padding, dilation, strict=True):
        if not isinstance(size, int) or not isinstance(out, int):
            cuts.append(0)
            continue
        # Tap t of output y reads pixel y * stride - pad + t * step (the dilation). The tap meets only padding if this
        # pixel precedes the first pixel even for the last output, or follows the last pixel even for the first output.
        # Removing a tap at both ends also removes `step` pixels of padding there; at least one tap remains.
        before = sum((out - 1) * stride - pad + tap * step < 0 for tap in range(taps))
        after = sum(tap * step - pad >= size for tap in range(taps))
        cuts.append(min(before, after, pad // step, (taps - 1) // 2))
    return cuts


def _crop(constants: Constants, editor: Editor, weight: Node, cuts: list[int]) -> None:
    conv = editor.origin
    kernel = constants.get(weight)
    for dim, cut in enumerate(cuts, start=2):
        kernel = kernel.narrow(dim, cut, kernel.shape[dim] - 2 * cut)
    cropped = constants.add(f"{weight.name}_trimmed", kernel.contiguous(), weight)
    if conv.args[1] is not weight:
        dequantize = conv.args[1]
        assert isinstance(dequantize, Node)
        parameters = dequantize.args[1:]
        cropped = editor.call(dequantize.target, cropped, *parameters, **dequantize.kwargs)  # type: ignore[arg-type]
    padding, dilation = (for_each(conv.args[index], len(cuts)) for index in (4, 5))
    conv.update_arg(1, cropped)
    conv.update_arg(4, [pad - cut * step for pad, cut, step in zip(padding, cuts, dilation, strict=True)])
