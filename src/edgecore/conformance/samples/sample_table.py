"""Fill `TABLE` with sample calls of operators whose arguments cannot be derived from their schema."""

from __future__ import annotations

from typing import Any

import torch

from edgecore.conformance.samples.calls import (
    IMAGE,
    SHAPES,
    TABLE,
    VOLUME,
    Make,
    Sample,
    Samples,
    Weight,
    binary,
    with_number,
)


def _each(*arguments: tuple[Any, ...], low: float = -2, high: float = 2) -> Samples:
    """Return a function that makes sample calls of an operator with one tensor.

    The function first makes a call for each shape, with a tensor as the only argument. Then it makes a call for each
    tuple in `arguments`, with a tensor and the items of the tuple.
    """

    def make_samples(make: Make) -> list[Sample]:
        samples = [Sample((tensor,)) for tensor in make.tensors(low, high)]
        return [*samples, *(Sample((make(3, 5, 7, low=low, high=high), *more)) for more in arguments)]

    return make_samples


def _on(*calls: tuple[Any, ...], take: int | None = None) -> Samples:
    """Return a function that makes a sample call for each tuple, such as `((2, 3), 1, {"keepdim": True})`.

    A tuple has the shape of the tensor, the other arguments, and optionally the keyword arguments. `take` is the index
    of the result to compare, if the operator returns several. Each 4d tensor is also tried with channels last.
    """

    def make_samples(make: Make) -> list[Sample]:
        samples = []
        for shape, *rest in calls:
            kwargs = rest.pop() if rest and isinstance(rest[-1], dict) else {}
            samples.append(Sample((make(*shape), *rest), kwargs, take))
            if len(shape) == 4:
                samples.append(Sample((make(*shape, channels_last=True), *rest), kwargs, take))
        return samples

    return make_samples


def _several(*makers: Samples) -> Samples:
    return lambda make: [sample for maker in makers for sample in maker(make)]


def _reduction(make: Make) -> list[Sample]:
    shapes = [shape for shape in make.some(SHAPES) if shape]
    samples = [Sample((make(*shape), [-1], keep)) for shape in shapes for keep in (False, True)]
    samples += [Sample((make(3, 5, 7), dims, True)) for dims in ([0], [0, 2], [1, 2])]
    return [*samples, *(Sample((make(*IMAGE, channels_last=last), [2, 3], True)) for last in (False, True))]


def _one_dim(*more: Any, take: int | None = None) -> Samples:
    shapes: list[tuple[Any, ...]] = [
        ((3, 5, 7), -1, *more), ((3, 5, 7), 0, *more), ((1,), 0, *more), (IMAGE, 1, *more), ((257, 129), 1, *more)
    ]  # fmt: skip
    return _on(*shapes, take=take)


TABLE["aten.add.Tensor"] = TABLE["aten.sub.Tensor"] = _several(
    binary, lambda make: [Sample((make(3, 5), make(3, 5)), {"alpha": 2})]
)
TABLE["aten.div.Tensor"] = lambda make: binary(make, 0.5 if make.dtype.is_floating_point else 1, 3)
for _name in ("add.Scalar", "sub.Scalar", "rsub.Scalar"):
    TABLE[f"aten.{_name}"] = lambda make: [*with_number(make), Sample((make(3, 5), 2, 3))]
TABLE["aten.div.Tensor_mode"] = lambda make: [
    *(sample for mode in ("floor", "trunc") for sample in binary(make, 1, 3, rounding_mode=mode)),
    *(Sample((make(3, 5), make(3, 5, low=-3, high=-1)), {"rounding_mode": mode}) for mode in ("floor", "trunc", None)),
]
TABLE["aten.div.Scalar_mode"] = lambda make: [
    Sample((make(3, 5), number), {"rounding_mode": mode}) for mode in ("floor", "trunc", None) for number in (2, -2)
]
for _name in ("remainder.Tensor", "fmod.Tensor", "floor_divide.default"):
    TABLE[f"aten.{_name}"] = lambda make: [*binary(make, 1, 3), Sample((make(3, 5), make(3, 5, low=-3, high=-1)))]
