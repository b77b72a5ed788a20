"""Small models of core ATen operators, and of what `torch.export` leaves of common modules, with inputs."""

import torch
from torch import nn
from torch.nn import functional as F

aten = torch.ops.aten
generator = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(shape, generator=generator)


def integers(*shape):
    return torch.randint(0, 5, shape, generator=generator)


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(
            part for part in getattr(function, "__defaults__", None) or () if isinstance(part, nn.Module)
        )

    def forward(self, *inputs):
        return self.function(*inputs)


ROW, IMAGE, VOLUME = normal(2, 4, 11), normal(2, 4, 9, 8), normal(2, 3, 6, 7, 8)
WITH_NAN = normal(3, 4, 5)
WITH_NAN[0, 1, 2] = WITH_NAN[1, 1] = float("nan")
DIFFERENT = torch.randperm(60, generator=generator).reshape(3, 4, 5)
PLACES = torch.tensor([[0, 1, 1, 0], [2, 2, 0, 1]])
WORDS, OFFSETS = torch.randint(0, 10, (4, 5), generator=generator), torch.tensor([0, 3, 3, 9, 20])
MEAN, INVERSE = IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3), False).add(1e-5).rsqrt()


def pooled(*kernel_stride_padding):
    return normal(*aten.avg_pool2d(IMAGE, *kernel_stride_padding).shape)


def running(x, mean, var):
    return aten._native_batch_norm_legit_functional(x, None, None, mean, var, True, 0.1, 1e-5)


def layer_norm_backward(grad, x, mean, rstd, weight):
    return aten.native_layer_norm_backward(grad, x, [8], mean, rstd, weight, weight, [True] * 3)


def group_norm_backward(grad, x, mean, rstd, weight):
    return aten.native_group_norm_backward(grad, x, mean, rstd, weight, 2, 4, 72, 2, [True] * 3)


def batch_norm_backward(grad, x, weight, mean, invstd):
    return aten.native_batch_norm_backward(grad, x, weight, None, None, mean, invstd, True, 1e-5, [True] * 3)


