"""Pooling windows that reach past the padding of their input."""

from __future__ import annotations

from torch.fx import Node

from edgecore.ir.graph import for_each
from edgecore.ir.op_args import arguments_by_name


def reaches_past_padding(node: Node) -> bool:
    """Return True if the last windows of an image pooling may reach past the input and its padding.

    With `ceil_mode`, the last windows reach past the padding if the windows do not cover the padded input exactly.
    PyTorch divides an average by the number of the window's pixels in the input or, with `count_include_pad`, in the
    input and the padding; libraries of backends use other divisors.

    Args:
        node: A call of `avg_pool2d`, `max_pool2d` or `max_pool2d_with_indices`. If its sizes are symbolic, the
            function returns `ceil_mode`.
    """
    args = arguments_by_name(node)
    if not args["ceil_mode"]:
        return False
    val = node.meta["val"]
    windows = (val[0] if isinstance(val, (tuple, list)) else val).shape[-2:]
    sizes = args["self"].meta["val"].shape[-2:]
    if not all(isinstance(size, int) for size in (*sizes, *windows)):
        return True
    kernel, padding, dilation = (for_each(args.get(name, 1), 2) for name in ("kernel_size", "padding", "dilation"))
    stride = for_each(args["stride"] or kernel, 2)
    return any(
        (windows[d] - 1) * stride[d] + dilation[d] * (kernel[d] - 1) + 1 > sizes[d] + 2 * padding[d] for d in (0, 1)
    )
