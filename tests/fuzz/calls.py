"""The calls that graphs are made of: layers and moves by hand, all other operators by their schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from fuzz.draw import SMALLEST_PARTS, Drawer, Rejected, product
from fuzz.graph import Ref
from torch._ops import OpOverload

from edgecore import runtime
from edgecore.conformance.samples import sample_table  # noqa: F401  (fills calls.TABLE)
from edgecore.conformance.samples.calls import RANGES, TABLE, Sample, Weight, resolve

aten = torch.ops.aten
Make = Callable[[Drawer], None]

SKIPPED = {
    "rand", "randn", "native_dropout", "empty", "randint", "randperm", "multinomial", "rand_like", "randn_like",
    "_local_scalar_dense", "nonzero", "masked_select", "convolution_backward", "max_pool2d_with_indices_backward",
    "sym_numel", "sym_size", "_fft_c2r", "_fft_r2c", "view_as_real_copy", "_conj_physical", "lift_fresh_copy",
    "_native_batch_norm_legit", "as_strided_copy", "as_strided", "unique_consecutive", "bernoulli", "normal",
    "native_layer_norm", "native_group_norm", "_native_batch_norm_legit_no_training", "resize", "set", "_pdist_forward",
}  # fmt: skip
"""Random results, sizes that depend on data, complex numbers, gradients; and what another call makes with fitting arguments:
one of `LAYERS`, or `pdist`, which checks the rank that `_pdist_forward` relies on."""

COMPOSITES = (
    "softmax.int", "log_softmax.int", "relu6.default", "selu.default", "silu.default", "hardswish.default",
    "hardsigmoid.default", "mish.default", "celu.default", "softplus.default", "log_sigmoid.default", "softshrink.default",
    "hardshrink.default", "threshold.default", "square.default", "logsumexp.default", "std.dim", "norm.ScalarOpt_dim",
    "sum.default", "mean.default", "prod.default", "any.default", "all.default", "all.dim", "all.dims", "min.default",
    "max.default", "median.dim", "cumprod.default", "logcumsumexp.default", "diff.default", "frac.default",
    "addcmul.default", "addcdiv.default", "lerp.Scalar", "lerp.Tensor", "hypot.default", "copysign.Tensor",
    "nan_to_num.default", "logaddexp.default", "xlogy.Tensor", "clamp_min.default", "clamp_max.default", "true_divide.Tensor",
    "floor_divide.Scalar", "outer.default", "dot.default", "mv.default", "triu.default", "tril.default", "flatten.using_ints",
    "unflatten.int", "movedim.int", "swapaxes.default", "narrow.default", "chunk.default", "split.sizes", "tile.default",
    "repeat_interleave.self_int", "rot90.default", "flip.default", "roll.default", "diagonal.default", "diag_embed.default",
    "type_as.default", "to.dtype", "contiguous.default", "ones_like.default", "zeros_like.default", "rsub.Scalar",
    "argsort.default", "sort.default", "isfinite.default", "sgn.default", "signbit.default", "deg2rad.default", "trunc.default",
    "one_hot.default", "cross.default", "cdist.default", "pdist.default", "cosine_similarity.default",
    "glu.default", "prelu.default", "expand_as.default", "view_as.default", "t.default", "numpy_T.default", "squeeze.default",
)  # fmt: skip
"""Operators that `torch.export` keeps and edgecore decomposes, beside those with kernels or a row in a backend's table."""


def _functional(target: OpOverload) -> bool:
    schema = target._schema
    kinds = {str(argument.type) for argument in schema.arguments}
    return (
        not schema.is_mutable
        and all(str(one.type) in ("Tensor", "List[Tensor]") for one in schema.returns)
        and not any(argument.is_out for argument in schema.arguments)
        and not any("Dimname" in kind or "Storage" in kind or "Generator" in kind for kind in kinds)
        and any("Tensor" in kind for kind in kinds)
    )


