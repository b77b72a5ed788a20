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
            given = {name: value(var) for name, var in op.inputs.items() if var is not None}
            results = OPS[op.op_type](**given)
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
def real_div(x, y):
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


@mil()
def atanh(x):
    return 0.5 * torch.log((1 + x) / (1 - x))


@mil()
def rsqrt(x, epsilon=0.0):
    return 1 / torch.sqrt(x + epsilon)


@mil()
def inverse(x, epsilon=0.0):
    return 1 / (x + epsilon)


@mil()
def log(x, epsilon=0.0):
    return torch.log(x + epsilon)


@mil()
def clip(x, alpha, beta):
    return x.clamp(float(alpha), float(beta))


@mil()
def leaky_relu(x, alpha):
    return torch.where(x >= 0, x, alpha * x)


@mil()
def thresholded_relu(x, alpha):
    return torch.where(x >= alpha, x, torch.zeros_like(x))


@mil()
def elu(x, alpha):
    return torch.where(x >= 0, x, alpha * (torch.exp(x) - 1))


@mil()
def prelu(x, alpha):
    return torch.where(x >= 0, x, x * alpha.reshape(1, -1, *[1] * (x.dim() - 2)))


@mil()
def sigmoid_hard(x, alpha=0.2, beta=0.5):
    return (alpha * x + beta).clamp(0, 1)


@mil()
def gelu(x, mode="EXACT"):
    if mode == "EXACT":
        return 0.5 * x * (1 + torch.erf(x / 2**0.5))
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


@mil()
def softmax(x, axis=-1):
    shifted = torch.exp(x - x.amax(int(axis), keepdim=True))
    return shifted / shifted.sum(int(axis), keepdim=True)


@mil()
def reduce_log_sum_exp(x, axes=None, keep_dims=False):
    return torch.logsumexp(x, _dims(x, axes), keepdim=bool(keep_dims))


@mil()
def reduce_argmax(x, axis=-1, keep_dims=True, output_dtype="int32"):
    return torch.argmax(x, int(axis), keepdim=bool(keep_dims)).to(torch.int32)


@mil()
def reduce_argmin(x, axis=-1, keep_dims=True, output_dtype="int32"):
    return torch.argmin(x, int(axis), keepdim=bool(keep_dims)).to(torch.int32)


@mil()
def cast(x, dtype):
    return x.to(DTYPES[dtype])


@mil()
def select(cond, a, b):
    return torch.where(cond, a, b)


@mil()
def linear(x, weight, bias=None):
    result = x @ weight.T
    return result if bias is None else result + bias


@mil()
def matmul(x, y, transpose_x=False, transpose_y=False):
    return (x.mT if transpose_x else x) @ (y.mT if transpose_y else y)


@mil()
def scaled_dot_product_attention(query, key, value, attn_mask=None):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return softmax(scores) @ value


def _pads(x, kernel, strides, dilations, pad_type, pad):
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


def _padded(x, pairs, value=0.0):
    return torch.nn.functional.pad(x, [number for pair in reversed(pairs) for number in pair], value=value)


@mil()
def conv(x, weight, bias=None, strides=None, pad_type="valid", pad=None, dilations=None, groups=1):
    rank = x.dim() - 2
    strides, dilations = (_ints(value) if value is not None else [1] * rank for value in (strides, dilations))
    x = _padded(x, _pads(x, weight.shape[2:], strides, dilations, pad_type, pad))
    function = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
    return function(x, weight, bias, strides, 0, dilations, int(groups))


@mil()
def conv_transpose(
    x, weight, bias=None, pad=None, output_shape=None, pad_type="valid", strides=None, dilations=None, groups=1
):
    rank = x.dim() - 2
    strides, dilations = (_ints(value) if value is not None else [1] * rank for value in (strides, dilations))
    function = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)[rank - 1]
    full = function(x, weight, bias, strides, 0, 0, int(groups), dilations)
    pairs = [(0, 0)] * rank if pad_type == "valid" or pad is None else _pads(x, None, None, None, "custom", pad)
    crop = [slice(before, full.shape[2 + d] - after) for d, (before, after) in enumerate(pairs)]
    return full[(slice(None), slice(None), *crop)]


def _pool(function, x, kernel_sizes, strides, pad_type, pad, ceil_mode, value):
    kernel = _ints(kernel_sizes)
    strides = _ints(strides) if strides is not None else [1] * len(kernel)
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
def max_pool(x, kernel_sizes, strides=None, pad_type="valid", pad=None, ceil_mode=False):
    return _pool(torch.amax, x, kernel_sizes, strides, pad_type, pad, ceil_mode, -torch.inf)


@mil()
def avg_pool(
    x, kernel_sizes, strides=None, pad_type="valid", pad=None, exclude_padding_from_average=False, ceil_mode=False
):
    total = _pool(torch.sum, x, kernel_sizes, strides, pad_type, pad, ceil_mode, 0.0)
    ones = torch.ones_like(x)
    if not exclude_padding_from_average:
        if ceil_mode:
            raise NotImplementedError("average pooling over padding with ceil_mode")
        return total / torch.tensor(_ints(kernel_sizes)).prod()
    return total / _pool(torch.sum, ones, kernel_sizes, strides, pad_type, pad, ceil_mode, 0.0)