TABLE["aten.pow.Tensor_Scalar"] = lambda make: [
    Sample((make(3, 5, 7, low=0.2, high=2), power)) for power in (2, 3, 0.5, -1, -2, 1.5, 4)
]
TABLE["aten.pow.Tensor_Tensor"] = lambda make: [
    Sample((make(*left, low=0.2, high=2), make(*right))) for left, right in (((3, 5, 7), (5, 7)), ((4, 1), (1, 6)))
]
TABLE["aten.pow.Scalar"] = lambda make: [Sample((base, make(3, 5))) for base in (2, 0.5)]
TABLE["aten.clamp.default"] = _each((-1, 1), (None, 0.5), (0, None))
TABLE["aten.clamp.Tensor"] = lambda make: [
    Sample((make(3, 5), Weight(make(3, 5, low=-1, high=0)), Weight(make(5, low=0, high=1)))),
    Sample((make(3, 5), make(3, 5, low=-1, high=0), make(1, 5, low=0, high=1))),
]
TABLE["aten.gelu.default"] = _several(_each(), lambda make: [Sample((make(3, 5),), {"approximate": "tanh"})])
TABLE["aten.elu.default"] = _each((0.5,), (1.0, 1.5), (1.0, 1.0, 0.5))
TABLE["aten.celu.default"] = _each((0.5,))
TABLE["aten.leaky_relu.default"] = _each((0.2,), (-0.1,))
TABLE["aten.hardtanh.default"] = _each((0, 6), (-0.5, 0.25))
TABLE["aten.softplus.default"] = _each((2.0,), (1.0, 5.0))
TABLE["aten.softshrink.default"] = TABLE["aten.hardshrink.default"] = _each((0.25,))
TABLE["aten.threshold.default"] = lambda make: [Sample((make(3, 5, 7), 0.5, -1.0))]
TABLE["aten.glu.default"] = _on(((3, 4),), ((*IMAGE[:2], 4, 6), 2), ((6, 3), 0))
TABLE["aten.prelu.default"] = TABLE["aten._prelu_kernel.default"] = lambda make: [
    Sample((make(2, 3, 5), Weight(make(1)))),
    *(Sample((make(*IMAGE, channels_last=last), Weight(make(3)))) for last in (False, True)),
    *(Sample((make(*IMAGE, channels_last=last), Weight(make(1, 3, 1, 1)))) for last in (False, True)),
]
TABLE["aten.logit.default"] = _several(
    _each(low=0.1, high=0.9), lambda make: [Sample((make(3, 5, low=-1, high=2), 0.1))]
)
TABLE["aten.where.self"] = lambda make: [
    Sample((make(3, 5) > 0, make(3, 5), make(3, 5))),
    Sample((Weight(make(3, 5) > 0), make(3, 5), make(1, 5))),
]
TABLE["aten.masked_fill.Scalar"] = lambda make: [
    Sample((make(3, 5), make(3, 5) > 0, 1.5)),
    Sample((make(3, 5), Weight(make(1, 5) > 0), -1.0)),
]
TABLE["aten.masked_fill.Tensor"] = lambda make: [Sample((make(3, 5), make(3, 5) > 0, Weight(make())))]

# Reductions.
for _name in ("any.dims", "all.dims"):
    TABLE[f"aten.{_name}"] = _on(((3, 5, 7), [1]), ((3, 5, 7), [0, 2], True), ((3, 5, 7), [-1, -3]))
for _name in ("any.dim", "all.dim"):
    TABLE[f"aten.{_name}"] = _on(((3, 5, 7), 1), ((3, 5, 7), -1, True), ((3, 0), 1))
for _name in ("amax.default", "amin.default", "logsumexp.default"):
    TABLE[f"aten.{_name}"] = _reduction
for _name in ("mean.dim", "sum.dim_IntList"):
    TABLE[f"aten.{_name}"] = _several(_reduction, _on(((3, 5, 7), [-2], {"dtype": torch.float32}), ((3, 5, 7), None)))
TABLE["aten.mean.default"] = _several(_each(), _on(((3, 5), {"dtype": torch.float32})))
TABLE["aten.var.dim"] = lambda make: [
    Sample((make(3, 5, 7), dims, unbiased, keep))
    for dims, unbiased, keep in (([0], True, True), ([-1], True, False), ([1, 2], True, True), ([-2], False, False))
]
TABLE["aten.var.correction"] = lambda make: [
    Sample((make(3, 5, 7), dims), {"correction": less, "keepdim": True}) for dims in ([0], [-1]) for less in (0, 1)
]
for _name in ("max.dim", "min.dim"):
    TABLE[f"aten.{_name}"] = _several(_one_dim(take=0), _one_dim(True))