def _named(name: str) -> list[OpOverload]:
    packet = getattr(aten, name, None)
    found = [getattr(packet, overload) for overload in packet.overloads()] if packet is not None else []
    return [target for target in found if _functional(target)]


def _operators() -> list[OpOverload]:
    kernels = {name.removeprefix("aten::") for name, _ in runtime.kernels() if name.startswith("aten::")}
    plain = {name.removesuffix("_copy") for name in kernels} | kernels
    found = [target for name in plain - SKIPPED for target in _named(name)]
    tables = [resolve(name) for name in TABLE]
    composites = [resolve(f"aten.{name}") for name in COMPOSITES]
    found += [one for one in (*tables, *composites) if one is not None and _functional(one)]
    by_name = {str(one): one for one in found if str(one).split(".")[1] not in SKIPPED}
    by_name.pop("aten.where.default")  # another name of nonzero
    return [by_name[name] for name in sorted(by_name)]


# Arguments by their type and name.


def _by_schema(target: OpOverload) -> Make:
    arguments = target._schema.arguments
    low, high = RANGES.get(target._schema.name.rpartition("::")[2], (-2, 2))

    def make(d: Drawer) -> None:
        first: Ref | None = None
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument in arguments:
            if argument.has_default_value() and (argument.name in _LEFT or not d.flag(3)):
                if argument.kwarg_only:
                    continue
                value = argument.default_value
            else:
                value = _argument(d, argument, first, low, high)
            if first is None and isinstance(value, Ref):
                first = value
            if argument.kwarg_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        d.call(target, *args, **kwargs)

    return make


_LEFT = {
    "memory_format",
    "layout",
    "device",
    "pin_memory",
    "non_blocking",
    "copy",
    "implicit",
    "half_to_float",
    "generator",
    "dropout_p",
}


def _argument(d: Drawer, argument: Any, first: Ref | None, low: float, high: float) -> Any:
    kind, name = str(argument.real_type).replace("SymInt", "int"), argument.name
    if name == "compute_mode":  # 2: distances from differences; from products (1), eager loses those of close points
        return 2
    optional = kind.startswith("Optional[")
    if optional:
        kind = kind.removeprefix("Optional[").removesuffix("]")
        if d.flag(3):
            return None
    rank = d.value(first).dim() if first is not None else 2
    if kind == "Tensor":
        if name in ("index", "indices"):
            return d.leaf(d.shape((1, 2, 3)), torch.int64, 0, 2)
        if name in ("mask", "condition"):
            shape = d.shape() if first is None else d.value(first).shape
            return d.tensor(lambda one: one.dtype == torch.bool, shape=shape, dtype=torch.bool)
        if first is None:
            return d.tensor(low=low, high=high)
        return d.beside(first)
    if kind == "List[Tensor]":
        one = d.tensor(lambda value: value.dim() > 0) if first is None else first
        like = d.value(one)
        more = [d.tensor(lambda value: value.shape == like.shape, shape=like.shape, dtype=like.dtype) for _ in
                range(d.int(0, 2))]  # fmt: skip
        return [one, *more]
    if kind == "List[Optional[Tensor]]":
        return [d.leaf(d.shape((1, 2)), torch.int64, 0, 2) if d.flag() else None for _ in range(max(rank, 1))]
    if kind in ("number", "Scalar"):
        return d.number()
    if kind == "ScalarType":
        return d.pick(d.dtypes)
    if kind == "bool":
        return d.flag()
    if kind == "float":
        return d.pick((0.5, 1.0, 2.0, 1e-5))
    if kind == "str":
        return d.pick(("none", "tanh", "floor", "trunc", "mean"))
    if kind == "int":
        return d.dim(rank) if name.startswith("dim") or name == "axis" else d.pick((1, 0, 2, -1, 3))
    if kind == "List[int]":
        if name in ("dim", "dims"):
            return d.dims(rank)
        if name in ("size", "shape"):
            return list(d.shape())
        return [d.pick((1, 2, 0, -1, 3)) for _ in range(d.pick((rank, 1, 2, 4)))]
    raise Rejected(f"no idea of {kind} {name}")


