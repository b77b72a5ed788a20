"""Calls of operators with NaN, infinities and denormal numbers among ordinary inputs; `measure.py` runs them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from edgecore.conformance.samples import sample_table  # noqa: F401  (fills calls.TABLE)
from edgecore.conformance.samples.calls import Sample, Weight, evaluate, resolve, samples_of

UNARY = frozenset(
    f"aten.{name}.default"
    for name in (
        "abs acos acosh asin asinh atan atanh ceil celu clamp cos cosh elu erf exp exp2 expm1 floor gelu hardshrink "
        "hardsigmoid hardswish hardtanh isinf isnan leaky_relu log log10 log1p log2 log_sigmoid logit mish neg prelu "
        "_prelu_kernel reciprocal relu relu6 round rsqrt selu sigmoid sign silu sin sinh softplus softshrink sqrt "
        "square tan tanh threshold trunc _to_copy"
    ).split()
) | {
    *(f"aten.{name}.Scalar" for name in "add sub rsub mul div remainder eq ne lt le gt ge pow".split()),
    "aten.pow.Tensor_Scalar",
    "aten.div.Scalar_mode",
}
"""Elementwise operators of one tensor, or of a tensor and a number."""

BINARY = frozenset(
    {
        *(f"aten.{name}.Tensor" for name in "add sub mul div remainder fmod eq ne lt le gt ge".split()),
        *(f"aten.{name}.default" for name in "maximum minimum floor_divide glu".split()),
        "aten.pow.Tensor_Tensor",
        "aten.div.Tensor_mode",
    }
)
"""Elementwise operators of two tensors, either of which may be a constant."""

CHOICES = frozenset({"aten.where.self", "aten.masked_fill.Scalar", "aten.masked_fill.Tensor", "aten.clamp.Tensor"})
"""Operators that select one of their inputs for each element of the result."""

REDUCTIONS = frozenset(
    {
        *(f"aten.{name}.default" for name in "amax amin argmax argmin logsumexp max mean min cumsum".split()),
        *(f"aten.{name}.dim" for name in "max min mean var".split()),
        *("aten.sum.dim_IntList", "aten.var.correction"),
    }
)
"""Reductions and running sums."""

NORMALIZATIONS = frozenset(
    {
        *(f"aten.{name}.default" for name in "_softmax _log_softmax native_layer_norm layer_norm rms_norm".split()),
        *(f"aten.{name}.default" for name in "native_group_norm group_norm".split()),
        *("aten.softmax.int", "aten.log_softmax.int", "aten._native_batch_norm_legit_no_training.default"),
    }
)
"""Softmax and norms."""

POOLS = frozenset(
    f"aten.{name}.default"
    for name in (
        "max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices adaptive_max_pool2d "
        "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
        "_adaptive_avg_pool2d _adaptive_avg_pool3d"
    ).split()
)
"""Poolings."""

VALUES = UNARY | BINARY | CHOICES | REDUCTIONS | NORMALIZATIONS | POOLS
"""All operators that are tried with special values: NaN, infinities and denormal numbers."""

NOT_VALUES = frozenset(
    {
        # Data movement and constants.
        *(f"aten.{name}_copy.default" for name in "alias detach expand permute t unsqueeze view".split()),
        *(f"aten.{name}.default" for name in "cat clone constant_pad_nd copy flip full full_like ones zeros".split()),
        *(f"aten.{name}.default" for name in "pixel_shuffle pixel_unshuffle repeat roll scalar_tensor stack".split()),
        *(f"aten.{name}.default" for name in "tril triu arange select_scatter slice_scatter".split()),
        *(
            "aten.select_copy.int",
            "aten.slice_copy.Tensor",
            "aten.split_copy.Tensor",
            "aten.split_with_sizes_copy.default",
        ),
        *("aten.squeeze_copy.dim", "aten.squeeze_copy.dims", "aten.transpose_copy.int", "aten.unbind_copy.int"),
        *("aten.arange.start", "aten.arange.start_step"),
        *(f"aten.{name}.vec" for name in "upsample_bilinear2d upsample_nearest1d upsample_nearest2d".split()),
        "aten._upsample_nearest_exact2d.vec",
        # Indices.
        *(f"aten.{name}.default" for name in "embedding gather index_select index_put topk".split()),
        "aten.index.Tensor",
        # Sums of products.
        *(f"aten.{name}.default" for name in "addmm bmm conv3d convolution linear matmul mm".split()),
        *("aten.scaled_dot_product_attention.default", "aten.lstm.input", "aten.gru.input"),
        # Booleans and integers.
        *(f"aten.{name}.{overload}" for name in ("any", "all") for overload in ("dim", "dims")),
        *(f"aten.bitwise_{name}.{kind}" for name in ("and", "or", "xor") for kind in ("Scalar", "Tensor")),
        *(f"aten.logical_{name}.default" for name in ("and", "or", "xor", "not")),
        "aten.bitwise_not.default",
    }
)
"""Operators not tried with special values: they move elements, take indices, sum up products, or compute integers."""

NUMBERS = ("positive number", "negative number", "0")
"""Labels of ordinary elements."""

ORDINARY = "numbers"
"""Label of an input row that has no NaN, infinity or denormal number."""

DENORMAL = {torch.float32: 1e-40, torch.float16: 3e-6}

Label = tuple[str, ...]
"""Name of the input elements from which an operator computes one element of its result.