TABLE["aten._softmax.default"] = TABLE["aten._log_softmax.default"] = _one_dim(False)
for _name in ("softmax.int", "log_softmax.int", "cumsum.default"):
    TABLE[f"aten.{_name}"] = _several(_one_dim(), _on(((3, 5), -2, {"dtype": torch.float32})))
for _name in ("argmax.default", "argmin.default"):
    TABLE[f"aten.{_name}"] = _several(_one_dim(), _on(((3, 5), -2, True), ((3, 5),)))
TABLE["aten.topk.default"] = _on(((3, 50), 5), ((50, 3), 4, 0), ((3, 50), 5, -1, False), ((3, 50), 1, -2), take=0)

# Shapes and selections.
TABLE["aten.view_copy.default"] = _on(
    ((3, 4, 5), [12, 5]), ((6,), [2, 3, 1]), ((0, 3), [3, 0]), ((2, 3, 4, 5), [2, -1])
)
TABLE["aten.permute_copy.default"] = _on(
    ((3, 4, 5), [2, 0, 1]), (IMAGE, [0, 2, 3, 1]), ((3, 4), [1, 0]), ((3, 4, 5), [-1, 0, -2])
)
TABLE["aten.transpose_copy.int"] = _on(((3, 4, 5), 0, 2), (IMAGE, 1, 3), ((3, 4), -1, -2))
TABLE["aten.t_copy.default"] = _on(((3, 4),), ((5,),))
TABLE["aten.squeeze_copy.dim"] = _on(((3, 1, 5), 1), ((3, 1, 5), 0), ((3, 1, 5), -2))
TABLE["aten.squeeze_copy.dims"] = _on(((3, 1, 5, 1), [1, 3]), ((3, 1, 5, 1), [-1, 0]))
TABLE["aten.unsqueeze_copy.default"] = _on(((3, 5), 0), ((3, 5), -1), ((3, 5), -3))
TABLE["aten.expand_copy.default"] = _on(((3, 1, 5), [3, 4, 5]), ((5,), [2, 3, 5]), ((3, 1, 5), [2, -1, 4, -1]))
TABLE["aten.repeat.default"] = _on(((3, 5), [2, 1]), ((3, 5), [2, 1, 3]))
TABLE["aten.slice_copy.Tensor"] = _on(
    ((6, 7), 0, 1, 4), ((6, 7), 1, -3), ((6, 7), 1, 0, 7, 2),
    (IMAGE, 1, 1, 3), ((6, 7), -1, -100, 100, 3), ((6, 7), -2, 4, 4),
)  # fmt: skip
TABLE["aten.select_copy.int"] = _on(((6, 7), 0, 2), ((6, 7), 1, -1), (IMAGE, 1, 1), ((6, 7), -2, -6))
TABLE["aten.split_with_sizes_copy.default"] = _on(((6, 7), [2, 4]), ((6, 7), [3, 4], 1), ((6, 7), [6, 1], -1))
TABLE["aten.split_copy.Tensor"] = _on(((6, 7), 2), ((6, 7), 3, 1), ((6, 7), 4, -1))
TABLE["aten.unbind_copy.int"] = _on(((3, 5),), ((3, 2), 1), ((3, 2), -2))
TABLE["aten.constant_pad_nd.default"] = _on(
    ((3, 5), [1, 2]), ((3, 5), [0, 1, 2, 0], 1.5), (IMAGE, [1, 1, 2, 2]), ((3, 5), [-1, 2]), ((3, 5), [0, 0])
)  # fmt: skip
TABLE["aten.flip.default"] = _on(((3, 5), [0]), ((3, 5, 7), [0, 2]), ((3, 5, 7), [-2]))
TABLE["aten.roll.default"] = _on(((3, 5), [1], [0]), ((3, 5), [2, -1], [0, 1]), ((3, 5), [7], [-1]), ((3, 5), [2]))
TABLE["aten.tril.default"] = TABLE["aten.triu.default"] = _on(((5, 7),), ((2, 5, 5), 1), ((5, 7), -1))
TABLE["aten.pixel_shuffle.default"] = _on(((2, 8, 3, 5), 2))
TABLE["aten.pixel_unshuffle.default"] = _on(((2, 3, 4, 6), 2))
for _name in ("cat.default", "stack.default"):
    TABLE[f"aten.{_name}"] = lambda make: (
        [Sample(([make(3, 5, 7), make(3, 5, 7)], dim)) for dim in (0, 1, -1)]
        + [Sample(([make(*IMAGE, channels_last=True), make(*IMAGE, channels_last=True), make(*IMAGE)], 1))]
    )