# Moves.


def _view(d: Drawer) -> None:
    x = d.tensor()
    sizes, rest = [], d.value(x).numel()
    for _ in range(d.int(0, 3)):
        divisors = [part for part in (1, 2, 3, 4, 5, 7, 8) if rest and rest % part == 0]
        size = d.pick(divisors) if divisors else d.pick((0, 3))
        sizes.append(size)
        rest = rest // size if size else rest
    sizes.append(-1 if rest and product(sizes) and d.flag() else rest)
    d.call(d.pick((aten.view.default, aten.reshape.default)), x, sizes)


def _permute(d: Drawer) -> None:
    x = d.tensor()
    rank = d.value(x).dim()
    left, order = list(range(rank)), []
    while left:
        order.append(left.pop(d.int(0, len(left) - 1)))
    d.call(aten.permute.default, x, [dim - rank if d.flag(5) else dim for dim in order])


def _expand(d: Drawer) -> None:
    x = d.tensor(lambda one: 1 in one.shape or one.dim() < 3, shape=(3, 1))
    sizes = [d.pick((-1, size)) if size != 1 else d.pick((-1, 1, 4)) for size in d.value(x).shape]
    d.call(aten.expand.default, x, [d.pick(SMALLEST_PARTS) for _ in range(d.int(0, 2))] + sizes)


def _slice(d: Drawer) -> None:
    x = d.tensor(lambda one: one.dim() > 0, shape=(6, 7))
    start, end = d.pick((None, 0, 1, 2, -2, -100, 5)), d.pick((None, 9223372036854775807, 3, -1, 2, 100, 0))
    d.call(aten.slice.Tensor, x, d.dim(d.value(x).dim()), start, end, d.pick((1, 2, 3)))


def _pad(d: Drawer) -> None:
    x = d.tensor()
    pads = [d.pick((1, 0, 2, -1)) for _ in range(2 * d.int(0, d.value(x).dim()))]
    mode = d.pick(("constant", "reflect", "replicate", "circular"))
    if mode == "circular" and min(pads, default=0) < 0:
        raise Rejected("PyTorch leaves elements uninitialized")
    d.call(aten.pad.default, x, pads, mode, d.pick((None, 1.5)))


def _constant_pad(d: Drawer) -> None:
    x = d.tensor()
    pads = [d.pick((1, 0, 2, -1)) for _ in range(2 * d.int(0, d.value(x).dim()))]
    d.call(aten.constant_pad_nd.default, x, pads, d.number())


def _cat(d: Drawer) -> None:
    x = d.tensor(lambda one: one.dim() > 0, shape=(2, 3))
    shape, dtype = list(d.value(x).shape), d.value(x).dtype
    if d.flag(3):
        like = lambda one: one.shape == d.value(x).shape
        others = [d.tensor(like, shape=shape, dtype=dtype) for _ in range(d.int(0, 3))]
        return d.call(aten.stack.default, [x, *others], d.dim(len(shape) + 1))
    dim = d.dim(len(shape))
    others = []
    for _ in range(d.int(0, 3)):
        size = list(shape)
        size[dim] = d.pick((1, 2, 0, 3))
        others.append(d.leaf(size, dtype if not d.flag(5) else d.pick(d.dtypes)) if d.flag() else x)
    return d.call(aten.cat.default, [x, *others] if d.flag() else [*others, x], dim)


def _split(d: Drawer) -> None:
    x = d.tensor(lambda one: one.dim() > 0, shape=(6, 5))
    dim = d.dim(d.value(x).dim())
    size = d.value(x).shape[dim]
    if d.flag():
        return d.call(aten.split.Tensor, x, d.pick((2, 1, 3, 4)), dim)
    first = d.int(0, size)
    return d.call(aten.split_with_sizes.default, x, [first, size - first], dim)