_CASES = {
    "average of rows": (lambda x: F.avg_pool1d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), ROW),
    "average of integer rows": (lambda x: F.avg_pool1d(x, 2), integers(1, 2, 4)),
    "average of rows to a size": (lambda x: F.adaptive_avg_pool1d(x, 5), ROW),
    "average of rows to one": (lambda x: F.adaptive_avg_pool1d(x, 1), ROW[0]),
    "average of integer volumes": (
        lambda x: F.avg_pool3d(x - 2, 3, 2, 1, ceil_mode=True, count_include_pad=False), integers(1, 2, 4, 5, 4)
    ),
    "maximum of rows to a size": (lambda x: F.adaptive_max_pool1d(x, 5, return_indices=True), ROW),
    "maximum of images to a size": (lambda x: F.adaptive_max_pool2d(x, (3, 5), return_indices=True), IMAGE),
    "maximum of images to a size that divides": (lambda x: F.adaptive_max_pool2d(x, (3, 4)), IMAGE),
    "maximum of images without a batch": (lambda x: F.adaptive_max_pool2d(x, (None, 3)), IMAGE[0]),
    "maximum of volumes to a size": (lambda x: F.adaptive_max_pool3d(x, (4, 3, 5), return_indices=True), VOLUME),
    "maximum of no channels": (lambda x: F.adaptive_max_pool2d(x, (2, 3), True), normal(0, 6, 3)),
    "maximum of equal integers": (lambda x: F.adaptive_max_pool2d(x, (2, 3), True), integers(1, 2, 5, 7).float()),
    "places put back": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=(9, 8)), IMAGE
    ),
    "median": (torch.Tensor.median, WITH_NAN),
    "median along a dim": (lambda x: (*x.median(1), *x.nanmedian(1, keepdim=True)), DIFFERENT),
    "median with NaN": (lambda x: x.median(-1), WITH_NAN),
    "median without NaN": (lambda x: (x.nanmedian(), x.nanmedian(2)[0]), WITH_NAN),
    "k-th value": (lambda x: x.kthvalue(2, 1), DIFFERENT),
    "most frequent value": (lambda x: x.mode(1)[0], integers(4, 9)),
    "sorted": (lambda x: (*x.sort(0), *x.sort(1, descending=True), x.argsort()), DIFFERENT),
    "sorted with NaN": (lambda x: x.sort(2)[0], WITH_NAN),
    "sorted stably": (
        lambda x: (*torch.sort(x, dim=1, stable=True), x.argsort(stable=True, descending=True)), integers(3, 9)
    ),
    "sorted stably, one element": (lambda x: torch.sort(x[:1], dim=0, stable=True), integers(3, 9)),
    "sorted booleans": (lambda x: torch.sort(x > 2, stable=True), integers(9)),
    "sorted rows": (torch.msort, normal(4, 3)),
    "running extrema": (lambda x: (*x.cummax(1), *x.cummin(0)), integers(4, 6)),
    "running extrema with NaN": (lambda x: (*x.cummax(1), *x.cummin(2)), WITH_NAN),
    "running extrema of nothing": (lambda x: (*x.cummax(0), *x.cummin(1)), normal(0, 4)),
    "medians of nothing": (lambda x: (x.median(), x.nanmedian()), normal(0)),
    "running logarithm of sums": (lambda x: x.logcumsumexp(1), ROW),
    "embedding bags": (lambda x, m=nn.EmbeddingBag(10, 3): m(x), WORDS),
    "embedding bags with padding": (lambda x, m=nn.EmbeddingBag(10, 3, mode="max", padding_idx=2): m(x), WORDS),
    "embedding bags of weighted words": (
        lambda x, w, m=nn.EmbeddingBag(10, 3, mode="sum"): m(x, per_sample_weights=w), WORDS, normal(4, 5)
    ),
    "embedding bags with offsets": (
        lambda x, o, m=nn.EmbeddingBag(10, 3, include_last_offset=True): m(x, o), WORDS.flatten(), OFFSETS
    ),
    "embedding bags, some empty": (
        lambda x, o, m=nn.EmbeddingBag(10, 3, mode="max"): m(x, o), WORDS.flatten(), torch.tensor([0, 3, 3, 20])
    ),
    "largest of embedding bags": (
        lambda x, o: aten._embedding_bag(normal_table, x, o, False, 2)[::3], WORDS.flatten(), OFFSETS
    ),
    "scattered sums of numbers": (lambda x, i: x.scatter(0, i, 2.0, reduce="add"), normal(3, 4), PLACES),
    "scattered products": (lambda x, i, s: x.scatter(0, i, s, reduce="multiply"), normal(3, 4), PLACES, normal(2, 4)),
    "products by index": (lambda x, s: x.index_reduce(0, PLACES[0], s, "prod"), normal(3, 4), normal(4, 4)),
    "rounded to decimals": (lambda x: (torch.round(x, decimals=2), torch.round(x * 100, decimals=-1)), ROW),
    "batch norm in training": (running, IMAGE, normal(4), normal(4).abs()),
    "written diagonals": (
        lambda x, s: (x.diagonal_scatter(s, 1), x.diagonal_scatter(s[:2], -1), x.diagonal_scatter(s, -1, 1, 0)),
        normal(3, 6), normal(3),
    ),
    "written diagonals of a batch": (lambda x, s: x.diagonal_scatter(s, -2, 2, 0), normal(3, 2, 4), normal(2, 2)),
    "permutation": (lambda x: torch.sort(torch.randperm(17))[0] + x, integers(17)),
    "random integers": (lambda x: torch.randint(3, 4, (4,)) + torch.randint_like(x, 1), integers(4)),
    "memory with strides": (lambda x: x.new_empty_strided((2, 3), (1, 2)).fill_(1) + x, normal(2, 3)),
    "circular convolution": (lambda x, m=nn.Conv1d(4, 3, 3, padding=1, padding_mode="circular"): m(x), ROW),
    "circular convolution of images": (
        lambda x, m=nn.Conv2d(4, 3, 3, padding=(1, 2), padding_mode="circular"): m(x), IMAGE
    ),
    "circular padding that crops": (lambda x: F.pad(x, (2, -1), mode="circular"), ROW),
    "overlapping blocks": (lambda x: F.fold(x, (6, 7), (2, 3), padding=1, stride=2), normal(2, 12, 16)),
    "signs": (lambda x, y: (torch.copysign(x, y), torch.signbit(y)), normal(3, 4), torch.tensor([-0.0, 0.0, 2, -3])),
    "signs of numbers": (lambda x: (torch.copysign(x, -2.0), torch.copysign(x.int(), 0.0)), normal(3, 4)),
    "angles": (lambda x, i: (torch.angle(x), torch.angle(i - 2)), WITH_NAN, integers(5)),
    "one element taken": (lambda x, i: (torch.take(x, i), torch.take(x, i - 1)), normal(3, 4), torch.tensor(0)),
    "places among unsorted boundaries": (
        lambda x, b: torch.searchsorted(b, x, sorter=b.argsort(), right=True), normal(3, 4), normal(7)
    ),
    "loss of a hinge": (F.hinge_embedding_loss, normal(4), torch.tensor([1.0, -1, 1, -1])),
    "extrema without NaN": (lambda x, y: (x.fmax(y), x.fmin(y)), WITH_NAN, normal(4, 5)),
    "hypotenuse": (torch.hypot, normal(3, 4), normal(3, 4)),
    "backward of averages": (
        lambda g, x: aten.avg_pool2d_backward(g, x, [3, 2], [2, 2], [1, 0], True, False, None),
        pooled([3, 2], [2, 2], [1, 0], True, False), IMAGE,
    ),
    "backward of averages with a divisor": (
        lambda g, x: aten.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], False, True, 7),
        pooled([3, 3], [2, 2], [1, 1]), IMAGE,
    ),
    "backward of averages to a size": (aten._adaptive_avg_pool2d_backward, normal(2, 4, 3, 5), IMAGE),
    "backward of embeddings": (lambda g, i: aten.embedding_dense_backward(g, i, 10, 2, True), normal(4, 5, 3), WORDS),
    "backward of layer norm": (
        layer_norm_backward, normal(2, 4, 9, 8), IMAGE, *aten.native_layer_norm(IMAGE, [8], None, None, 1e-5)[1:],
        normal(8),
    ),
    "backward of group norm": (
        group_norm_backward, normal(2, 4, 9, 8), IMAGE,
        *aten.native_group_norm(IMAGE, None, None, 2, 4, 72, 2, 1e-5)[1:], normal(4),
    ),
    "backward of batch norm": (batch_norm_backward, normal(2, 4, 9, 8), IMAGE, normal(4), MEAN, INVERSE),
}  # fmt: skip
for _reduce in ("sum", "prod", "mean", "amax", "amin"):
    for _included in (True, False):
        _CASES[f"scattered {_reduce}{' with the old element' * _included}"] = (
            lambda x, i, s, y, r=_reduce, included=_included: (
                x.scatter_reduce(0, i, s, r, include_self=included),
                y.scatter_reduce(1, i, y[:2], r, include_self=included),
            ),
            normal(3, 5), PLACES, normal(2, 4), integers(3, 4),
        )  # fmt: skip

normal_table = normal(10, 3)
_CASES["linear layer of a row"] = (F.linear, normal(5), normal(3, 5), normal(3))
for _beta, _alpha in ((1, 1), (3, 2), (0, 2)):
    _CASES[f"sum of matrix products, {_beta} and {_alpha}"] = (
        lambda x, a, b, beta=_beta, alpha=_alpha: torch.addbmm(x, a, b, beta=beta, alpha=alpha),
        normal(3, 5) if _beta else torch.full((5,), torch.inf), normal(4, 3, 2), normal(4, 2, 5),
    )  # fmt: skip
MODELS = {name: (Model(function).eval(), inputs) for name, (function, *inputs) in _CASES.items()}
MODELS = {name: (model, tuple(inputs)) for name, (model, inputs) in MODELS.items()}


def assert_equal(got, want):
    """Compare the results of a program and of its model."""
    got, want = ([values] if isinstance(values, torch.Tensor) else list(values) for values in (got, want))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True, rtol=1e-5, atol=3e-6)
