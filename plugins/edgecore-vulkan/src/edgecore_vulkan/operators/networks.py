"""Convolutions, matrix products, pooling, norms, softmax and attention."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import NodeQuery, arguments_by_name, for_each, is_dequantize, rank, shape
from edgecore_vulkan.calls import TensorValue
from edgecore_vulkan.integer_weights import weight_of
from edgecore_vulkan.operators.builder import FLOAT, Builder, Lower, Row, is_static, plain
from edgecore_vulkan.operators.elementwise import expanded
from edgecore_vulkan.passes.quantize import size_problem, weight_problem

aten = torch.ops.aten

_BLOCKED = torch.finfo(torch.float16).min
"""Added to scores that attention must not see; a number of float16, so that no dtype makes it infinite."""

_MAX_BATCH = 8
"""The largest batch that is convolved image by image for executorch 1.5."""


def _convolution(b: Builder, node: Node) -> TensorValue:
    """Write a convolution; one over lines becomes one over images of height 1."""
    args = arguments_by_name(node)
    count = rank(node) - 2
    stride, padding, dilation, extra = (
        list(for_each(args[name], count)) for name in ("stride", "padding", "dilation", "output_padding")
    )
    x, output = b.value(args["input"]), b.result(node)
    bias = b.bias(args["bias"])
    is_line = count == 1
    if is_line:
        x = b.view(x, (*x.shape[:2], 1, x.shape[2]))
        stride, padding, dilation, extra = [1, *stride], [0, *padding], [1, *dilation], [0, *extra]
    result = TensorValue((*output.shape[:2], 1, output.shape[2]), output.dtype) if is_line else output
    kernel = _image_kernel(b, args["weight"]) if is_line else b.weight(args["weight"])
    b.keep_exact(kernel, bias)
    rest = [kernel, bias, stride, padding, dilation, bool(args["transposed"]), extra, args["groups"]]
    if b.profile.is_stock and x.shape[0] > 1:  # executorch 1.5 convolves one image at a time
        images = []
        for index in range(x.shape[0]):
            image = TensorValue((1, *x.shape[1:]), x.dtype)
            b.call("aten.slice_copy.Tensor", [x, 0, index, index + 1, 1], image)
            images.append(TensorValue((1, *result.shape[1:]), result.dtype))
            b.call("aten.convolution.default", [image, *rest], images[-1])
        b.call("aten.cat.default", [images, 0], result)
    else:
        b.call("aten.convolution.default", [x, *rest], result)
    if is_line:
        b.call("aten.view_copy.default", [result, list(output.shape)], output)
    return output


def _image_kernel(b: Builder, node: Node) -> TensorValue:
    """Return the weights of a convolution over lines as those over images of height 1."""
    weight = b.constant_of(node)
    assert weight is not None
    return b.weights(weight.unsqueeze(2))


def _check_convolution(query: Any) -> str | None:
    x, weight, bias = (query.argument(name) for name in ("input", "weight", "bias"))
    count = rank(query.node) - 2
    groups, transposed = query.argument("groups"), query.argument("transposed")
    if count not in (1, 2):
        return f"{count} spatial dims"
    if not query.is_constant(weight) or not (bias is None or query.is_constant(bias)):
        return "weights that are computed"
    if count == 1 and not is_static(x):
        return "one spatial dim of symbolic size"
    if not query.profile.is_stock:
        return None
    if not isinstance(shape(x)[0], int) or shape(x)[0] > _MAX_BATCH:
        return f"a batch of {shape(x)[0]}: executorch 1.5 convolves one image at a time"
    sizes = shape(weight)
    if groups > 1 and (transposed or sizes[0] != groups or sizes[1] != 1):
        return "groups that are not depthwise, which executorch 1.5 does not support"
    if transposed and any(dilation > 1 for dilation in query.argument("dilation")):
        return "a dilated transposed convolution, which executorch 1.5 does not support"
    return None


def _linear(b: Builder, node: Node) -> TensorValue:
    """Write a linear layer, whose input has 2 dims for executorch's delegate."""
    args = arguments_by_name(node)
    x, output = b.value(args["input"]), b.result(node)
    weight = b.weight(args["weight"])
    bias = b.bias(args["bias"])
    if not b.profile.is_stock:
        b.call("aten.linear.default", [x, weight, bias], output)
        return output
    if len(x.shape) == 2:
        return _matrix_linear(b, x, weight, bias, output)
    rows = math.prod(x.shape[:-1])
    flat = b.view(x, (rows, x.shape[-1]), None if is_static(node) else (-1, x.shape[-1]))
    result = _matrix_linear(b, flat, weight, bias, TensorValue((rows, output.shape[-1]), x.dtype))
    sizes = [size if isinstance(size, int) else -1 for size in shape(node)]
    b.call("aten.view_copy.default", [result, sizes], output)
    return output