def _index(d: Drawer) -> None:
    x = d.tensor(lambda one: one.dim() > 0 and 0 not in one.shape, shape=(5, 4))
    shape = d.value(x).shape
    dim = d.int(0, len(shape) - 1)
    low = d.pick((0, -shape[dim]))
    kind = d.pick(("select", "index", "gather", "embedding", "scatter"))
    dtype = d.pick((torch.int64, torch.int64, torch.int32)) if kind in ("index", "embedding", "select") else torch.int64
    if kind == "select":
        return d.call(aten.index_select.default, x, dim, d.leaf(d.shape((1,)), dtype, 0, shape[dim]))
    if kind == "index":
        return d.call(aten.index.Tensor, x, [None] * dim + [d.leaf(d.shape((1, 2)), dtype, low, shape[dim])])
    if kind == "embedding":
        if len(shape) != 2:
            raise Rejected("a table of vectors")
        return d.call(aten.embedding.default, x, d.leaf(d.shape((1, 2, 0)), dtype, 0, shape[0]))
    part = [d.int(0, size) for size in shape]
    index = d.leaf(part, dtype, 0, shape[dim])
    if kind == "gather":
        return d.call(aten.gather.default, x, dim, index)
    if d.flag():
        return d.call(aten.scatter.value, x, dim, index, d.number())  # equal values: the order does not matter
    source = d.leaf(part, d.value(x).dtype)
    reduce = d.pick(("sum", "amax", "amin", "mean"))
    if reduce == "sum":
        return d.call(aten.scatter_add.default, x, dim, index, source)
    if d.value(x).dtype == torch.bool:
        raise Rejected("torch has no such reductions of booleans")
    return d.call(aten.scatter_reduce.two, x, dim, index, source, reduce, include_self=d.flag())


def _search(d: Drawer) -> None:
    x = d.tensor(lambda one: one.dim() > 0 and one.numel() > 0 and one.dtype != torch.bool, shape=(2, 5))
    steps = len(d.steps)
    d.call(aten.sort.default, x, -1)  # in a sequence that is not sorted the result is not defined
    boundaries = Ref(d.steps[steps].name, 0)
    if bool(d.value(boundaries).isnan().any()):
        raise Rejected("NaN is neither above nor below a value: what a binary search finds depends on its steps")
    if d.value(boundaries).dim() == 1 and d.flag():
        return d.call(aten.bucketize.Tensor, d.tensor(), boundaries, right=d.flag())
    d.call(aten.searchsorted.Tensor, boundaries, x, right=d.flag())


def _where(d: Drawer) -> None:
    x = d.tensor()
    d.call(aten.where.self, _truth(d, x), x, d.beside(x))


def _truth(d: Drawer, x: Ref) -> Ref:
    shape = d.value(x).shape
    return d.tensor(lambda one: one.dtype == torch.bool and one.shape == shape, shape=shape, dtype=torch.bool)


def _masked_fill(d: Drawer) -> None:
    x = d.tensor()
    d.call(aten.masked_fill.Scalar, x, _truth(d, x), d.number())


def _to(d: Drawer) -> None:
    d.call(d.pick((aten.to.dtype, aten._to_copy.default)), d.tensor(), **{"dtype": d.pick(d.dtypes)})


def _in_place(d: Drawer) -> None:
    x = d.mutable()
    if x is None:
        raise Rejected("nothing that may change")
    target = d.pick((aten.relu_.default, aten.add_.Tensor, aten.mul_.Scalar, aten.clamp_.default, aten.copy_.default,
                     aten.fill_.Scalar, aten.sigmoid_.default))  # fmt: skip
    if target in (aten.add_.Tensor, aten.copy_.default):
        return d.call(target, x, d.beside(x))
    more = {aten.mul_.Scalar: (2,), aten.clamp_.default: (-1, 1), aten.fill_.Scalar: (1,)}
    return d.call(target, x, *more.get(target, ()))