Examples: `("NaN",)` is one operand, `("NaN", "0")` two operands, and `("NaN", "last")` a row whose last element is NaN.
"""


@dataclass(frozen=True)
class Call:
    """A call of an operator with special values (NaN, infinities, denormal numbers) among its inputs.

    Attributes:
        operator: Its name.
        function: Computes the result from the inputs.
        inputs: Inputs of the model.
        labels: For each element of the result, in row-major order, the names of the input elements that it reads.
        read: [elements, n]: the n input values from which an operator like `amax` selects each element of the result;
            None if the operator computes new numbers.
        is_index: True if the results are indices into the rows of `read`.
    """

    operator: str
    function: Callable[..., torch.Tensor]
    inputs: tuple[torch.Tensor, ...]
    labels: Sequence[Label]
    read: torch.Tensor | None = None
    is_index: bool = False


def calls_of(operator: str, dtype: torch.dtype) -> list[Call]:
    """Make calls of an operator with NaN, infinities and denormal numbers among ordinary inputs.

    Args:
        operator: One of `VALUES`.
        dtype: `torch.float32` or `torch.float16`.
    """
    if resolve(operator) is None:
        return []
    groups = (UNARY, BINARY, CHOICES, REDUCTIONS, NORMALIZATIONS, POOLS)
    makers = (_unary, _binary, _choices, _reductions, _normalizations, _pools)
    for names, make in zip(groups, makers, strict=True):
        if operator in names:
            return list(make(operator, dtype))
    return []


def _elements(dtype: torch.dtype) -> tuple[tuple[str, float], ...]:
    return (
        ("NaN", math.nan), ("inf", math.inf), ("-inf", -math.inf), ("denormal", DENORMAL[dtype]),
        ("positive number", 2.0), ("negative number", -0.75), ("0", 0.0), ("positive number", 0.5),
    )  # fmt: skip


def _unary(operator: str, dtype: torch.dtype) -> Iterator[Call]:
    # Use 63 elements: a loop over vectors of 8 or 16 leaves a scalar tail, in which special elements lie, too.
    labels, values = zip(*(_elements(dtype) * 8)[:63], strict=True)
    tensor = torch.tensor(values).to(dtype).reshape(7, 9)
    seen = set()
    for sample in samples_of(operator, dtype, quick=True):
        _, *rest = sample.args if isinstance(sample.args[0], torch.Tensor) else reversed(sample.args)
        weights = [arg for arg in rest if isinstance(arg, Weight)]
        if any(weight.tensor.numel() > 1 for weight in weights) or "memory_format" in sample.kwargs:
            continue
        key = repr((rest, sample.kwargs))
        if key not in seen:
            seen.add(key)
            yield Call(operator, _Function(operator, sample), (tensor,), [(label,) for label in labels])


@dataclass(frozen=True)
class _Function:
    """A function that calls the operator with the given inputs and the other arguments of a sample."""

    operator: str
    sample: Sample

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = evaluate(self.operator, self.sample, inputs)
        return result


def _pairs(dtype: torch.dtype) -> tuple[list[Label], torch.Tensor, torch.Tensor]:
    """Return the labels of all pairs of elements, in order and then in reverse order, and two operands [16, 8]."""
    pairs = list(product(_elements(dtype), repeat=2))
    pairs += pairs[::-1]
    left, right = (torch.tensor([pair[side][1] for pair in pairs]).to(dtype).reshape(16, 8) for side in (0, 1))
    return [(first[0], second[0]) for first, second in pairs], left, right


def _binary(operator: str, dtype: torch.dtype) -> Iterator[Call]:
    labels, left, right = _pairs(dtype)
    if operator == "aten.glu.default":
        halves = torch.cat([left, right], -1)
        yield Call(operator, resolve(operator), (halves,), labels)  # type: ignore[arg-type]
        return
    read = torch.stack([left.flatten(), right.flatten()], -1) if "imum" in operator else None
    seen = set()
    for sample in samples_of(operator, dtype, quick=True):
        if repr(sample.kwargs) in seen:
            continue
        seen.add(repr(sample.kwargs))
        for arguments in ((left, right), (left, Weight(right)), (Weight(left), right)):
            inputs = tuple(arg for arg in arguments if isinstance(arg, torch.Tensor))
            yield Call(operator, _Function(operator, Sample(arguments, sample.kwargs)), inputs, labels, read)


def _choices(operator: str, dtype: torch.dtype) -> Iterator[Call]:
    labels, left, right = _pairs(dtype)
    function: Any = resolve(operator)
    # The condition is true for the first half of `_pairs`, and false for the second half, which has the same pairs.
    chooses = torch.tensor([1.0, -1.0]).to(dtype).repeat_interleave(8)[:, None].expand(16, 8).contiguous()
    if operator == "aten.where.self":
        half = len(labels) // 2
        names = [*labels[:half], *((second, first) for first, second in labels[half:])]
        yield Call(operator, lambda c, x, y: function(c > 0, x, y), (chooses, left, right), names)
    elif operator == "aten.clamp.Tensor":
        low, high = Weight(torch.full((8,), -0.5, dtype=dtype)), Weight(torch.full((8,), 1.5, dtype=dtype))
        sample = Sample((left, low, high))
        yield Call(operator, _Function(operator, sample), (left,), [(first,) for first, _ in labels])
    else:
        value = torch.tensor(1.5, dtype=dtype) if operator.endswith("Tensor") else 1.5
        masked = [
            (f"{label}, masked" if index < len(labels) // 2 else label,) for index, (label, _) in enumerate(labels)
        ]
        yield Call(operator, lambda x, c: function(x, c > 0, value), (left, chooses), masked)


def _rows(n: int, dtype: torch.dtype) -> tuple[list[Label], torch.Tensor]:
    """Return 20 labels and the rows [20, n] that they name, with NaN, inf and so on at one, two or all places."""
    numbers = [(0.5, -0.75, 2.0, 1.25, -1.5)[index % 5] for index in range(n)]
    labels: list[Label] = []
    rows: list[list[float]] = []

    def add(*label: str, **places: float) -> None:
        labels.append(label)
        rows.append([places.get(f"at{index}", number) for index, number in enumerate(numbers)])

    for name, value in _elements(dtype)[:4]:
        for place, index in (("first", 0), ("in the middle", n // 2), ("last", n - 1)):
            add(name, place, **{f"at{index}": value})
        add(name, "only", **{f"at{index}": value for index in range(n)})
    add("inf and -inf", at0=math.inf, **{f"at{n - 1}": -math.inf})
    add("NaN and inf", at0=math.inf, **{f"at{n // 2}": math.nan})
    add(ORDINARY)
    add(ORDINARY)
    return labels, torch.tensor(rows).to(dtype)


def _reductions(operator: str, dtype: torch.dtype) -> Iterator[Call]:
    function: Any = resolve(operator)
    labels, rows = _rows(17, dtype)
    name = operator.split(".")[1]
    if operator in ("aten.max.default", "aten.min.default", "aten.mean.default"):
        for index in (0, 2, 3, 11, 16):
            read = rows[index : index + 1] if name != "mean" else None
            yield Call(operator, function, (rows[index].reshape(1, 17),), [labels[index]], read)
    elif name == "cumsum":
        yield Call(operator, lambda x: function(x, -1), (rows,), [label for label in labels for _ in range(17)])
    elif name.startswith("arg"):
        yield Call(operator, lambda x: function(x, -1), (rows,), labels, rows, is_index=True)
        yield Call(operator, lambda x: function(x, 0), (rows.t().contiguous(),), labels, rows, is_index=True)
    elif name in ("max", "min"):
        yield Call(operator, lambda x: function(x, -1)[0], (rows,), labels, rows)
        yield Call(operator, lambda x: function(x, 0)[0], (rows.t().contiguous(),), labels, rows)
    else:
        read = rows if name in ("amax", "amin") else None
        yield Call(operator, lambda x: function(x, [-1]), (rows,), labels, read)
        yield Call(operator, lambda x: function(x, [0]), (rows.t().contiguous(),), labels, read)
        labels, rows = _rows(15, dtype)
        read = rows if name in ("amax", "amin") else None
        images = rows.reshape(1, -1, 3, 5)
        options = {"keepdim": True}
        yield Call(operator, lambda x: function(x, [2, 3], **options), (images,), labels, read)


def _normalizations(operator: str, dtype: torch.dtype) -> Iterator[Call]:
    function: Any = resolve(operator)
    labels, rows = _rows(16, dtype)
    per_element = [label for label in labels for _ in range(16)]
    count = len(labels)
    name = operator.split(".")[1]
    weight, bias = torch.linspace(0.5, 1.5, 16).to(dtype), torch.linspace(-0.5, 0.5, 16).to(dtype)
    if "softmax" in name:
        more = (False,) if operator.endswith("default") else ()
        yield Call(operator, lambda x: function(x, -1, *more), (rows,), per_element)
        columns = rows.t().contiguous()
        yield Call(operator, lambda x: function(x, 0, *more), (columns,), [*labels] * 16)
    elif name == "_native_batch_norm_legit_no_training":
        images = rows.reshape(1, 4, -1, 16)
        four = torch.tensor([0.5, 1.0, 1.5, 2.0]).to(dtype)
        # In inference, batch norm computes each element from one element of the input.
        alone = [(_label(value, dtype),) for value in images.flatten().tolist()]
        yield Call(operator, lambda x: function(x, four, four, four, four, 0.1, 1e-5)[0], (images,), alone)
    elif name == "native_layer_norm":
        yield Call(operator, lambda x: function(x, [16], weight, bias, 1e-5)[0], (rows,), per_element)
    elif name == "layer_norm":
        yield Call(operator, lambda x: function(x, [16], weight, bias), (rows,), per_element)
    elif name == "rms_norm":
        yield Call(operator, lambda x: function(x, [16], weight, 1e-5), (rows,), per_element)
    else:
        images, two = rows.reshape(count, 2, 2, 4), torch.tensor([0.5, 1.5]).to(dtype)
        if name == "native_group_norm":
            yield Call(operator, lambda x: function(x, two, two, count, 2, 8, 1, 1e-5)[0], (images,), per_element)
        else:
            yield Call(operator, lambda x: function(x, 1, two, two), (images,), per_element)


def _label(value: float, dtype: torch.dtype) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if abs(value) <= 2 * DENORMAL[dtype]:
        return "denormal"
    return "positive number" if value > 0 else "negative number"


CHANNELS = 9
"""Channels of the images for poolings: 9, so that one channel is left after a vector of 8."""


def _pools(operator: str, dtype: torch.dtype) -> Iterator[Call]:
    function: Any = resolve(operator)
    name = operator.split(".")[1]
    dims = 1 if "1d" in name else 3 if "3d" in name else 2
    is_max, adaptive = "max" in name, "adaptive" in name
    sizes: dict[int, list[tuple[int, ...]]] = {1: [(3,), (5,)], 2: [(2, 2), (3, 3)], 3: [(2, 2, 2)]}
    for kernel in sizes[dims]:
        labels, rows = _rows(math.prod(kernel), dtype)
        grid = (4, 5) if dims == 2 else (*(1,) * (dims - 1), len(labels))
        # Give each channel the same pooling windows, with their order rotated by the channel's index.
        orders = [[(index + channel) % len(labels) for index in range(len(labels))] for channel in range(CHANNELS)]
        image = _image(torch.stack([rows[order] for order in orders]), kernel, grid)
        per_window = [labels[index] for order in orders for index in order]
        read = torch.cat([rows[order] for order in orders]) if is_max else None
        arguments = (list(grid),) if adaptive else (list(kernel), list(kernel))
        yield Call(operator, _Pool(function, arguments), (image,), per_window, read)
    if adaptive:
        images = rows.reshape(1, len(labels), *kernel)
        yield Call(operator, _Pool(function, ([1] * dims,)), (images,), labels, rows if is_max else None)


def _image(windows: torch.Tensor, kernel: Sequence[int], grid: Sequence[int]) -> torch.Tensor:
    """Lay windows [channels, windows, elements of a window] side by side in an image [1, channels, height, width]."""
    dims = len(kernel)
    spread = windows.reshape(windows.shape[0], *grid, *kernel)
    order = [0, *(axis for dim in range(dims) for axis in (1 + dim, 1 + dims + dim))]
    sizes = [count * size for count, size in zip(grid, kernel, strict=True)]
    return spread.permute(order).reshape(1, windows.shape[0], *sizes).contiguous()


@dataclass(frozen=True)
class _Pool:
    """A pooling operator with its arguments. A call returns only the values if the operator also returns indices."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        result = self.function(image, *self.arguments)
        first: torch.Tensor = result[0] if isinstance(result, tuple) else result
        return first
