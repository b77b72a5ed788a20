"""A stand-in for Core ML in tests: it computes the ML program of a blob with PyTorch, operator by operator.

Each function is written from the specification of its MIL operator, and has the names of the operator's arguments. What
it cannot say: speed, the Neural Engine, and how a device rounds. Nothing chooses it but a test.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgecore_coreml.convert import quiet
from edgecore_coreml.package import unpack

OPS: dict[str, Callable[..., Any]] = {}
DTYPES = {
    "fp16": torch.float16, "fp32": torch.float32, "int32": torch.int32, "bool": torch.bool, "int8": torch.int8,
    "uint8": torch.uint8, "int16": torch.int16, "uint16": torch.int32,
}  # fmt: skip


class StandIn:
    """The ML program of a blob."""

    def __init__(self, blob: bytes) -> None:
        import io

        self.package = unpack(blob)
        with tempfile.TemporaryDirectory() as name, quiet(io.StringIO()):
            from coremltools.converters.mil.frontend.milproto.load import load
            from coremltools.proto import Model_pb2

            spec = Model_pb2.Model.FromString(self.package.specification)
            (Path(name) / "weights").mkdir()
            (Path(name) / "weights/weight.bin").write_bytes(self.package.weights)
            self.version = spec.specificationVersion
            self.program = load(spec, spec.specificationVersion, str(Path(name) / "weights"))
            self.function = self.program.functions["main"]
            self.constants = {
                op.outputs[0].name: _tensor(
                    op.outputs[0].val if op.op_type == "const" else op.materialized_val_inference()
                )
                for op in self.function.operations
                if op.op_type == "const" or op.op_type.startswith("constexpr_")
            }

    @property
    def kinds(self) -> set[str]:
        """The names of the operators that are no constants."""
        return {op.op_type for op in self.function.operations if op.outputs[0].name not in self.constants}

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        values: dict[str, Any] = dict(self.constants)
        for name, given in zip(self.package.inputs, inputs, strict=True):
            values[name] = given.to(torch.int32) if given.dtype == torch.int64 else given

        def value(var: Any) -> Any:
            return [value(item) for item in var] if isinstance(var, (tuple, list)) else values[var.name]

        for op in self.function.operations:
            if op.outputs[0].name in values:
                continue
            if op.op_type not in OPS:
                raise NotImplementedError(f"the stand-in has no {op.op_type}")
            arguments = {name: value(var) for name, var in op.inputs.items() if var is not None}
            results = OPS[op.op_type](**arguments)
            for var, result in zip(op.outputs, results if len(op.outputs) > 1 else [results], strict=True):
                values[var.name] = result
        return [values[name] for name in self.package.outputs]


def _tensor(val: Any) -> Any:
    """Return a constant as a tensor, a string or a list of these."""
    if isinstance(val, (str, bool, list, tuple)) or val is None:
        return val
    array = np.asarray(val)
    return str(val) if array.dtype.kind in "US" else torch.from_numpy(array.copy())


def mil(name: str | None = None) -> Callable[[Any], Any]:
    """Register a function as the operator of its name, or of another name if that is a keyword of Python."""

    def register(function: Any) -> Any:
        OPS[name or function.__name__.rstrip("_")] = function
        return function

    return register


def _ints(value: Any) -> list[int]:
    return [int(item) for item in (value.tolist() if isinstance(value, torch.Tensor) else value)]


def _ones_if_absent(value: Tensor | None, rank: int) -> list[int]:
    return [1] * rank if value is None else _ints(value)


def _dims(x: torch.Tensor, axes: Any) -> list[int]:
    return list(range(x.dim())) if axes is None else _ints(axes if axes.dim() else axes[None])


_UNARY = {
    "abs": torch.abs, "acos": torch.acos, "asin": torch.asin, "atan": torch.atan, "ceil": torch.ceil, "cos": torch.cos,
    "cosh": torch.cosh, "erf": torch.erf, "exp": torch.exp, "exp2": torch.exp2, "floor": torch.floor,
    "relu": torch.relu, "round": torch.round, "sigmoid": torch.sigmoid, "sign": torch.sign, "silu": lambda x: x / (1 + torch.exp(-x)),
    "sin": torch.sin, "sinh": torch.sinh, "softsign": lambda x: x / (1 + x.abs()), "sqrt": torch.sqrt, "square": torch.square,
    "tan": torch.tan, "tanh": torch.tanh, "logical_not": torch.logical_not, "identity": lambda x: x,
    "softplus": lambda x: torch.log1p(torch.exp(-x.abs())) + x.clamp(min=0), "relu6": lambda x: x.clamp(0, 6),
}  # fmt: skip
_BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum,
    "pow": torch.pow, "equal": torch.eq, "not_equal": torch.ne, "less": torch.lt, "less_equal": torch.le,
    "greater": torch.gt, "greater_equal": torch.ge, "logical_and": torch.logical_and, "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor, "floor_div": torch.floor_divide,
}  # fmt: skip
_REDUCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "reduce_mean": torch.mean,
    "reduce_sum": torch.sum,
    "reduce_max": torch.amax,
    "reduce_min": torch.amin,
}
for _name, _function in _UNARY.items():
    OPS[_name] = lambda x, f=_function: f(x)
for _name, _function in _BINARY.items():
    OPS[_name] = lambda x, y, f=_function: f(x, y)
for _name, _function in _REDUCTIONS.items():
    OPS[_name] = lambda x, axes=None, keep_dims=False, f=_function: f(x, _dims(x, axes), keepdim=bool(keep_dims))


@mil()
def real_div(x: Tensor, y: Tensor) -> Tensor:
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


@mil()
def atanh(x: Tensor) -> Tensor:
    return 0.5 * torch.log((1 + x) / (1 - x))


@mil()
def rsqrt(x: Tensor, epsilon: Tensor | float = 0.0) -> Tensor:
    return 1 / torch.sqrt(x + epsilon)


@mil()
def inverse(x: Tensor, epsilon: Tensor | float = 0.0) -> Tensor:
    return 1 / (x + epsilon)


@mil()
def log(x: Tensor, epsilon: Tensor | float = 0.0) -> Tensor:
    return torch.log(x + epsilon)


@mil()
def clip(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return x.clamp(float(alpha), float(beta))


@mil()
def leaky_relu(x: Tensor, alpha: Tensor) -> Tensor:
    return torch.where(x >= 0, x, alpha * x)


@mil()
def thresholded_relu(x: Tensor, alpha: Tensor) -> Tensor:
    return torch.where(x >= alpha, x, torch.zeros_like(x))


@mil()
def elu(x: Tensor, alpha: Tensor) -> Tensor:
    return torch.where(x >= 0, x, alpha * (torch.exp(x) - 1))


@mil()
def prelu(x: Tensor, alpha: Tensor) -> Tensor:
    return torch.where(x >= 0, x, x * alpha.reshape(1, -1, *[1] * (x.dim() - 2)))


@mil()
def sigmoid_hard(x: Tensor, alpha: Tensor | float = 0.2, beta: Tensor | float = 0.5) -> Tensor:
    return (alpha * x + beta).clamp(0, 1)


@mil()
def gelu(x: Tensor, mode: str = "EXACT") -> Tensor:
    if mode == "EXACT":
        return 0.5 * x * (1 + torch.erf(x / 2**0.5))
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


@mil()
def softmax(x: Tensor, axis: Tensor | float = -1) -> Tensor:
    shifted = torch.exp(x - x.amax(int(axis), keepdim=True))
    return shifted / shifted.sum(int(axis), keepdim=True)


@mil()
def reduce_log_sum_exp(x: Tensor, axes: Tensor | None = None, keep_dims: Tensor | bool = False) -> Tensor:
    return torch.logsumexp(x, _dims(x, axes), keepdim=bool(keep_dims))


@mil()
def reduce_argmax(
    x: Tensor, axis: Tensor | float = -1, keep_dims: Tensor | bool = True, output_dtype: str = "int32"
) -> Tensor:
    return torch.argmax(x, int(axis), keepdim=bool(keep_dims)).to(torch.int32)


@mil()
def reduce_argmin(
    x: Tensor, axis: Tensor | float = -1, keep_dims: Tensor | bool = True, output_dtype: str = "int32"
) -> Tensor:
    return torch.argmin(x, int(axis), keepdim=bool(keep_dims)).to(torch.int32)


@mil()
def cast(x: Tensor, dtype: str) -> Tensor:
    return x.to(DTYPES[dtype])


@mil()
def select(cond: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.where(cond, a, b)


@mil()
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    result = x @ weight.T
    return result if bias is None else result + bias


@mil()
def matmul(x: Tensor, y: Tensor, transpose_x: Tensor | bool = False, transpose_y: Tensor | bool = False) -> Tensor:
    return (x.mT if transpose_x else x) @ (y.mT if transpose_y else y)


@mil()
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    weights: Tensor = softmax(scores)
    return weights @ value


def _pads(x: Any, kernel: Any, strides: Any, dilations: Any, pad_type: Any, pad: Any) -> list[tuple[int, int]]:
    """Return (before, after) for each spatial dim of a convolution or pooling."""
    spatial = x.shape[2:]
    if pad_type == "valid":
        return [(0, 0)] * len(spatial)
    if pad_type == "custom":
        numbers = _ints(pad)
        return list(zip(numbers[::2], numbers[1::2], strict=True))
    pairs = []
    for size, k, s, d in zip(spatial, kernel, strides, dilations, strict=True):
        total = max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0)
        pairs.append((total // 2, total - total // 2) if pad_type == "same" else (total - total // 2, total // 2))
    return pairs


def _padded(x: Any, pairs: Any, value: Any = 0.0) -> Tensor:
    return torch.nn.functional.pad(x, [number for pair in reversed(pairs) for number in pair], value=value)


@mil()
def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    strides: Tensor | None = None,
    pad_type: str = "valid",
    pad: Tensor | None = None,
    dilations: Tensor | None = None,
    groups: Tensor | float = 1,
) -> Tensor:
    rank = x.dim() - 2
    steps, spread = _ones_if_absent(strides, rank), _ones_if_absent(dilations, rank)
    x = _padded(x, _pads(x, weight.shape[2:], steps, spread, pad_type, pad))
    function: Callable[..., Tensor] = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
    return function(x, weight, bias, steps, 0, spread, int(groups))


@mil()
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    pad: Tensor | None = None,
    output_shape: Tensor | None = None,
    pad_type: str = "valid",
    strides: Tensor | None = None,
    dilations: Tensor | None = None,
    groups: Tensor | float = 1,
) -> Tensor:
    rank = x.dim() - 2
    steps, spread = _ones_if_absent(strides, rank), _ones_if_absent(dilations, rank)
    functions = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)
    full = functions[rank - 1](x, weight, bias, steps, 0, 0, int(groups), spread)
    pairs = [(0, 0)] * rank if pad_type == "valid" or pad is None else _pads(x, None, None, None, "custom", pad)
    crop = [slice(before, full.shape[2 + d] - after) for d, (before, after) in enumerate(pairs)]
    return full[(slice(None), slice(None), *crop)]


def _pool(
    function: Callable[..., Tensor],
    x: Any,
    kernel_sizes: Any,
    strides: Any,
    pad_type: Any,
    pad: Any,
    ceil_mode: Any,
    value: Any,
) -> Tensor:
    kernel = _ints(kernel_sizes)
    strides = _ones_if_absent(strides, len(kernel))
    pairs = _pads(x, kernel, strides, [1] * len(kernel), pad_type, pad)
    if ceil_mode:  # windows that begin inside of the padded image count
        for d, (before, after) in enumerate(pairs):
            size = x.shape[2 + d] + before + after
            pairs[d] = (before, after + -(size - kernel[d]) % strides[d])
    windows = _padded(x, pairs, value)
    for d, (k, s) in enumerate(zip(kernel, strides, strict=True)):
        windows = windows.unfold(2 + d, k, s)
    return function(windows, list(range(-len(kernel), 0)))


@mil()
def max_pool(
    x: Tensor,
    kernel_sizes: Tensor,
    strides: Tensor | None = None,
    pad_type: str = "valid",
    pad: Tensor | None = None,
    ceil_mode: Tensor | bool = False,
) -> Tensor:
    return _pool(torch.amax, x, kernel_sizes, strides, pad_type, pad, ceil_mode, -torch.inf)


@mil()
def avg_pool(
    x: Tensor,
    kernel_sizes: Tensor,
    strides: Tensor | None = None,
    pad_type: str = "valid",
    pad: Tensor | None = None,
    exclude_padding_from_average: Tensor | bool = False,
    ceil_mode: Tensor | bool = False,
) -> Tensor:
    total = _pool(torch.sum, x, kernel_sizes, strides, pad_type, pad, ceil_mode, 0.0)
    ones = torch.ones_like(x)
    if not exclude_padding_from_average:
        if ceil_mode:
            raise NotImplementedError("average pooling over padding with ceil_mode")
        return total / torch.tensor(_ints(kernel_sizes)).prod()
    return total / _pool(torch.sum, ones, kernel_sizes, strides, pad_type, pad, ceil_mode, 0.0)


@mil()
def batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: Tensor | float = 1e-5,
) -> Tensor:
    shape = (1, -1, *[1] * (x.dim() - 2))
    result = (x - mean.reshape(shape)) / torch.sqrt(variance.reshape(shape) + epsilon)
    result = result if gamma is None else result * gamma.reshape(shape)
    return result if beta is None else result + beta.reshape(shape)


@mil()
def layer_norm(
    x: Tensor, axes: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: Tensor | float = 1e-5
) -> Tensor:
    dims = _dims(x, axes)
    mean = x.mean(dims, keepdim=True)
    result = (x - mean) / torch.sqrt(((x - mean) ** 2).mean(dims, keepdim=True) + epsilon)
    result = result if gamma is None else result * gamma
    return result if beta is None else result + beta


@mil()
def instance_norm(
    x: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: Tensor | float = 1e-5
) -> Tensor:
    shape = (1, -1, *[1] * (x.dim() - 2))
    result: Tensor = layer_norm(x, torch.arange(2, x.dim()), epsilon=epsilon)
    result = result if gamma is None else result * gamma.reshape(shape)
    return result if beta is None else result + beta.reshape(shape)


@mil()
def reshape(x: Tensor, shape: Tensor) -> Tensor:
    sizes = [x.shape[d] if size == 0 else size for d, size in enumerate(_ints(shape))]
    return x.reshape(sizes)


@mil()
def transpose(x: Tensor, perm: Tensor) -> Tensor:
    return x.permute(_ints(perm))


@mil()
def expand_dims(x: Tensor, axes: Tensor) -> Tensor:
    for axis in sorted(axis % (x.dim() + len(axes)) for axis in _ints(axes)):
        x = x.unsqueeze(axis)
    return x


@mil()
def squeeze(x: Tensor, axes: Tensor | None = None) -> Tensor:
    dims = _dims(x, axes) if axes is not None else [d for d, size in enumerate(x.shape) if size == 1]
    return x.squeeze(dims)


@mil()
def concat(values: list[Tensor], axis: Tensor, interleave: Tensor | bool = False) -> Tensor:
    assert not interleave
    return torch.cat(values, int(axis))


@mil()
def stack(values: list[Tensor], axis: Tensor) -> Tensor:
    return torch.stack(values, int(axis))


@mil()
def split(
    x: Tensor, num_splits: Tensor | float = 1, split_sizes: Tensor | None = None, axis: Tensor | float = 0
) -> tuple[Tensor, ...]:
    if split_sizes is not None:
        return torch.split(x, _ints(split_sizes), int(axis))
    return torch.split(x, x.shape[int(axis)] // int(num_splits), int(axis))


@mil()
def tile(x: Tensor, reps: Tensor) -> Tensor:
    return x.repeat(_ints(reps))


@mil()
def reverse(x: Tensor, axes: Tensor | None = None) -> Tensor:
    return x.flip(_dims(x, axes))


@mil()
def slice_by_index(
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    stride: Tensor | None = None,
    begin_mask: Tensor | None = None,
    end_mask: Tensor | None = None,
    squeeze_mask: Tensor | None = None,
) -> Tensor:
    rank = x.dim()
    steps = _ones_if_absent(stride, rank)
    masks = [list(mask) if mask is not None else [False] * rank for mask in (begin_mask, end_mask, squeeze_mask)]
    index: list[int | Tensor] = []
    for d in range(rank):
        first, last, step, size = int(begin[d]), int(end[d]), steps[d], x.shape[d]
        if masks[2][d]:
            index.append(first)
            continue
        first = (0 if step > 0 else size - 1) if masks[0][d] else first + size * (first < 0)
        last = (size if step > 0 else -1) if masks[1][d] else last + size * (last < 0)
        index.append(torch.arange(size)[first:last:step] if step > 0 else torch.arange(first, last, step))
    for d, kept in reversed(list(enumerate(index))):
        x = x.select(d, kept) if isinstance(kept, int) else x.index_select(d, kept)
    return x


@mil()
def gather(
    x: Tensor,
    indices: Tensor,
    axis: Tensor | float = 0,
    batch_dims: Tensor | float = 0,
    validate_indices: Tensor | bool = False,
) -> Tensor:
    assert not int(batch_dims)
    axis = int(axis) % x.dim()
    flat = x.index_select(axis, indices.reshape(-1).long() % x.shape[axis])
    return flat.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


@mil()
def gather_along_axis(
    x: Tensor, indices: Tensor, axis: Tensor | float = 0, validate_indices: Tensor | bool = False
) -> Tensor:
    return torch.gather(x, int(axis), indices.long() % x.shape[int(axis)])


@mil()
def pad(x: Tensor, pad: Tensor, mode: str = "constant", constant_val: Tensor | float = 0.0) -> Tensor:
    numbers = _ints(pad)
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    flat = [number for pair in reversed(pairs) for number in pair]
    names = {"constant": "constant", "reflect": "reflect", "replicate": "replicate"}
    value = float(constant_val) if mode == "constant" else None
    return torch.nn.functional.pad(x, flat, names[mode], value)


@mil()
def pixel_shuffle(x: Tensor, upscale_factor: Tensor) -> Tensor:
    n, c, h, w = x.shape
    r = int(upscale_factor)
    return x.reshape(n, c // r**2, r, r, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // r**2, h * r, w * r)


@mil()
def upsample_nearest_neighbor(
    x: Tensor, scale_factor_height: Tensor | float = 1, scale_factor_width: Tensor | float = 1
) -> Tensor:
    height, width = float(scale_factor_height), float(scale_factor_width)
    rows = (torch.arange(round(x.shape[2] * height)) / height).long()
    return x[:, :, rows][..., (torch.arange(round(x.shape[3] * width)) / width).long()]


@mil()
def upsample_bilinear(
    x: Tensor,
    scale_factor_height: Tensor | float = 1,
    scale_factor_width: Tensor | float = 1,
    align_corners: Tensor | bool = True,
    half_pixel_centers: Tensor | None = None,
) -> Tensor:
    if half_pixel_centers is not None and bool(half_pixel_centers) == bool(align_corners):
        raise NotImplementedError("upsample_bilinear with this combination of corners and centers")
    sizes = [int(x.shape[2] * float(scale_factor_height)), int(x.shape[3] * float(scale_factor_width))]
    return torch.nn.functional.interpolate(x, sizes, mode="bilinear", align_corners=bool(align_corners))