# Layers.


def _image(d: Drawer, dims: int, channels: int | None = None) -> Ref:
    batch = d.pick((1, 2, 3, 0)) if not d.flag(8) else None
    shape = [
        d.pick((3, 1, 4, 2, 8)) if channels is None else channels,
        *(d.pick((6, 5, 9, 1, 3, 8)) for _ in range(dims)),
    ]
    whole = shape if batch is None else [batch, *shape]

    def fits(one: torch.Tensor) -> bool:
        size = one.dim() in (dims + 1, dims + 2) and one.is_floating_point() and one.shape[-dims - 1] > 0
        return size and (channels is None or one.shape[-dims - 1] == channels)

    floats = [dtype for dtype in d.dtypes if dtype.is_floating_point]
    return d.tensor(fits, shape=whole, dtype=d.pick(floats))


def _linear(d: Drawer) -> None:
    x = (
        d.floating()
        if d.flag()
        else d.leaf(
            (d.pick((1, 2, 3, 5, 15, 16, 17, 29, 31, 40, 33, 6, 0)), d.pick((32, 8, 16, 64, 5))), d.pick(d.dtypes[:1])
        )
    )
    value = d.value(x)
    if value.dim() == 0:
        raise Rejected("a number")
    outputs = d.pick((4, 1, 8, 7, 17, 32))
    weight = d.leaf((outputs, value.shape[-1]), value.dtype, constant=not d.flag(8))
    bias = d.leaf((outputs,), value.dtype, constant=not d.flag(8)) if d.flag() else None
    d.call(aten.linear.default, x, weight, bias)


