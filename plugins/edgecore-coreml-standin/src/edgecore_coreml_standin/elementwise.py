"""Elementwise MIL operators and reductions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from edgecore_coreml_standin.registry import OPS, dims_of, mil

DTYPES = {
    "fp16": torch.float16, "fp32": torch.float32, "int32": torch.int32, "bool": torch.bool, "int8": torch.int8,
    "uint8": torch.uint8, "int16": torch.int16, "uint16": torch.int32,
}  # fmt: skip

_UNARY = {
    "abs": torch.abs, "acos": torch.acos, "asin": torch.asin, "atan": torch.atan, "ceil": torch.ceil, "cos": torch.cos,
    "cosh": torch.cosh, "erf": torch.erf, "exp": torch.exp, "exp2": torch.exp2, "floor": torch.floor,
    "relu": torch.relu, "round": torch.round, "sigmoid": torch.sigmoid, "sign": torch.sign,
    "silu": lambda x: x / (1 + torch.exp(-x)), "sin": torch.sin, "sinh": torch.sinh,
    "softsign": lambda x: x / (1 + x.abs()), "sqrt": torch.sqrt, "square": torch.square,
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
    "reduce_sum": lambda x, dims, keepdim: torch.sum(x, dims, keepdim, dtype=x.dtype),
    "reduce_max": torch.amax,
    "reduce_min": torch.amin,
}
for _name, _function in _UNARY.items():
    OPS[_name] = lambda x, f=_function: f(x)
for _name, _function in _BINARY.items():
    OPS[_name] = lambda x, y, f=_function: f(x, y)
for _name, _function in _REDUCTIONS.items():
    OPS[_name] = lambda x, axes=None, keep_dims=False, f=_function: f(x, dims_of(x, axes), keepdim=bool(keep_dims))


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
    return torch.logsumexp(x, dims_of(x, axes), keepdim=bool(keep_dims))


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
def cumsum(
    x: Tensor, axis: Tensor | float = 0, exclusive: Tensor | bool = False, reverse: Tensor | bool = False
) -> Tensor:
    axis = int(axis)
    total = (x.flip(axis) if reverse else x).cumsum(axis, dtype=x.dtype)
    total = total.flip(axis) if reverse else total
    return total - x if exclusive else total