TABLE["aten.select_scatter.default"] = lambda make: [
    Sample((make(3, 5), make(5), 0, 1)), Sample((make(3, 5), make(3), -1, -2))
]  # fmt: skip
TABLE["aten.slice_scatter.default"] = lambda make: [
    Sample((make(6, 5), make(3, 5), 0, 1, 4)),
    Sample((make(6, 5), make(6, 2), -1, -5, -1, 2)),
]
TABLE["aten.copy.default"] = lambda make: [Sample((make(3, 5), make(3, 5))), Sample((make(3, 5), make(1, 5)))]
TABLE["aten.index_select.default"] = lambda make: [
    *(
        Sample((make(6, 5), dim, index))
        for dim in (0, 1, -1)
        for index in (torch.tensor([3, 0]), Weight(torch.tensor([3, 0])))
    ),
    Sample((make(6, 5), 0, torch.tensor([5, 0], dtype=torch.int32))),
]


def _index(make: Make) -> list[Sample]:
    samples = [Sample((make(6, 5), [index])) for index in (torch.tensor([3, 0]), Weight(torch.tensor([3, 0, 3])))]
    for dtype in (torch.int64, torch.int32):
        negative = torch.tensor([-1, 0, -5], dtype=dtype)
        samples += [Sample((make(6, 5), [negative])), Sample((make(2, 3, 5), [None, None, negative]))]
        samples += [
            Sample((make(6, 5), [negative, negative.neg().clamp(max=4)])),
            Sample((make(6, 5), [negative[:, None]])),
        ]
        samples += [Sample((make(6, 5), [Weight(negative)])), Sample((make(6, 5), [negative[:0]]))]
    return samples


TABLE["aten.index.Tensor"] = _index


