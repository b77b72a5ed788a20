"""A small call of every operator of the target runtime executorch-1.5.

`CASES`: functional ATen calls, with which eager PyTorch is the judge. `CALLS`: kernels that no ATen call leads to, with
the results that they must give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed

aten = torch.ops.aten


@dataclass(frozen=True)
class Case:
    """`call(*inputs)` dispatches to the operator."""

    call: Callable[..., Any]
    inputs: tuple[Any, ...]


@dataclass(frozen=True)
class Call:
    """A kernel with its arguments, and its results; `random` ones agree in shape and dtype only."""

    args: tuple[Any, ...]
    results: tuple[Any, ...]
    random: bool = False


def _floats(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _positive(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) * 0.9 + 0.05


def _ints(*shape: int, high: int = 8, seed: int = 0, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


X, Y, P = _floats(2, 3, 4), _floats(2, 3, 4, seed=1), _positive(2, 3, 4)
I, J = _ints(2, 3, 4, dtype=torch.int32), _ints(2, 3, 4, seed=1, high=4, dtype=torch.int32)
B, C = X > 0, Y > 0
IMAGE = _floats(1, 4, 6, 6)
SQUARE = _floats(4, 4)

CASES: dict[str, Case] = {}


def case(name: str, call: Callable[..., Any], *inputs: Any) -> None:
    """One more operator."""
    assert name not in CASES
    CASES[name] = Case(call, inputs)


for _name in (
    "abs asin asinh atan atanh ceil cos cosh erf exp expm1 floor isinf isnan log1p neg relu round rsqrt sigmoid sign sin sinh "
    "sqrt tan tanh trunc reciprocal log log10 log2 acos logical_not"
).split():
    case(f"aten::{_name}.out", getattr(aten, _name).default, P)
case("aten::acosh.out", aten.acosh.default, P + 1)
case("aten::bitwise_not.out", aten.bitwise_not.default, I)
case("aten::clamp.out", lambda x: aten.clamp.default(x, -0.5, 0.5), X)
case("aten::clamp.Tensor_out", aten.clamp.Tensor, X, -P, P)
case("aten::elu.out", lambda x: aten.elu.default(x, 0.7), X)
case("aten::gelu.out", lambda x: aten.gelu.default(x, approximate="tanh"), X)
case("aten::glu.out", lambda x: aten.glu.default(x, -1), X)
case("aten::hardtanh.out", lambda x: aten.hardtanh.default(x, -0.5, 0.5), X)
case("aten::leaky_relu.out", lambda x: aten.leaky_relu.default(x, 0.2), X)
case("aten::logit.out", lambda x: aten.logit.default(x, 0.01), P)
case("aten::_conj_physical.out", aten._conj_physical.default, torch.complex(X, Y))
case("aten::view_as_real_copy.out", aten.view_as_real_copy.default, torch.complex(X, Y))

for _name in "add sub mul div floor_divide fmod maximum minimum remainder atan2".split():
    _overload = "Tensor" if _name in ("add", "sub", "mul", "div", "fmod", "remainder") else "default"
    _out = "Tensor_out" if _name in ("fmod", "remainder") else "out"
    case(f"aten::{_name}.{_out}", getattr(getattr(aten, _name), _overload), X, P)
case("aten::div.out_mode", lambda x, y: aten.div.Tensor_mode(x, y, rounding_mode="floor"), X, P)
case("aten::div.Scalar_mode_out", lambda x: aten.div.Scalar_mode(x, 0.3, rounding_mode="trunc"), X)
for _name in "add sub mul div fmod remainder".split():
    _overload = getattr(getattr(aten, _name), "Scalar")
    case(f"aten::{_name}.Scalar_out", lambda x, f=_overload: f(x, 0.7), X)
case("aten::rsub.Scalar_out", lambda x: aten.rsub.Scalar(x, 0.7, 2), X)
for _name in "eq ne lt le gt ge".split():
    case(f"aten::{_name}.Tensor_out", getattr(aten, _name).Tensor, I, J)
    case(f"aten::{_name}.Scalar_out", lambda x, f=getattr(aten, _name).Scalar: f(x, 3), I)
for _name in "and or xor".split():
    case(f"aten::bitwise_{_name}.Tensor_out", getattr(aten, f"bitwise_{_name}").Tensor, I, J)
    case(f"aten::bitwise_{_name}.Scalar_out", lambda x, f=getattr(aten, f"bitwise_{_name}").Scalar: f(x, 5), I)
    case(f"aten::logical_{_name}.out", getattr(aten, f"logical_{_name}").default, B, C)
for _name in "left right".split():
    _packet = getattr(aten, f"bitwise_{_name}_shift")
    case(f"aten::bitwise_{_name}_shift.Tensor_out", _packet.Tensor, I, J)
    case(f"aten::bitwise_{_name}_shift.Tensor_Scalar_out", lambda x, f=_packet.Tensor_Scalar: f(x, 2), I)
case("aten::pow.Tensor_Tensor_out", aten.pow.Tensor_Tensor, P, X)
case("aten::pow.Tensor_Scalar_out", lambda x: aten.pow.Tensor_Scalar(x, 2.5), P)
case("aten::pow.Scalar_out", lambda x: aten.pow.Scalar(1.5, x), X)
case("aten::where.self_out", aten.where.self, B, X, Y)
case("aten::masked_fill.Scalar_out", lambda x, m: aten.masked_fill.Scalar(x, m, 9), X, B)

# Reductions.
case("aten::sum.IntList_out", lambda x: aten.sum.dim_IntList(x, [1], True), X)
case("aten::mean.out", lambda x: aten.mean.dim(x, [1, 2]), X)
case("aten::mean.dtype_out", aten.mean.default, X)
case("aten::amax.out", lambda x: aten.amax.default(x, [1]), X)
case("aten::amin.out", lambda x: aten.amin.default(x, [1]), X)
case("aten::any.all_out", aten.any.default, B)
case("aten::any.out", lambda x: aten.any.dim(x, 1), B)
case("aten::any.dims_out", lambda x: aten.any.dims(x, [0, 2]), B)
case("aten::argmax.out", lambda x: aten.argmax.default(x, 1), X)
case("aten::argmin.out", lambda x: aten.argmin.default(x, 1), X)
case("aten::max.dim_max", lambda x: aten.max.dim(x, 1), X)
case("aten::min.dim_min", lambda x: aten.min.dim(x, 1), X)
case("aten::max.unary_out", aten.max.default, X)
case("aten::min.unary_out", aten.min.default, X)
case("aten::prod.out", aten.prod.default, X)
case("aten::prod.int_out", lambda x: aten.prod.dim_int(x, 1), X)
case("aten::var.out", lambda x: aten.var.dim(x, [1], True), X)
case("aten::var.correction_out", lambda x: aten.var.correction(x, [1], correction=0), X)
case("aten::var_mean.correction_out", lambda x: aten.var_mean.correction(x, [1], correction=0), X)
case("aten::cumsum.out", lambda x: aten.cumsum.default(x, 1), X)
case("aten::topk.values", lambda x: aten.topk.default(x, 2), X)
case("aten::_softmax.out", lambda x: aten._softmax.default(x, -1, False), X)
case("aten::_log_softmax.out", lambda x: aten._log_softmax.default(x, -1, False), X)

# Shapes and copies.
case("aten::_to_copy.out", lambda x: aten._to_copy.default(x, dtype=torch.int32), X)
case("aten::alias_copy.out", aten.alias_copy.default, X)
case("aten::clone.out", aten.clone.default, X)
case("aten::copy.out", aten.copy.default, X, Y)
case("aten::detach_copy.out", aten.detach_copy.default, X)
case("aten::lift_fresh_copy.out", aten.lift_fresh_copy.default, X)
case("aten::as_strided_copy.out", lambda x: aten.as_strided_copy.default(x, [2, 2], [4, 1], 1), X)
case("aten::diagonal_copy.out", lambda x: aten.diagonal_copy.default(x, 1), SQUARE)
case("aten::expand_copy.out", lambda x: aten.expand_copy.default(x, [2, 3, 4]), X[:, :1])
case("aten::permute_copy.out", lambda x: aten.permute_copy.default(x, [2, 0, 1]), X)
case("aten::select_copy.int_out", lambda x: aten.select_copy.int(x, 1, 2), X)
case("aten::slice_copy.Tensor_out", lambda x: aten.slice_copy.Tensor(x, 1, 0, 3, 2), X)
case("aten::squeeze_copy.dim_out", lambda x: aten.squeeze_copy.dim(x, 1), X[:, :1])
case("aten::squeeze_copy.dims_out", lambda x: aten.squeeze_copy.dims(x, [1]), X[:, :1])
case("aten::t_copy.out", aten.t_copy.default, SQUARE)
case("aten::transpose_copy.int_out", lambda x: aten.transpose_copy.int(x, 0, 2), X)
case("aten::unsqueeze_copy.out", lambda x: aten.unsqueeze_copy.default(x, 1), X)
case("aten::view_copy.out", lambda x: aten.relu.default(aten.view_copy.default(x, [6, 4])), X)
case("aten::unfold_copy.out", lambda x: aten.unfold_copy.default(x, 2, 2, 1), X)
case("aten::narrow_copy.out", lambda x: aten.narrow_copy.default(x, 2, 1, 2), X)
case("aten::split_copy.Tensor_out", lambda x: aten.split_copy.Tensor(x, 2, 1), X)
case("aten::split_with_sizes_copy.out", lambda x: aten.split_with_sizes_copy.default(x, [1, 2], 1), X)
case("aten::unbind_copy.int_out", lambda x: aten.unbind_copy.int(x, 1), X)
case("aten::cat.out", lambda x, y: aten.cat.default([x, y], 1), X, Y)
case("aten::stack.out", lambda x, y: aten.stack.default([x, y], 1), X, Y)
case("aten::flip.out", lambda x: aten.flip.default(x, [1]), X)
case("aten::roll.out", lambda x: aten.roll.default(x, [1], [2]), X)
case("aten::repeat.out", lambda x: aten.repeat.default(x, [1, 2, 1]), X)
case("aten::pixel_shuffle.out", lambda x: aten.pixel_shuffle.default(x, 2), IMAGE)
case("aten::pixel_unshuffle.out", lambda x: aten.pixel_unshuffle.default(x, 2), IMAGE)
case("aten::constant_pad_nd.out", lambda x: aten.constant_pad_nd.default(x, [1, 2], 0.5), X)
for _dims in (1, 2, 3):
    _padded = _floats(2, *([4] * (_dims + 1)))
    for _mode in "reflection replication".split():
        _packet = getattr(aten, f"{_mode}_pad{_dims}d")
        case(f"aten::{_mode}_pad{_dims}d.out", lambda x, f=_packet.default, n=_dims: f(x, [1, 2] * n), _padded)
case("aten::tril.out", lambda x: aten.tril.default(x, 1), SQUARE)
case("aten::gather.out", lambda x, i: aten.gather.default(x, 1, i), X, _ints(2, 3, 4, high=3))
case("aten::index.Tensor_out", lambda x, i: aten.index.Tensor(x, [None, i]), X, _ints(2, high=3))
case("aten::index_select.out", lambda x, i: aten.index_select.default(x, 1, i), X, _ints(2, high=3))
case("aten::index_put.out", lambda x, i, v: aten.index_put.default(x, [i], v), X, torch.tensor([1]), Y[:1])
case("aten::embedding.out", aten.embedding.default, SQUARE, _ints(3, high=4))
case("aten::masked_scatter.out", aten.masked_scatter.default, X, B, Y)
case("aten::masked_select.out", aten.masked_select.default, X, B)
case("aten::nonzero.out", aten.nonzero.default, B)
case("aten::repeat_interleave.Tensor_out", aten.repeat_interleave.Tensor, torch.tensor([2, 0, 1]))
case("aten::scatter.src_out", lambda x, i, s: aten.scatter.src(x, 1, i, s), X, _ints(2, 1, 4, high=3), Y)
case("aten::scatter.value_out", lambda x, i: aten.scatter.value(x, 1, i, 2.5), X, _ints(2, 1, 4, high=3))
case("aten::scatter_add.out", lambda x, i, s: aten.scatter_add.default(x, 1, i, s), X, _ints(2, 3, 4, high=3), Y)
case("aten::select_scatter.out", lambda x, s: aten.select_scatter.default(x, s, 1, 2), X, Y[:, 0])
case("aten::slice_scatter.out", lambda x, s: aten.slice_scatter.default(x, s, 1, 0, 2), X, Y[:, :2])

# Creation.
case("aten::arange.start_out", lambda x: x + aten.arange.start_step(1, 9, 2), X)
case("aten::arange.out", lambda x: x + aten.arange.default(4), X)
case("aten::fill.Scalar_out", lambda x: aten.fill.Scalar(x, 3), X)
case("aten::fill.Tensor_out", aten.fill.Tensor, X, torch.tensor(2.5))
case("aten::full.out", lambda x: x + aten.full.default([4], 2.5), X)
case("aten::full_like.out", lambda x: aten.full_like.default(x, 2.5), X)
case("aten::ones.out", lambda x: x + aten.ones.default([4]), X)
case("aten::zeros.out", lambda x: x + aten.zeros.default([4]), X)
case("aten::scalar_tensor.out", lambda x: x + aten.scalar_tensor.default(2.5), X)

# Matrices, convolution, pooling, normalisation, interpolation.
case("aten::mm.out", aten.mm.default, SQUARE, _floats(4, 3))
case("aten::bmm.out", aten.bmm.default, X, _floats(2, 4, 5))
case("aten::addmm.out", aten.addmm.default, _floats(3), SQUARE, _floats(4, 3, seed=1))
case("aten::linear.out", aten.linear.default, X, _floats(5, 4), _floats(5, seed=1))
case(
    "aten::convolution.out",
    lambda x, w, b: aten.convolution.default(x, w, b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    IMAGE, _floats(3, 4, 3, 3), _floats(3),
)  # fmt: skip
case(
    "aten::convolution_backward.out",
    lambda g, x, w: aten.convolution_backward.default(
        g, x, w, [3], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]
    ),
    _floats(1, 3, 6, 6, seed=2), IMAGE, _floats(3, 4, 3, 3),
)  # fmt: skip
case("aten::_adaptive_avg_pool2d.out", lambda x: aten._adaptive_avg_pool2d.default(x, [2, 3]), IMAGE)
case("aten::avg_pool2d.out", lambda x: aten.avg_pool2d.default(x, [2, 2], [2, 2]), IMAGE)
case("aten::max_pool2d_with_indices.out", lambda x: aten.max_pool2d_with_indices.default(x, [2, 2], [2, 2]), IMAGE)
case(
    "aten::max_pool2d_with_indices_backward.grad_input",
    lambda g, x, i: aten.max_pool2d_with_indices_backward.default(g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, i),
    _floats(1, 4, 3, 3), IMAGE, aten.max_pool2d_with_indices.default(IMAGE, [2, 2], [2, 2])[1],
)  # fmt: skip
case(
    "aten::native_layer_norm.out",
    lambda x, w, b: aten.native_layer_norm.default(x, [4], w, b, 1e-5),
    X,
    P[0, 0],
    Y[0, 0],
)
case(
    "aten::native_group_norm.out",
    lambda x, w, b: aten.native_group_norm.default(x, w, b, 1, 4, 36, 2, 1e-5), IMAGE, P[0, 0], Y[0, 0],
)  # fmt: skip
case(
    "aten::_native_batch_norm_legit_no_training.out",
    lambda x, w, b, m, v: aten._native_batch_norm_legit_no_training.default(x, w, b, m, v, 0.1, 1e-5),
    IMAGE, P[0, 0], Y[0, 0], X[0, 0], P[0, 1],
)  # fmt: skip
case(
    "aten::_native_batch_norm_legit.no_stats_out",
    lambda x, w, b: aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5), IMAGE, P[0, 0], Y[0, 0],
)  # fmt: skip
case(
    "aten::grid_sampler_2d.out",
    lambda x, g: aten.grid_sampler_2d.default(x, g, 0, 0, False),
    IMAGE,
    _positive(1, 3, 3, 2),
)
case("aten::upsample_nearest2d.vec_out", lambda x: aten.upsample_nearest2d.vec(x, [9, 12], None), IMAGE)
case("aten::upsample_bilinear2d.vec_out", lambda x: aten.upsample_bilinear2d.vec(x, [9, 12], False, None), IMAGE)
case("aten::_upsample_bilinear2d_aa.out", lambda x: aten._upsample_bilinear2d_aa.default(x, [4, 3], False), IMAGE)
case("aten::_cdist_forward.out", lambda x, y: aten._cdist_forward.default(x, y, 2.0, None), X, Y)
case("aten::_pdist_forward.out", lambda x: aten._pdist_forward.default(x, 2.0), SQUARE)
case("aten::_fft_r2c.out", lambda x: torch.view_as_real(aten._fft_r2c.default(x, [2], 0, True)), _floats(2, 3, 6))
case("aten::_fft_c2r.out", lambda x: aten._fft_c2r.default(x, [2], 2, 6), torch.complex(_floats(2, 3, 4), Y))


CALLS: dict[str, Call] = {}


def call(name: str, *args: Any, gives: Any, random: bool = False) -> None:
    """One more kernel call; `gives` a result or a tuple of them."""
    assert name not in CASES and name not in CALLS
    CALLS[name] = Call(args, gives if isinstance(gives, tuple) else (gives,), random)


# Numbers of a program. Of positive ones: executorch rounds some negative quotients towards zero, Python never does.
for _name, _args, _result in (
    ("add.Scalar", (2, 3), 5), ("sub.Scalar", (2, 5), -3), ("mul.Scalar", (4, 3), 12), ("neg.Scalar", (3,), -3),
    ("mod.Scalar", (7, 3), 1), ("mod.int", (7, 2), 1), ("floordiv.Scalar", (7, 3), 2), ("floordiv.int", (7, 2), 3),
    ("truediv.Scalar", (1, 4), 0.25), ("eq.Scalar", (3, 3), True), ("ge.Scalar", (2, 3), False),
    ("gt.Scalar", (4, 3), True), ("le.Scalar", (3, 3), True), ("lt.Scalar", (2, 3), True),
    ("ceil.Scalar", (1.25,), 2), ("round.Scalar", (2.5,), 2), ("trunc.Scalar", (-1.75,), -1),
    ("sym_int.Scalar", (-1.75,), -1), ("sym_float.Scalar", (3,), 3.0), ("sym_not.Scalar", (True,), False),
    ("sym_max.Scalar", (2, 5), 5), ("sym_min.Scalar", (2, 5), 2), ("sym_ite.Scalar", (False, 3, 4), 4),
):  # fmt: skip
    call(f"executorch_prim::{_name}", *_args, gives=_result)
call("aten::sym_size.int", X, 2, gives=4)
call("aten::sym_numel", X, gives=24)
call("aten::_local_scalar_dense", torch.tensor(3.5), gives=3.5)

# Views, copies and what changes its argument.
call("executorch_prim::et_view.default", X, [6, -1], gives=X.reshape(6, 4))
call("executorch_prim::et_copy_index.tensor", torch.zeros(1, 3), X[0, 0, :3], 0, gives=())
call("et_copy::_h2d_copy.out", X, gives=X)
call("et_copy::_d2h_copy.out", X, gives=X)
call("dim_order_ops::_to_dim_order_copy.out", X, False, [0, 1, 2], gives=X.to(torch.int32))
call("dim_order_ops::_clone_dim_order.out", X, False, [0, 1, 2], gives=X)
call("aten::copy_", torch.zeros(2, 3, 4), X, False, gives=())
call("aten::index_put_", torch.zeros(2, 3, 4), [torch.tensor([1])], X[:1], False, gives=())
call(
    "aten::_native_batch_norm_legit.out",
    IMAGE, P[0, 0], Y[0, 0], torch.zeros(4), torch.ones(4), False, 0.1, 1e-5,
    gives=(IMAGE * P[0, 0, :, None, None] / (1 + 1e-5) ** 0.5 + Y[0, 0, :, None, None], torch.empty(0), torch.empty(0)),
)  # fmt: skip

# Contents that nobody promises.
call("aten::empty.out", [2, 3], None, gives=torch.zeros(2, 3), random=True)
call("dim_order_ops::_empty_dim_order.out", [2, 3], [0, 1], gives=torch.zeros(2, 3), random=True)
call("aten::rand.out", [2, 3], gives=torch.zeros(2, 3), random=True)
call("aten::randn.out", [2, 3], gives=torch.zeros(2, 3), random=True)
call("aten::native_dropout.out", X, 0.5, True, gives=(X, X > 0), random=True)

# Quantised tensors.
_quantized = torch.ops.quantized_decomposed
_BYTES = (-128, 127, torch.int8)
_Q, _SCALE, _ZERO = (
    _ints(3, 8, high=200).sub(100).to(torch.int8),
    torch.tensor([0.1], dtype=torch.float64),
    torch.tensor([3]),
)
_SCALES, _ZEROS = torch.tensor([0.1, 0.2, 0.05]), torch.tensor([3, 0, -4])
_R = _floats(3, 8)
call(
    "quantized_decomposed::quantize_per_tensor.out",
    _R,
    0.1,
    3,
    *_BYTES,
    gives=_quantized.quantize_per_tensor(_R, 0.1, 3, *_BYTES),
)
call(
    "quantized_decomposed::quantize_per_tensor.Tensor_out",
    _R,
    _SCALE,
    _ZERO,
    *_BYTES,
    gives=CALLS["quantized_decomposed::quantize_per_tensor.out"].results,
)
call(
    "quantized_decomposed::dequantize_per_tensor.out",
    _Q,
    0.1,
    3,
    *_BYTES,
    None,
    gives=_quantized.dequantize_per_tensor(_Q, 0.1, 3, *_BYTES),
)
call(
    "quantized_decomposed::dequantize_per_tensor.Tensor_out",
    _Q,
    _SCALE,
    _ZERO,
    *_BYTES,
    None,
    gives=CALLS["quantized_decomposed::dequantize_per_tensor.out"].results,
)
call(
    "quantized_decomposed::quantize_per_channel.out",
    _R,
    _SCALES.double(),
    _ZEROS,
    0,
    *_BYTES,
    gives=_quantized.quantize_per_channel(_R, _SCALES.double(), _ZEROS, 0, *_BYTES),
)
call(
    "quantized_decomposed::dequantize_per_channel.out",
    _Q,
    _SCALES.double(),
    _ZEROS,
    0,
    *_BYTES,
    None,
    gives=_quantized.dequantize_per_channel(_Q, _SCALES.double(), _ZEROS, 0, *_BYTES),
)
_TOKENS = _quantized.choose_qparams_per_token_asymmetric(_R, torch.int8)
call("quantized_decomposed::choose_qparams_per_token_asymmetric.out", _R, torch.int8, gives=tuple(_TOKENS))
call(
    "quantized_decomposed::quantize_per_token.out",
    _R,
    *_TOKENS,
    *_BYTES,
    gives=_quantized.quantize_per_token(_R, *_TOKENS, *_BYTES),
)
call(
    "quantized_decomposed::dequantize_per_token.out",
    _Q,
    *_TOKENS,
    *_BYTES,
    torch.float32,
    gives=_quantized.dequantize_per_token(_Q, *_TOKENS, *_BYTES, torch.float32),
)
call(
    "quantized_decomposed::choose_qparams.Tensor_out",
    _R,
    -128,
    127,
    1e-5,
    torch.int8,
    gives=tuple(_quantized.choose_qparams.tensor(_R, -128, 127, 1e-5, torch.int8)),
)
_U = _ints(3, 8, high=256).to(torch.uint8)
call("quantized_decomposed::add.out", _U, 0.1, 2, 0, 255, _U, 0.1, 2, 0, 255, 0.2, 2, 0, 255, gives=_U)
_ROWS, _LOOKUP = torch.rand(3, generator=torch.Generator().manual_seed(0)) + 0.1, torch.tensor([[0, 2]])
for _bits, _name in ((2, "2bit"), (4, "4bit"), (8, "byte")):
    _half = 2 ** (_bits - 1)
    _entries = _ints(3, 8, high=2 * _half) - _half
    _per_byte = 8 // _bits
    _packed = sum(
        (_entries[:, at::_per_byte] + _half) << _bits * (at if _bits == 2 else 1 - at) for at in range(_per_byte)
    ).to(torch.uint8) if _bits < 8 else _entries.to(torch.int8)  # fmt: skip
    _given = (_packed, _ROWS, None, -_half, _half - 1, _LOOKUP)
    _result = (_entries * _ROWS[:, None])[_LOOKUP]
    call(f"quantized_decomposed::embedding_{_name}.out", *_given, gives=_result)
    call(f"quantized_decomposed::embedding_{_name}.dtype_out", *_given, torch.float16, gives=_result.half())
call("quantized_decomposed::mixed_linear.out", _R, _Q, _SCALES, None, None, gives=_R @ (_Q * _SCALES[:, None]).T)
call(
    "quantized_decomposed::mixed_mm.out",
    _R[:, :3].contiguous(),
    _Q,
    _SCALES,
    None,
    gives=_R[:, :3] @ (_Q * _SCALES[:, None]),
)