def _matrix_linear(
    b: Builder, x: TensorValue, weight: TensorValue, bias: TensorValue | None, output: TensorValue
) -> TensorValue:
    """Write a linear layer for executorch's delegate; one whose weights are computed as a product and a sum."""
    if weight.constant is not None and (bias is None or bias.constant is not None):
        b.call("aten.linear.default", [x, weight, bias], output)
        return output
    swapped = b.call("aten.permute_copy.default", [weight, [1, 0]], TensorValue(weight.shape[::-1], weight.dtype))
    product = b.call("aten.mm.default", [x, swapped], output if bias is None else output.like())
    if bias is not None:
        b.call("aten.add.Tensor", [product, bias, 1], output)
    return output


def _check_linear(query: Any) -> str | None:
    if rank(query.argument("weight")) != 2:
        return f"weights of {rank(query.argument('weight'))} dims"
    if not is_static(query.node) and (
        reason := size_problem(weight_of(query.argument("weight"), query.stored), query.profile)
    ):
        return reason
    symbolic = sum(not isinstance(size, int) for size in shape(query.node))
    weight = query.argument("weight")
    if is_dequantize(weight) and (reason := weight_problem(weight_of(weight, query.stored), query.profile)):
        return reason
    is_flattened = rank(query.node) > 2 and query.profile.is_stock
    if not is_static(query.argument("weight")):
        return "weights of symbolic size"
    return "several symbolic sizes" if is_flattened and symbolic > 1 else None


def _addmm(b: Builder, node: Node) -> TensorValue:
    """Write a product and a sum: as a linear layer if the second matrix and the bias are constant."""
    bias, left, right = node.args[:3]
    output = b.result(node)
    matrix, row = b.constant_of(right), b.constant_of(bias)
    if matrix is not None and row is not None and row.dim() == 1:
        weight = b.weights(matrix.t().contiguous())
        b.call("aten.linear.default", [b.value(left), weight, b.weights(row)], output)
        return output
    product = b.call("aten.mm.default", [b.value(left), b.value(right)], output.like())
    b.call("aten.add.Tensor", [product, b.value(bias), 1], output)
    return output


def _check_addmm(query: NodeQuery) -> str | None:
    return None if query.argument("alpha") == query.argument("beta") == 1 else "alpha or beta is not 1"


def _attention(b: Builder, node: Node) -> TensorValue:
    """Write attention: `et_vk.sdpa` (query, key, value, added mask or none, scale or none).

    executorch's delegate wants a mask of the scores' shape; ours repeats it.
    Heads of queries that share a head of keys and values become rows of one head.
    """
    args = arguments_by_name(node)
    query, key, value = (b.value(args[name]) for name in ("query", "key", "value"))
    output = b.result(node)
    scores = (*query.shape[:-1], key.shape[-2])
    together = query.shape[-3] // key.shape[-3] if len(query.shape) == 4 else 1
    mask = None
    if args["is_causal"]:
        mask = b.constant(torch.full(scores[-2:], _BLOCKED, dtype=query.dtype).triu(1))
    elif args["attn_mask"] is not None:
        mask = _added_mask(b, b.value(args["attn_mask"]), query)
    if mask is not None and b.profile.is_stock:
        mask = expanded(b, mask, scores)
    scale = None if args["scale"] is None else float(args["scale"])
    if together == 1:
        b.call("et_vk.sdpa.default", [query, key, value, mask, scale], output)
        return output
    rows = together * query.shape[2]
    length = rows if is_static(args["query"]) else -1
    folded = b.view(query, (*key.shape[:2], rows, query.shape[3]), [*key.shape[:2], length, query.shape[3]])
    result = TensorValue((*folded.shape[:3], value.shape[3]), output.dtype)
    b.call("et_vk.sdpa.default", [folded, key, value, _for_shared_heads(b, mask, together), scale], result)
    return b.view(result, output.shape, [*output.shape[:2], output.shape[2] if length == rows else -1, output.shape[3]])