class _Rows(torch.nn.Module):
    """A model that writes rows of a buffer, as for a KV cache. Repeating a call changes nothing."""

    rows: torch.Tensor

    def __init__(self, rows: torch.Tensor, dim: int) -> None:
        super().__init__()
        self.before = [None] * dim
        self.register_buffer("rows", rows)

    def forward(self, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Write `values` into the buffer at the positions `index`, and return all its rows."""
        torch.ops.aten.index_put_.default(self.rows, [*self.before, index], values)
        return self.rows.clone()


def _index_put(make: Make) -> list[Sample]:
    samples = []
    for dtype in (torch.int64, torch.int32):
        index, repeated = (torch.tensor(places, dtype=dtype) for places in ([-1, 2, -5], [-1, 0, 4, 0]))
        samples += [
            Sample((make(6, 5), [index], make(3, 5))),
            Sample((make(6, 5), [index], make(1))),
            Sample((make(6, 5), [None, index], make(6, 3))),
            Sample((make(6, 5), [index, index.neg().clamp(max=4)], make(3))),
            Sample((make(6, 5), [Weight(index)], make(3, 5))),
            Sample((make(6, 5), [index[:0]], make(0, 5))),
            Sample((make(6, 5), [repeated], make(4, 5), True)),
            Sample((make(6, 5), [repeated, repeated], make(4), True)),
            *(
                Sample((index, make(*shape)), module=_Rows(make(6, 5), dim))
                for dim, shape in enumerate([(3, 5), (6, 3)])
            ),
        ]
    return samples


TABLE["aten.index_put.default"] = _index_put
TABLE["aten.gather.default"] = lambda make: [
    Sample((make(3, 5), dim, index))
    for dim in (1, -1)
    for index in (torch.tensor([[0, 4], [1, 2], [3, 3]]), Weight(torch.tensor([[0, 4], [1, 2], [3, 3]])))
]
TABLE["aten.embedding.default"] = lambda make: [
    *(
        Sample((Weight(make(11, 6)), index))
        for index in (torch.tensor([3, 0, 10]), torch.tensor([[1, 2], [0, 9]]), torch.tensor([3, 0], dtype=torch.int32))
    ),
    Sample((make(11, 6), Weight(torch.tensor([3, 0, 10])))),
    Sample((Weight(make(11, 6)), torch.tensor([3, 10]), 3)),
]
TABLE["aten._to_copy.default"] = lambda make: [
    *(Sample((make(3, 5),), {"dtype": dtype}) for dtype in (torch.float16, torch.float32)),
    Sample((make(*IMAGE),), {"memory_format": torch.channels_last}),
    Sample((make(*IMAGE, channels_last=True),), {"memory_format": torch.contiguous_format}),
]
TABLE["aten.clone.default"] = lambda make: [
    Sample((make(*IMAGE),), {"memory_format": torch.channels_last}),
    Sample((make(*IMAGE, channels_last=True),), {"memory_format": torch.contiguous_format}),
]
TABLE["aten.full_like.default"] = lambda make: [
    Sample((make(3, 5), 1.5)), Sample((make(3, 5), 2), {"dtype": torch.float32})
]  # fmt: skip


# Layers.
def _linear(make: Make) -> list[Sample]:
    samples = [
        Sample((make(*rows, 16), Weight(make(9, 16)), Weight(make(9)))) for rows in ((4,), (2, 3), (1,), (0,), ())
    ]
    return [*samples, Sample((make(3, 130), Weight(make(257, 130)))), Sample((make(3, 4), make(5, 4), make(5)))]


TABLE["aten.linear.default"] = _linear
TABLE["aten.mm.default"] = lambda make: [
    Sample((make(4, 6), make(6, 5))), Sample((make(4, 6), Weight(make(6, 5)))), Sample((make(33, 129), make(129, 65))),
    Sample((make(1, 1), make(1, 1))),
]  # fmt: skip
TABLE["aten.addmm.default"] = lambda make: [
    Sample((Weight(make(5)), make(4, 6), Weight(make(6, 5)))),
    Sample((make(4, 5), make(4, 6), make(6, 5)), {"beta": 2, "alpha": 0.5}),
]
TABLE["aten.bmm.default"] = lambda make: [
    Sample((make(2, 4, 6), make(2, 6, 5))), Sample((make(3, 4, 6), Weight(make(3, 6, 5))))
]  # fmt: skip


def _convolution(make: Make) -> list[Sample]:
    samples = []
    # Columns of `rows`: input channels, output channels, kernel, stride, padding, dilation, groups, bias.
    rows: list[tuple[int, int, tuple[int, int], list[int], list[int], list[int], int, bool]] = [
        (3, 8, (3, 3), [1, 1], [1, 1], [1, 1], 1, True),
        (3, 8, (1, 1), [1, 1], [0, 0], [1, 1], 1, False),
        (6, 6, (3, 3), [2, 2], [1, 1], [1, 1], 6, True),
        (4, 6, (3, 2), [2, 1], [0, 1], [1, 2], 2, True),
        (3, 5, (5, 5), [2, 2], [2, 2], [1, 1], 1, True),
    ]
    for channels, outputs, kernel, stride, padding, dilation, groups, bias in make.some(rows):
        weight = Weight(make(outputs, channels // groups, *kernel))
        args = (weight, Weight(make(outputs)) if bias else None, stride, padding, dilation, False, [0, 0], groups)
        samples += [Sample((make(2, channels, 9, 11, channels_last=last), *args)) for last in (False, True)]
    conv1d = (Weight(make(6, 4, 3)), Weight(make(6)), [2], [1], [1], False, [0], 1)
    transposed = (Weight(make(4, 6, 3, 3)), Weight(make(6)), [2, 2], [1, 1], [1, 1], True, [1, 1], 1)
    samples += [Sample((make(2, 4, 9), *conv1d)), Sample((make(2, 4, 5, 6), *transposed))]
    spread = (Weight(make(4, 3, 3, 2)), None, [2, 3], [1, 0], [2, 1], True, [1, 0], 2)
    samples += [Sample((make(2, 4, 5, 6), *spread))]
    for sample in _conv3d(make):
        *arguments, groups = sample.args
        samples.append(Sample((*arguments, False, [0] * 3, groups)))
    return samples


def _conv3d(make: Make) -> list[Sample]:
    layers = [(Weight(make(6, 4 // groups, 3, 3, 2)), Weight(make(6)), groups) for groups in (1, 2)]
    return [
        Sample((make(2, 4, 5, 6, 7), weight, bias, [2, 1, 1], [1, 1, 0], [1, 1, 2], groups))
        for weight, bias, groups in layers
    ]


TABLE["aten.convolution.default"] = _convolution
TABLE["aten.conv3d.default"] = _conv3d
for _name, _take in (("max_pool2d", None), ("max_pool2d_with_indices", 0)):
    TABLE[f"aten.{_name}.default"] = _on(
        (IMAGE, [2, 2]), (IMAGE, [3, 3], [2, 2], [1, 1]), (IMAGE, [3, 2], [1, 1], [0, 0], [2, 1]),
        (IMAGE, [2, 2], [2, 2], [0, 0], [1, 1], True), (IMAGE, [3, 3], [2, 2], [1, 1], [1, 1], True),
        (IMAGE, [3, 2], [2, 3], [0, 1], [4, 2], True), take=_take,
    )  # fmt: skip
TABLE["aten.avg_pool2d.default"] = _on(
    (IMAGE, [2, 2]), (IMAGE, [3, 3], [2, 2], [1, 1]), (IMAGE, [3, 3], [2, 2], [1, 1], False, False),
    (IMAGE, [2, 2], [2, 2], [0, 0], False, True, 3), (IMAGE, [3, 3], [2, 2], [1, 1], True),
    (IMAGE, [3, 3], [2, 2], [1, 1], True, False), (IMAGE, [3, 2], [2, 2], [0, 0], True),
    (IMAGE, [3, 2], [2, 2], [1, 0], True, True, 5), (IMAGE, [2, 3], [2, 3], [0, 0], True),
)  # fmt: skip
for _name, _take in (("max_pool3d", None), ("max_pool3d_with_indices", 0)):
    TABLE[f"aten.{_name}.default"] = _on(
        (VOLUME, [2, 2, 2]), (VOLUME, [3, 3, 1], [2, 2, 1], [1, 1, 0]),
        (VOLUME, [2, 1, 2], [1, 1, 1], [1, 0, 0], [1, 1, 3]),
        (VOLUME, [3, 3, 2], [2, 2, 2], [1, 1, 1], [1, 1, 1], True), take=_take,
    )  # fmt: skip
TABLE["aten.avg_pool3d.default"] = _on(
    (VOLUME, [2, 2, 2]), (VOLUME, [3, 3, 1], [2, 2, 1], [1, 1, 0], False, False),
    (VOLUME, [3, 2, 2], [1, 2, 2], [1, 0, 1], False, True, 5), (VOLUME, [3, 3, 2], [2, 2, 2], [1, 1, 0], True),
    (VOLUME, [3, 3, 2], [2, 2, 2], [1, 1, 0], True, False),
)  # fmt: skip
for _name in ("_adaptive_avg_pool3d", "adaptive_avg_pool3d"):
    TABLE[f"aten.{_name}.default"] = _on((VOLUME, [1, 1, 1]), (VOLUME, [3, 3, 2]), (VOLUME, [2, 3, 7]))
TABLE["aten.avg_pool1d.default"] = _on(
    ((2, 3, 9), [2]),
    ((2, 3, 9), [3], [2], [1]),
    ((2, 3, 8), [3], [2], [1], True),
    ((2, 3, 8), [3], [2], [1], True, False),
)
for _name in ("_adaptive_avg_pool2d", "adaptive_avg_pool2d"):
    TABLE[f"aten.{_name}.default"] = _on((IMAGE, [1, 1]), (IMAGE, [4, 3]), (IMAGE, [3, 4]))
TABLE["aten.adaptive_avg_pool1d.default"] = _on(((2, 3, 8), [4]), ((2, 3, 8), [1]))
TABLE["aten.adaptive_max_pool2d.default"] = _on((IMAGE, [1, 1]), (IMAGE, [4, 3]), take=0)
TABLE["aten.upsample_bilinear2d.vec"] = _on(
    (IMAGE, [16, 18], False, None), (IMAGE, None, True, [2.0, 3.0]), (IMAGE, None, False, [2.0, 2.0]),
    (IMAGE, [5, 7], False, None), (IMAGE, [5, 7], True, None), (IMAGE, None, False, [1.5, 0.6]),
)  # fmt: skip
for _name in ("upsample_nearest2d", "_upsample_nearest_exact2d"):
    TABLE[f"aten.{_name}.vec"] = _on(
        (IMAGE, None, [2.0, 2.0]), (IMAGE, [16, 27], None), (IMAGE, [5, 7], None), (IMAGE, None, [1.5, 0.6])
    )
TABLE["aten.upsample_nearest1d.vec"] = _on(((2, 3, 5), None, [2.0]), ((2, 3, 5), [7], None), ((2, 3, 5), None, [1.5]))
TABLE["aten._native_batch_norm_legit_no_training.default"] = lambda make: [
    Sample((make(*IMAGE, channels_last=last), *(Weight(make(3, low=0.5, high=2)) for _ in range(4)), 0.1, 1e-5), take=0)
    for last in (False, True)
]
TABLE["aten.native_layer_norm.default"] = lambda make: (
    [
        Sample((make(*shape), [shape[-1]], Weight(make(shape[-1])), Weight(make(shape[-1])), 1e-5), take=0)
        for shape in ((4, 16), (2, 3, 7), (1, 129))
    ]
    + [Sample((make(2, 3, 8), [3, 8], None, None, 1e-3), take=0)]
)
TABLE["aten.layer_norm.default"] = lambda make: [
    Sample((make(2, 3, 8), [8], Weight(make(8)), Weight(make(8)))), Sample((make(2, 3, 8), [3, 8], None, None, 0.5))
]  # fmt: skip
TABLE["aten.rms_norm.default"] = lambda make: [
    Sample((make(2, 3, 8), [8], Weight(make(8)))), Sample((make(2, 3, 8), [8], None, 1e-3))
]  # fmt: skip
TABLE["aten.native_group_norm.default"] = lambda make: [
    Sample((make(2, 6, *size), Weight(make(6)), Weight(make(6)), 2, 6, size[0] * size[1], groups, 1e-5), take=0)
    for size in ((4, 5), (1, 7))
    for groups in (1, 3)
]
TABLE["aten.group_norm.default"] = lambda make: [
    Sample((make(2, 6, 4, 5), 3, Weight(make(6)), Weight(make(6)))), Sample((make(2, 6, 4, 5), 2, None, None, 0.5))
]  # fmt: skip


def _attention(make: Make) -> list[Sample]:
    def qkv(*shape: int) -> tuple[torch.Tensor, ...]:
        return tuple(make(*shape) for _ in range(3))

    visible = torch.ones(5, 5, dtype=torch.bool).tril()
    visible[2] = False  # row 2 attends to no key: eager PyTorch returns zeros for it
    hidden = torch.zeros(2, 1, 1, 5).masked_fill(torch.tensor([True, False]).reshape(2, 1, 1, 1), -torch.inf)
    return [
        Sample(qkv(2, 4, 8)),
        Sample(qkv(1, 2, 5, 8), {"scale": 0.25}),
        Sample(qkv(1, 2, 5, 8), {"is_causal": True}),
        Sample((*qkv(1, 2, 5, 8), make(5, 5))),
        Sample((*qkv(1, 2, 5, 8), visible)),
        Sample((*qkv(2, 2, 5, 8), hidden.to(make.dtype))),
        Sample((make(1, 4, 5, 8), *qkv(1, 2, 5, 8)[:2]), {"enable_gqa": True}),
    ]


TABLE["aten.scaled_dot_product_attention.default"] = _attention


def _recurrent(kind: Any) -> Samples:
    def make_samples(make: Make) -> list[Sample]:
        if not make.dtype.is_floating_point:
            return []
        samples = []
        for options in ({}, {"batch_first": True, "bidirectional": True}, {"num_layers": 2}):
            torch.manual_seed(0)
            module = kind(6, 5, **options).to(make.dtype).eval().requires_grad_(False)
            samples.append(Sample((make(4, 3, 6),), take=0, module=module))
        return samples

    return make_samples


TABLE["aten.lstm.input"] = _recurrent(torch.nn.LSTM)
TABLE["aten.gru.input"] = _recurrent(torch.nn.GRU)
