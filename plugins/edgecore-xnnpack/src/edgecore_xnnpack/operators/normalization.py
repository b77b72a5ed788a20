"""Layer, group, batch and RMS norms, composed of averages and multiplications."""

from __future__ import annotations

from math import prod

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.subgraph import LAST, SubgraphValue
from edgecore_xnnpack.operator_table import Query, lowers
from edgecore_xnnpack.operators.convolution import Geometry, convolve
from edgecore_xnnpack.operators.elementwise import binary, unary
from edgecore_xnnpack.operators.matmul import fully_connected
from edgecore_xnnpack.operators.pooling import image_of
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten


def _check_first_only(query: Query) -> str | None:
    """Return a reason if a node reads the mean or variance (results 1 and 2) of a norm, which is not supported."""
    return None if all(user.args[1] == 0 for user in query.node.users) else "saved statistics are read"


def _check_constants(query: Query, *names: str) -> str | None:
    parameters = [query.argument(name) for name in names]
    if not all(value is None or query.is_constant(value) for value in parameters):
        return "parameters not constant"
    return _check_first_only(query)


@lowers(aten._native_batch_norm_legit_no_training.default, constraints="constant statistics",
        check=lambda query: _check_constants(query, "weight", "bias", "running_mean", "running_var"))  # fmt: skip
def _batch_norm(low: Lowering, node: Node) -> list[SubgraphValue]:
    names = ("running_mean", "running_var", "weight", "bias")
    mean, var, gamma, beta = (low.array(low.argument(name)) for name in names)
    assert mean is not None and var is not None
    scale = 1 / np.sqrt(var.astype(np.float64) + low.argument("eps")) * (1.0 if gamma is None else gamma)
    shift = (0.0 if beta is None else beta) - mean * scale
    value = low.input()
    shape = (1, -1) + (1,) * (len(value.shape) - 2)
    scaled = binary(low, g.Multiply, value, low.constant(scale.reshape(shape)))
    return [binary(low, g.Add, scaled, low.constant(shift.reshape(shape)))]


def _check_layer_norm(query: Query) -> str | None:
    return _check_constants(query, "weight", "bias")


@lowers(aten.native_layer_norm.default, check=_check_layer_norm, constraints="constant weight and bias")
def _layer_norm(low: Lowering, node: Node) -> list[SubgraphValue]:
    """Emit a layer norm: a fully connected node with weights of 1/n averages the n elements that share a mean."""
    value, count = low.input(), prod(low.argument("normalized_shape"))
    gamma, beta = (low.array(low.argument(name)) for name in ("weight", "bias"))
    rank = len(low.argument("normalized_shape"))
    flat = value if rank == 1 else low.reshape(value, (*value.shape[:-rank], count))
    average = np.full((1, count), 1 / count, np.float32)
    centred = binary(low, g.Subtract, flat, fully_connected(low, flat, average, None))
    variance = fully_connected(low, unary(low, g.Square, centred), average, low.scalar(float(low.argument("eps"))))
    result = binary(low, g.Multiply, centred, unary(low, g.ReciprocalSquareRoot, variance))
    if gamma is not None:
        result = binary(low, g.Multiply, result, low.constant(gamma.reshape(-1)))
    if beta is not None:
        result = binary(low, g.Add, result, low.constant(beta.reshape(-1)))
    return [low.reshape(result, value.shape)]


def _check_rms_norm(query: Query) -> str | None:
    weight = query.argument("weight")
    return None if weight is None or query.is_constant(weight) else "weight not constant"


@lowers(aten.rms_norm.default, check=_check_rms_norm, constraints="constant weight", do_not_decompose=True)
def _rms_norm(low: Lowering, node: Node) -> SubgraphValue:
    """Emit x / sqrt(mean(x^2) + eps) * weight: a layer norm without subtracting the mean."""
    value, rank = low.input(), len(low.argument("normalized_shape"))
    count, eps, gamma = prod(low.argument("normalized_shape")), low.argument("eps"), low.array(low.argument("weight"))
    flat = value if rank == 1 else low.reshape(value, (*value.shape[:-rank], count))
    added = low.scalar(float(np.finfo(np.float32).eps) if eps is None else float(eps))
    square = fully_connected(low, unary(low, g.Square, flat), np.full((1, count), 1 / count, np.float32), added)
    result = binary(low, g.Multiply, flat, unary(low, g.ReciprocalSquareRoot, square))
    if gamma is not None:
        result = binary(low, g.Multiply, result, low.constant(gamma.reshape(-1)))
    return low.reshape(result, value.shape)


def _check_group_norm(query: Query) -> str | None:
    return f"rank {len(query.shape)}" if len(query.shape) not in (3, 4) else _check_constants(query, "weight", "bias")


@lowers(aten.native_group_norm.default, check=_check_group_norm, constraints="rank 3 or 4, constant weight and bias")
def _group_norm(low: Lowering, node: Node) -> list[SubgraphValue]:
    """Emit a group norm: pooling averages each channel, and a 1 x 1 convolution averages the channels of each group."""
    value, groups, eps = image_of(low, low.input()), int(low.argument("group")), float(low.argument("eps"))
    channels = value.shape[1]
    gamma, beta = (low.array(low.argument(name)) for name in ("weight", "bias"))
    average = np.full((channels, channels // groups, 1, 1), groups / channels, np.float32)

    def over_group(source: SubgraphValue, bias: SubgraphValue | None) -> SubgraphValue:
        """Emit the average of each group, repeated for each of its channels, plus `bias`."""
        pooled = low.emit(g.GlobalAvgPooling2d, [source], (*source.shape[:2], 1, 1), LAST, flags=g.KEEP_DIMS)
        return convolve(low, pooled, average, bias, pooled.shape, Geometry(groups=groups))

    centred = binary(low, g.Subtract, value, over_group(value, None))
    variance = over_group(unary(low, g.Square, centred), low.constant(np.full(channels, eps)))
    scale = unary(low, g.ReciprocalSquareRoot, variance)
    if gamma is not None:
        scale = binary(low, g.Multiply, scale, low.constant(gamma.reshape(1, -1, 1, 1)))
    result = binary(low, g.Multiply, centred, scale)
    if beta is not None:
        result = binary(low, g.Add, result, low.constant(beta.reshape(1, -1, 1, 1)))
    return [low.reshape(result, low.shape)]
