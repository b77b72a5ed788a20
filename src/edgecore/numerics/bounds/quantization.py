"""Error bounds of operators that quantize, dequantize, and choose scales at run time."""

from __future__ import annotations

from typing import Any

import torch

from edgecore.ir.torch_compat import quantized_operators, schema_of
from edgecore.numerics.bounds.model import FLOAT, MULTIPLIER, TIE, Bounded, ErrorModel, NoBound, call
from edgecore.numerics.rounding import choose_by_row

library = quantized_operators()


def quantize(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of a quantized value by quantizing both ends of the interval that contains the input."""
    if model.half:
        raise NoBound("no error bound for quantizing float16 values")
    x, scale, zero = args[:3]
    if scale_is_by_row(target, scale):
        target = library.quantize_per_token.default
    value = call(target, args, kwargs)
    axis = args[3] if schema_of(target).name.endswith("per_channel") else 0
    low, high = args[-3:-1]
    step, step_error = (_broadcastable(part, value, target, axis) for part in _value_and_error(scale))
    zero_point, zero_error = (_broadcastable(part, value, target, axis) for part in _value_and_error(zero))
    exact = x.value.double() / step
    slack = MULTIPLIER if high - low > 255 else 2 * FLOAT
    radius = x.error / step + exact.abs() * (step_error / step + slack) + TIE
    quantized = value.double()
    ends = [(exact + sign * radius).round() + zero_point for sign in (-1, 1)]
    if not bool(zero_error.any()):
        ends = [end.clamp(low, high) for end in ends]
    error = torch.maximum(quantized - ends[0], ends[1] - quantized)
    # The backend may compute another zero point at run time. Zero points are rounded, so the backend's quantized range
    # may end up to half a step before the min or max of the row. Clamping values near these ends adds a step of error.
    at_end = (zero_error > 0) & (torch.minimum(quantized - low, high - quantized) <= 1 + zero_error)
    error = error + at_end.double()
    # Allow `model.steps` more steps if the scale is constant and x was computed; inputs of the program are exact.
    if bool(x.error.any()) and not bool(step_error.any()):
        error = error + model.steps
    return Bounded(value, error, rounded_from=x.error)


def dequantize(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of (q - zero point) * scale.

    If the scale is computed at run time, eager PyTorch and the backend may compute different scales. Then their q
    cannot be compared, but each result differs from the value x before quantization by at most half of its own scale.
    This also holds where x is clamped, because rounding the zero point moves the ends of the range by at most half a
    scale. So the bound is the error of x plus one scale, with a margin for ties of rounding and for the error of the
    scale.
    """
    q, scale = args[:2]
    if scale_is_by_row(target, scale):
        target, args, kwargs = library.dequantize_per_token.default, (*args, torch.float32), {}
    value = call(target, args, kwargs)
    axis = args[3] if schema_of(target).name.endswith("per_channel") else 0
    step, step_error = (_broadcastable(part, value, target, axis) for part in _value_and_error(scale))
    steps = value.double() / step
    error = q.error * (step + step_error) + steps.abs() * step_error
    if q.rounded_from is not None and bool(step_error.any()):
        error = torch.minimum(error, q.rounded_from + (1 + 2 * TIE) * step + step_error)
    error = error + FLOAT * (value.double().abs() + error)
    is_constant = not isinstance(scale, Bounded) or not bool(scale.error.any())
    return Bounded(value, error, _value_and_error(scale)[0] if is_constant else None)


def choose_parameters(
    model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Bounded, Bounded]:
    """Bound the errors of a scale and a zero point that are computed at run time, for each row or for the whole tensor.

    The scale is (max - min) / (q_max - q_min), and the zero point is q_min - min / scale, where [min, max] is widened
    to contain 0. For scales of rows, q_min is -128 and q_max is 127.
    """
    x = args[0]
    by_row = model.by_row or target is library.choose_qparams_per_token_asymmetric.default
    if by_row:
        scale, zero = choose_by_row(x.value, torch.int8, model.has_images)
        dims = tuple(range(1, x.value.dim())) if model.has_images else (-1,)
        radius = x.error.amax(dims, keepdim=True)
        low = x.value.amin(dims, keepdim=True).double().clamp(max=0)
        q_min, q_max = -128, 127
    else:
        scale, zero = target(x.value, *args[1:], **kwargs)
        radius, low = x.error.amax(), x.value.amin().double().clamp(max=0)
        q_min, q_max = args[1:3]
    steps = q_max - q_min
    step = scale.double()
    step_error = 2 * radius / steps + step * 2 * FLOAT
    exact = q_min - low / step
    exact_error = radius / step + (low / step).abs() * (step_error / step + 2 * FLOAT) + TIE
    zero_error = (exact + exact_error).round() - (exact - exact_error).round()
    return Bounded(scale, step_error), Bounded(zero, zero_error.reshape(zero.shape))


def scale_is_by_row(target: Any, scale: Any) -> bool:
    """Return True if an operator with one scale per tensor received a scale for each row.

    The program contains `choose_qparams` and quantize operators for one scale per tensor. To bound the error of a
    backend that chooses a scale for each row (`by_row`), the rule of `choose_qparams` returns the scales of rows
    instead.
    """
    per_tensor = (library.quantize_per_tensor.tensor, library.dequantize_per_tensor.tensor)
    return target in per_tensor and isinstance(scale, Bounded) and scale.value.numel() > 1


def _value_and_error(parameter: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the values and the errors of a scale or zero point (a `Bounded` or an exact number) in float64."""
    if isinstance(parameter, Bounded):
        return parameter.value.double(), parameter.error
    return torch.tensor(float(parameter), dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)


def _broadcastable(parameters: torch.Tensor, value: torch.Tensor, target: Any, axis: int) -> torch.Tensor:
    """Reshape scales or zero points of channels, groups or rows so that they broadcast to the shape of `value`."""
    name = schema_of(target).name
    if name.endswith("per_channel"):
        return parameters.reshape([-1 if dim == axis % value.dim() else 1 for dim in range(value.dim())])
    if name.endswith("per_channel_group"):
        return parameters.repeat_interleave(value.shape[-1] // parameters.shape[-1], -1)
    return parameters