def _for_shared_heads(b: Builder, mask: TensorValue | None, together: int) -> TensorValue | None:
    """Return the mask of all heads with its rows repeated for each of the heads that share keys and values."""
    if mask is None or len(mask.shape) < 2 or mask.shape[-2] == 1:
        return mask
    times = [1] * (len(mask.shape) - 2) + [together, 1]
    if mask.constant is not None:
        return b.constant(mask.constant.repeat(times))
    rows = TensorValue((*mask.shape[:-2], together * mask.shape[-2], mask.shape[-1]), mask.dtype)
    result: TensorValue = b.call("aten.repeat.default", [mask, times], rows)
    return result


def _added_mask(b: Builder, mask: TensorValue, like: TensorValue) -> TensorValue:
    """Return a mask as numbers to add to scores: a boolean one is -inf where it is false."""
    if mask.dtype != torch.bool:
        return mask
    numbers = [b.scalar(0.0, like), b.scalar(-math.inf, like)]
    result: TensorValue = b.call("aten.where.self", [mask, *numbers], TensorValue(mask.shape, like.dtype))
    return result


def _check_attention(query: Any) -> str | None:
    if query.argument("dropout_p"):
        return "dropout_p"
    is_stock = query.profile.is_stock
    tensors = [query.argument(name) for name in ("query", "key", "value")]
    mask, is_causal = query.argument("attn_mask"), query.argument("is_causal")
    if query.argument("enable_gqa") and (reason := _grouped_reason(query, tensors)):
        return reason
    ranks = {rank(tensor) for tensor in tensors}
    if ranks != {4} and (is_stock or ranks != {3}):
        return "tensors without 4 dims"
    alike = tensors[1:] if query.argument("enable_gqa") else tensors
    if len({shape(tensor)[:-2] for tensor in alike}) > 1:
        return "different batches or heads"
    if is_stock and shape(tensors[2])[-1] != shape(tensors[0])[-1]:
        return "values of another size than queries"
    if mask is not None and (rank(mask) > rank(tensors[0]) or mask.meta["val"].dtype not in _mask_dtypes(query)):
        return "a mask of another dtype or of more dims"
    if (is_causal or (mask is not None and is_stock)) and not all(map(is_static, tensors)):
        return "a mask of symbolic size"
    return None


def _mask_dtypes(query: Any) -> tuple[torch.dtype, ...]:
    dtype = query.node.meta["val"].dtype
    return (dtype,) if query.profile.is_stock else (dtype, torch.bool)


def _grouped_reason(query: Any, tensors: list[Any]) -> str | None:
    """Return why attention of several heads of queries to each head of keys is not supported, or None."""
    if query.profile.is_stock:
        return "enable_gqa"
    if any(rank(tensor) != 4 for tensor in tensors):
        return "enable_gqa without 4 dims"
    (batch, heads, _, width), (key_batch, key_heads, _, _) = (shape(tensor) for tensor in tensors[:2])
    if not all(isinstance(size, int) for size in (batch, heads, width, *shape(tensors[2])[-1:])):
        return "enable_gqa with a symbolic batch"
    if batch != key_batch or heads % key_heads:
        return "different batches, or heads that are no multiple"
    mask = query.argument("attn_mask")
    return "a mask for each head" if mask is not None and rank(mask) > 2 and shape(mask)[-3] != 1 else None