@mil()
def batch_norm(x, mean, variance, gamma=None, beta=None, epsilon=1e-5):
    shape = (1, -1, *[1] * (x.dim() - 2))
    result = (x - mean.reshape(shape)) / torch.sqrt(variance.reshape(shape) + epsilon)
    result = result if gamma is None else result * gamma.reshape(shape)
    return result if beta is None else result + beta.reshape(shape)


@mil()
def layer_norm(x, axes, gamma=None, beta=None, epsilon=1e-5):
    dims = _dims(x, axes)
    mean = x.mean(dims, keepdim=True)
    result = (x - mean) / torch.sqrt(((x - mean) ** 2).mean(dims, keepdim=True) + epsilon)
    result = result if gamma is None else result * gamma
    return result if beta is None else result + beta


@mil()
def instance_norm(x, gamma=None, beta=None, epsilon=1e-5):
    shape = (1, -1, *[1] * (x.dim() - 2))
    result = layer_norm(x, torch.arange(2, x.dim()), epsilon=epsilon)
    result = result if gamma is None else result * gamma.reshape(shape)
    return result if beta is None else result + beta.reshape(shape)


@mil()
def reshape(x, shape):
    sizes = [x.shape[d] if size == 0 else size for d, size in enumerate(_ints(shape))]
    return x.reshape(sizes)


@mil()
def transpose(x, perm):
    return x.permute(_ints(perm))


@mil()
def expand_dims(x, axes):
    for axis in sorted(axis % (x.dim() + len(axes)) for axis in _ints(axes)):
        x = x.unsqueeze(axis)
    return x


@mil()
def squeeze(x, axes=None):
    dims = _dims(x, axes) if axes is not None else [d for d, size in enumerate(x.shape) if size == 1]
    return x.squeeze(dims)


@mil()
def concat(values, axis, interleave=False):
    assert not interleave
    return torch.cat(values, int(axis))


@mil()
def stack(values, axis):
    return torch.stack(values, int(axis))


@mil()
def split(x, num_splits=None, split_sizes=None, axis=0):
    if split_sizes is not None:
        return torch.split(x, _ints(split_sizes), int(axis))
    return torch.split(x, x.shape[int(axis)] // int(num_splits), int(axis))


@mil()
def tile(x, reps):
    return x.repeat(_ints(reps))


@mil()
def reverse(x, axes=None):
    return x.flip(_dims(x, axes))


@mil()
def slice_by_index(x, begin, end, stride=None, begin_mask=None, end_mask=None, squeeze_mask=None):
    rank = x.dim()
    stride = _ints(stride) if stride is not None else [1] * rank
    masks = [list(mask) if mask is not None else [False] * rank for mask in (begin_mask, end_mask, squeeze_mask)]
    index: list[Any] = []
    for d in range(rank):
        first, last, step, size = int(begin[d]), int(end[d]), stride[d], x.shape[d]
        if masks[2][d]:
            index.append(first)
            continue
        first = (0 if step > 0 else size - 1) if masks[0][d] else first + size * (first < 0)
        last = (size if step > 0 else -1) if masks[1][d] else last + size * (last < 0)
        index.append(torch.arange(size)[first:last:step] if step > 0 else torch.arange(first, last, step))
    for d in reversed(range(rank)):
        x = x.select(d, index[d]) if isinstance(index[d], int) else x.index_select(d, index[d])
    return x


@mil()
def gather(x, indices, axis=0, batch_dims=0, validate_indices=False):
    assert not int(batch_dims)
    axis = int(axis) % x.dim()
    flat = x.index_select(axis, indices.reshape(-1).long() % x.shape[axis])
    return flat.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


@mil()
def gather_along_axis(x, indices, axis=0, validate_indices=False):
    return torch.gather(x, int(axis), indices.long() % x.shape[int(axis)])


@mil()
def pad(x, pad, mode="constant", constant_val=0.0):
    numbers = _ints(pad)
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    flat = [number for pair in reversed(pairs) for number in pair]
    names = {"constant": "constant", "reflect": "reflect", "replicate": "replicate"}
    value = float(constant_val) if mode == "constant" else None
    return torch.nn.functional.pad(x, flat, names[mode], value)


@mil()
def pixel_shuffle(x, upscale_factor):
    n, c, h, w = x.shape
    r = int(upscale_factor)
    return x.reshape(n, c // r**2, r, r, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // r**2, h * r, w * r)


@mil()
def upsample_nearest_neighbor(x, scale_factor_height=1, scale_factor_width=1):
    height, width = float(scale_factor_height), float(scale_factor_width)
    rows = (torch.arange(round(x.shape[2] * height)) / height).long()
    return x[:, :, rows][..., (torch.arange(round(x.shape[3] * width)) / width).long()]


@mil()
def upsample_bilinear(x, scale_factor_height=1, scale_factor_width=1, align_corners=True, half_pixel_centers=None):
    if half_pixel_centers is not None and bool(half_pixel_centers) == bool(align_corners):
        raise NotImplementedError("upsample_bilinear with this combination of corners and centers")
    sizes = [int(x.shape[2] * float(scale_factor_height)), int(x.shape[3] * float(scale_factor_width))]
    return torch.nn.functional.interpolate(x, sizes, mode="bilinear", align_corners=bool(align_corners))