def _convolution(d: Drawer) -> None:
    dims = d.pick((2, 1, 2, 3))
    x = _image(d, dims)
    value = d.value(x)
    channels = value.shape[-dims - 1]
    groups = d.pick([one for one in (1, channels, 2) if channels % one == 0])
    transposed = d.flag(4)
    outputs = groups * d.pick((2, 1, 3))
    kernel = [d.pick((3, 1, 2, 5)) for _ in range(dims)]
    shape = (channels, outputs // groups, *kernel) if transposed else (outputs, channels // groups, *kernel)
    weight = d.leaf(shape, value.dtype, constant=not d.flag(10))
    bias = d.leaf((outputs,), value.dtype, constant=not d.flag(10)) if d.flag() else None
    stride, dilation = d.pair(1, 2, 3, count=dims), d.pair(1, 2, count=dims)
    padding = d.pair(0, 1, 2, count=dims)
    if transposed:
        target = {1: aten.conv_transpose1d.default, 2: aten.conv_transpose2d.input, 3: aten.conv_transpose3d.input}[
            dims
        ]
        return d.call(target, x, weight, bias, stride, padding, d.pair(0, 1, count=dims), groups, dilation)
    if d.flag(3):
        target = {1: aten.conv1d.padding, 2: aten.conv2d.padding, 3: aten.conv3d.padding}[dims]
        return d.call(target, x, weight, bias, stride, d.pick(("valid", "same")), dilation, groups)
    if d.flag(3) and value.dim() == dims + 2:
        return d.call(aten.convolution.default, x, weight, bias, stride, padding, dilation, False, [0] * dims, groups)
    target = {1: aten.conv1d.default, 2: aten.conv2d.default, 3: aten.conv3d.default}[dims]
    return d.call(target, x, weight, bias, stride, padding, dilation, groups)


def wide_convolution(d: Drawer) -> None:
    """A convolution that backends may compute by tiles: 3x3, on images and channels that are large enough."""
    channels, size = d.pick((16, 17, 18)), (d.pick((17, 10, 13, 18)), d.pick((17, 10, 12, 18)))
    x = d.leaf((d.pick((1, 2, 1)), channels, *size), torch.float32)
    if d.flag(3):
        d.call(aten.constant_pad_nd.default, x, [d.pick((0, 1, 2, 3)) for _ in range(4)])
        x = Ref(d.steps[-1].name)
    weight = d.leaf((d.pick((16, 17)), channels, 3, 3), torch.float32, constant=True)
    bias = d.leaf((d.value(weight).shape[0],), torch.float32, constant=True) if d.flag() else None
    d.call(aten.conv2d.default, x, weight, bias, [1, 1], d.pair(1, 0, 2), [1, 1], 1)


def _pool(d: Drawer) -> None:
    dims = d.pick((2, 1))
    x = _image(d, dims)
    kernel, stride = d.pair(2, 3, 1, count=dims), d.pick(([], d.pair(1, 2, 3, count=dims)))
    padding, kind = d.pair(0, 1, count=dims), d.pick(("max", "avg", "adaptive", "indices", "adaptive_max"))
    if kind == "max":
        target = aten.max_pool2d.default if dims == 2 else aten.max_pool1d.default
        return d.call(target, x, kernel, stride, padding, d.pair(1, 2, count=dims), d.flag())
    if kind == "avg":
        target = aten.avg_pool2d.default if dims == 2 else aten.avg_pool1d.default
        more = (d.pick((None, None, 3)),) if dims == 2 else ()
        return d.call(target, x, kernel, stride, padding, d.flag(), d.flag(), *more)
    if kind == "indices":
        return d.call(aten.max_pool2d_with_indices.default, x, kernel, stride, padding)
    sizes = d.pair(1, 2, 3, 4, 7, count=dims)
    if kind == "adaptive_max":
        return d.call(aten.adaptive_max_pool2d.default, x, sizes if len(sizes) == 2 else sizes * 2)
    return d.call(aten.adaptive_avg_pool2d.default if dims == 2 else aten.adaptive_avg_pool1d.default, x, sizes)


def _resize(d: Drawer) -> None:
    dims = d.pick((2, 1))
    x = _image(d, dims)
    scale = [d.pick((2.0, 1.5, 0.5, 3.0)) for _ in range(dims)]
    size = [d.pick((7, 4, 1, 12)) for _ in range(dims)]
    given: tuple[Any, Any] = (size, None) if d.flag() else (None, scale)
    kind = d.pick(("nearest", "bilinear", "bicubic"))
    if kind == "nearest":
        return d.call(aten.upsample_nearest2d.vec if dims == 2 else aten.upsample_nearest1d.vec, x, *given)
    if dims == 1:
        return d.call(aten.upsample_linear1d.vec, x, given[0], d.flag(), given[1])
    target = aten.upsample_bilinear2d.vec if kind == "bilinear" else aten.upsample_bicubic2d.vec
    return d.call(target, x, given[0], d.flag(), given[1])


def _norm(d: Drawer) -> None:
    kind = d.pick(("layer", "batch", "group", "rms", "instance"))
    if kind in ("layer", "rms"):
        x = d.floating()
        shape = list(d.value(x).shape[-d.pick((1, 2)) :]) if d.value(x).dim() else []
        if not shape:
            raise Rejected("a number")
        weight = d.leaf(shape, d.value(x).dtype) if d.flag() else None
        if kind == "rms":
            return d.call(aten.rms_norm.default, x, shape, weight, d.pick((None, 1e-5)))
        bias = d.leaf(shape, d.value(x).dtype) if d.flag() else None
        return d.call(aten.layer_norm.default, x, shape, weight, bias, d.pick((1e-5, 1e-2)))
    x = _image(d, d.pick((2, 1)))
    value = d.value(x)
    if value.dim() < 3 or not value.shape[1]:
        raise Rejected("no batch, or no channels")
    channels = value.shape[1]
    new = lambda: d.leaf((channels,), value.dtype, 0.5, 2, constant=True)
    weight, bias = (new(), new()) if d.flag() else (None, None)
    if kind == "group":
        groups = d.pick([one for one in (1, channels, 2) if channels % one == 0])
        return d.call(aten.group_norm.default, x, groups, weight, bias, 1e-5)
    if kind == "instance":
        return d.call(aten.instance_norm.default, x, weight, bias, None, None, True, 0.1, 1e-5, False)
    return d.call(aten.batch_norm.default, x, weight, bias, new(), new(), False, 0.1, 1e-5, False)


def _matmul(d: Drawer) -> None:
    x = d.floating() if not d.flag(6) else d.tensor(shape=(3, 4), dtype=torch.int64)
    value = d.value(x)
    if value.dim() == 0:
        raise Rejected("a number")
    shape = [value.shape[-1], d.pick((3, 1, 8, 5))]
    target = d.pick((aten.matmul.default, aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default))
    if target in (aten.bmm.default, aten.baddbmm.default):
        if value.dim() != 3:
            x = d.leaf((2, 3, 4), value.dtype)
            shape[0] = 4
        shape = [d.value(x).shape[0], *shape]
    elif target is not aten.matmul.default and value.dim() != 2:
        x = d.leaf((3, value.shape[-1]), value.dtype)
    elif target is aten.matmul.default:
        shape = d.pick((shape, shape[:1], [*value.shape[:-2], *shape], [2, *shape]))
    y = d.leaf(shape, value.dtype)
    if target in (aten.addmm.default, aten.baddbmm.default):
        bias = d.leaf([d.pick((1, shape[-1]))], value.dtype)
        return d.call(target, bias, x, y, **d.pick(({}, {"beta": 2, "alpha": 0.5})))
    return d.call(target, x, y)


def _attention(d: Drawer) -> None:
    rank = d.pick((4, 3))
    lead = [d.pick((1, 2)) for _ in range(rank - 2)]
    rows, columns, width = d.pick((3, 1, 5)), d.pick((4, 1, 3)), d.pick((8, 4))
    dtype = d.pick([one for one in d.dtypes if one.is_floating_point])
    q = d.leaf([*lead, rows, width], dtype, constant=False)
    k, v = (d.leaf([*lead, columns, width], dtype, constant=False) for _ in range(2))
    mask = d.pick((None, None, torch.bool, dtype))
    masked = None if mask is None else d.leaf([rows, columns], mask)
    d.call(aten.scaled_dot_product_attention.default, q, k, v, masked, 0.0, masked is None and d.flag(3),
           **d.pick(({}, {"scale": 0.25})))  # fmt: skip


def _recurrent(d: Drawer) -> None:
    lstm, size, width = d.flag(), d.pick((3, 1, 5)), d.pick((4, 5))
    both, first, bias = d.flag(3), d.flag(), d.flag()
    x = d.leaf((2, 3, width), torch.float32, constant=False)
    gates = size * (4 if lstm else 3)
    parts = [(gates, width), (gates, size)] + ([(gates,), (gates,)] if bias else [])
    weights = [d.leaf(shape, torch.float32, -0.5, 0.5, constant=True) for _ in range(1 + both) for shape in parts]
    start = [d.leaf((1 + both, 2 if first else 3, size), torch.float32) for _ in range(1 + lstm)]
    d.call(aten.lstm.input if lstm else aten.gru.input, x, start if lstm else start[0], weights, bias, 1, 0.0, False,
           both, first)  # fmt: skip


def _fold(d: Drawer) -> None:
    x = d.leaf((2, 3, d.pick((6, 5)), d.pick((4, 7))), torch.float32, constant=False)
    d.call(aten.im2col.default, x, [2, 2], [1, 1], d.pick(([0, 0], [1, 1])), d.pick(([1, 1], [2, 2])))


def _grid(d: Drawer) -> None:
    if d.flag():
        volume = d.leaf((2, 3, 3, 5, 4), torch.float32, constant=False)
        points = d.leaf((2, 2, d.pick((3, 1)), 2, 3), torch.float32, -1.2, 1.2, constant=False)
        return d.call(aten.grid_sampler_3d.default, volume, points, d.int(0, 1), d.int(0, 2), d.flag())
    x = d.leaf((2, 3, 5, 4), torch.float32, constant=False)
    grid = d.leaf((2, d.pick((3, 1)), d.pick((2, 5)), 2), torch.float32, -1.2, 1.2, constant=False)
    d.call(aten.grid_sampler_2d.default, x, grid, d.int(0, 2), d.int(0, 2), d.flag())


def _shuffle(d: Drawer) -> None:
    if d.flag():
        return d.call(aten.pixel_shuffle.default, d.leaf((d.pick((1, 2)), 8, 3, d.pick((2, 1))), d.pick(d.dtypes)), 2)
    return d.call(aten.pixel_unshuffle.default, d.leaf((2, 3, 4, 6), d.pick(d.dtypes)), 2)


# Samples of the conformance suite.


def _sampled(name: str) -> Make:
    target = resolve(name)
    assert target is not None

    def make(d: Drawer) -> None:
        from edgecore.conformance.samples.calls import Make as Tensors

        dtype = d.pick(d.dtypes)
        try:
            samples = TABLE[name](Tensors(dtype, False, name))
        except (RuntimeError, TypeError) as error:
            raise Rejected(str(error)) from error
        samples = [one for one in samples if one.module is None and not _large(one)]
        if not samples:
            raise Rejected("no sample")
        sample: Sample = d.pick(samples)

        def leaf(value: Any) -> Any:
            constant = isinstance(value, Weight)
            tensor = value.tensor if isinstance(value, Weight) else value
            if isinstance(tensor, torch.Tensor):
                integers = tensor.numel() and not tensor.dtype.is_floating_point and tensor.dtype != torch.bool
                low, high = (int(tensor.min()), int(tensor.max()) + 1) if integers else (-2, 2)
                return d.leaf(tensor.shape, tensor.dtype, low, high, constant)
            return [leaf(one) for one in value] if isinstance(value, list) else value

        d.call(target, *(leaf(one) for one in sample.args), **{key: leaf(one) for key, one in sample.kwargs.items()})

    return make


def _large(sample: Sample) -> bool:
    return any(one.numel() > 3000 for one in sample.inputs)


MOVES: tuple[Make, ...] = (
    _view, _permute, _expand, _slice, _pad, _constant_pad, _cat, _split, _index, _where, _masked_fill, _to, _shuffle,
    _search,
)  # fmt: skip
LAYERS: tuple[Make, ...] = (_linear, _convolution, _pool, _norm, _matmul, _resize, _attention, wide_convolution)
RARE: tuple[Make, ...] = (_recurrent, _fold, _grid)
OPERATORS = _operators()
_BY_SCHEMA = [_by_schema(target) for target in OPERATORS]
_SAMPLES = [_sampled(name) for name in sorted(TABLE) if resolve(name) is not None]
_BINARY = [_by_schema(getattr(aten, name).Tensor) for name in ("add", "mul", "sub", "div")]
_UNARY = [
    _by_schema(getattr(aten, name).default)
    for name in ("relu", "sigmoid", "tanh", "gelu", "neg", "abs", "exp", "sqrt", "hardswish", "silu", "leaky_relu")
]


def layer(d: Drawer) -> None:
    """Add a layer."""
    d.pick(LAYERS)(d)


def choose(d: Drawer) -> None:
    """Add one call of any kind."""
    kinds: tuple[Any, ...] = (_UNARY, _BY_SCHEMA, MOVES, _BINARY, LAYERS, _BY_SCHEMA, MOVES, _SAMPLES, LAYERS, RARE)
    if d.flag(40):
        return _in_place(d)
    return d.pick(d.pick(kinds))(d)