def _max_pool(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    kernel = list(for_each(args["kernel_size"], 2))
    stride = list(for_each(args["stride"] or kernel, 2))
    padding, dilation = list(for_each(args["padding"], 2)), list(for_each(args["dilation"], 2))
    has_indices = isinstance(node.meta["val"], (tuple, list))
    output = b.result(node, 0 if has_indices else None)
    b.call(
        "aten.max_pool2d.default", [b.value(node.args[0]), kernel, stride, padding, dilation, args["ceil_mode"]], output
    )
    return [output] if has_indices else output


def _average_pool(b: Builder, node: Node) -> TensorValue:
    args = arguments_by_name(node)
    kernel = list(for_each(args["kernel_size"], 2))
    stride, padding = list(for_each(args["stride"] or kernel, 2)), list(for_each(args["padding"], 2))
    ceil, include = bool(args["ceil_mode"]), bool(args["count_include_pad"])
    output: TensorValue = b.call(
        "aten.avg_pool2d.default",
        [b.value(node.args[0]), kernel, stride, padding, ceil, include, args["divisor_override"]],
        b.result(node),
    )
    return output


def _adaptive_pool(b: Builder, node: Node) -> TensorValue:
    """Write a mean of the whole image, or an average of windows that divide it."""
    x, output = b.value(node.args[0]), b.result(node)
    if output.shape[2:] == (1, 1):
        b.call("aten.mean.dim", [x, [-1, -2], True, None], output)
        return output
    kernel = [size // count for size, count in zip(x.shape[2:], output.shape[2:], strict=True)]
    b.call("aten.avg_pool2d.default", [x, kernel, kernel, [0, 0], False, True, None], output)
    return output


def _check_adaptive(query: NodeQuery) -> str | None:
    before, after = shape(query.node.args[0])[2:], shape(query.node)[2:]
    if rank(query.node) != 4:
        return f"{rank(query.node)} dims instead of 4"
    if after == (1, 1):
        return None
    if not (is_static(query.node) and is_static(query.node.args[0])):
        return "symbolic height or width"
    divides = all(size % count == 0 for size, count in zip(before, after, strict=True))
    return None if divides else "windows of different sizes"


def _image(query: NodeQuery) -> str | None:
    return None if rank(query.node.args[0]) == 4 else f"{rank(query.node.args[0])} dims instead of 4"


def _check_max_pool(query: NodeQuery) -> str | None:
    return _only_first(query) or _image(query)


def _only_first(query: NodeQuery) -> str | None:
    """Refuse a call of which a result other than the first is read."""
    for user in query.node.users:
        if user.target.__name__ == "getitem" and user.args[1] != 0 and user.users:  # type: ignore[union-attr]
            return f"result {user.args[1]} is read"
    return None


def _layer_norm(b: Builder, node: Node) -> list[TensorValue]:
    args = arguments_by_name(node)
    sizes = list(args["normalized_shape"])
    x = b.value(node.args[0])
    outputs = [b.result(node, index) for index in range(3)]
    computed = [b.value(args[name]) for name in ("weight", "bias") if _is_computed(b, args[name])]
    weight, bias = (
        _affine(b, None if computed else args[name], number, sizes, x)
        for name, number in (("weight", 1.0), ("bias", 0.0))
    )
    b.call("aten.native_layer_norm.default", [x, sizes, weight, bias, float(args["eps"])], outputs)
    if computed:
        outputs[0] = _scaled(b, outputs[0], args["weight"], args["bias"])
    return outputs


def _is_computed(b: Builder, node: Any) -> bool:
    return node is not None and b.constant_of(node) is None


def _scaled(b: Builder, value: TensorValue, weight: Any, bias: Any) -> TensorValue:
    """Write the product and the sum of a norm whose weights are computed."""
    if weight is not None:
        value = b.call("aten.mul.Tensor", [value, b.value(weight)], value.like())
    if bias is not None:
        value = b.call("aten.add.Tensor", [value, b.value(bias), 1], value.like())
    return value


def _affine(b: Builder, node: Any, number: float, sizes: list[int], like: TensorValue) -> TensorValue:
    return b.constant(torch.full(sizes, number, dtype=like.dtype)) if node is None else b.value(node)


def _only_last_dim(query: NodeQuery) -> str | None:
    sizes = query.argument("normalized_shape")
    if len(sizes) != 1:
        return "normalized over several dims"
    return None if isinstance(sizes[0], int) else "normalized over a symbolic size"


def _constant_affine(query: NodeQuery) -> str | None:
    affine = [query.argument(name) for name in ("weight", "bias")]
    return None if all(node is None or query.is_constant(node) for node in affine) else "weights that are computed"


def _group_norm(b: Builder, node: Node) -> list[TensorValue]:
    args = arguments_by_name(node)
    x = b.value(node.args[0])
    weight, bias = (_affine(b, args[name], number, [args["C"]], x) for name, number in (("weight", 1.0), ("bias", 0.0)))
    outputs = [b.result(node, index) for index in range(3)]
    numbers = [args["N"], args["C"], args["HxW"], args["group"]]
    b.call("aten.native_group_norm.default", [x, weight, bias, *numbers, float(args["eps"])], outputs)
    return outputs


def _check_group_norm(query: NodeQuery) -> str | None:
    if not is_static(query.node.args[0]):
        return "symbolic sizes"
    return _image(query) or _constant_affine(query)


def _batch_norm(b: Builder, node: Node) -> list[TensorValue]:
    """Write a product and a sum with constants, which are exact for what is left after folding into convolutions."""
    args = arguments_by_name(node)
    mean, var = (b.constant_of(args[name]) for name in ("running_mean", "running_var"))
    assert mean is not None and var is not None
    scale = torch.rsqrt(var.double() + args["eps"])
    weight, bias = (b.constant_of(args[name]) for name in ("weight", "bias"))
    scale = scale if weight is None else scale * weight.double()
    shift = -mean.double() * scale if bias is None else bias.double() - mean.double() * scale
    x, output = b.value(node.args[0]), b.result(node, 0)
    sizes = (-1,) + (1,) * (len(x.shape) - 2)
    factors = [b.constant(tensor.to(x.dtype).reshape(sizes)) for tensor in (scale, shift)]
    product = b.call("aten.mul.Tensor", [x, factors[0]], output.like())
    b.call("aten.add.Tensor", [product, factors[1], 1], output)
    return [output]


def _check_batch_norm(query: NodeQuery) -> str | None:
    names = ("running_mean", "running_var", "weight", "bias")
    nodes = [query.argument(name) for name in names]
    if not all(node is None or query.is_constant(node) for node in nodes):
        return "weights that are computed"
    return _only_first(query)


def _rms_norm(b: Builder, node: Node) -> TensorValue:
    args = arguments_by_name(node)
    x, output = b.value(node.args[0]), b.result(node)
    weight = _affine(b, args["weight"], 1.0, list(args["normalized_shape"]), x)
    eps = torch.finfo(x.dtype).eps if args["eps"] is None else float(args["eps"])
    b.call("et_vk.rms_norm.default", [x, weight, eps], output)
    return output


def _check_rms_norm(query: NodeQuery) -> str | None:
    weight = query.argument("weight")
    if reason := _only_last_dim(query):
        return reason
    return None if weight is None or query.is_constant(weight) else "weights that are computed"


def _softmax(name: str) -> Lower:
    """Return a `Lower` that writes (input, dim, half_to_float=False)."""

    def lower(b: Builder, node: Node) -> TensorValue:
        dim = node.args[1] % rank(node)  # type: ignore[operator]
        output: TensorValue = b.call(f"aten.{name}.default", [b.value(node.args[0]), dim, False], b.result(node))
        return output

    return lower


def _check_softmax(query: NodeQuery) -> str | None:
    if not rank(query.node):
        return "a tensor without dims"
    source: Any = query.node.args[0]
    return "it changes the dtype" if source.meta["val"].dtype != query.node.meta["val"].dtype else None


def _row(
    target: Any, lower: Lower, constraints: str = "", check: Any = None, keep: bool = False,
    dtypes: tuple[torch.dtype, ...] = FLOAT, any_dtype: tuple[str, ...] = (),
) -> Row:  # fmt: skip
    return Row(target, dtypes, constraints, check, keep, lower, any_dtype)


_FIRST = "only the first result may be read"
_CONVOLUTION = "constant weights; executorch-1.5: batch to 8, 1 group or depthwise"
ROWS = [
    _row(aten.convolution.default, _convolution, _CONVOLUTION, _check_convolution, keep=True),
    _row(aten.linear.default, _linear, "weights of 2 dims", _check_linear, keep=True),
    _row(aten.addmm.default, _addmm, "alpha and beta 1", _check_addmm),
    _row(aten.mm.default, plain()),
    _row(aten.bmm.default, plain()),
    _row(aten.scaled_dot_product_attention.default, _attention,
         "4 dims, equal heads; boolean mask: runtime edgecore", _check_attention, keep=True,
         any_dtype=("attn_mask",)),
    _row(aten.max_pool2d_with_indices.default, _max_pool, f"4 dims; {_FIRST}", _check_max_pool),
    _row(aten.max_pool2d.default, _max_pool, "4 dims", _image, keep=True),
    _row(aten.avg_pool2d.default, _average_pool, "4 dims", _image, keep=True),
    _row(aten._adaptive_avg_pool2d.default, _adaptive_pool, "4 dims; equal windows", _check_adaptive, keep=True),
    _row(aten.adaptive_avg_pool2d.default, _adaptive_pool, "4 dims; equal windows", _check_adaptive, keep=True),
    _row(aten.native_layer_norm.default, _layer_norm, "over the last dim", _only_last_dim, keep=True),
    _row(aten.native_group_norm.default, _group_norm, "4 dims of static size", _check_group_norm, keep=True),
    _row(aten._native_batch_norm_legit_no_training.default, _batch_norm, _FIRST, _check_batch_norm),
    _row(aten.rms_norm.default, _rms_norm, "over the last dim", _check_rms_norm, keep=True),
    _row(aten._softmax.default, _softmax("_softmax"), check=_check_softmax, keep=True),
    _row(aten.softmax.int, _softmax("_softmax"), check=_check_softmax, keep=True),
    _row(aten._log_softmax.default, _softmax("_log_softmax"), check=_check_softmax, keep=True),
    _row(aten.log_softmax.int, _softmax("_log_softmax"), check=_check_softmax, keep=True),
]  # fmt: skip
