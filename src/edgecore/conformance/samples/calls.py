"""Sample calls of operators: shapes, layouts, broadcasting, and arguments other than the defaults.

`sample_table` has the samples of most operators. For any other operator the samples are derived from its schema if the
required arguments are simple: one tensor, two tensors, or a tensor and a number or dim.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from edgecore.ir.dialect.dtypes import dtype_name
from edgecore.ir.dialect.edge_operators import VIEW_COPIES
from edgecore.ir.torch_compat import OpOverload, schema_of

Shape = tuple[int, ...]

SHAPES: tuple[Shape, ...] = ((3, 5, 7), (1,), (0, 3), (), (2, 3, 1, 5), (257, 129), (1, 8, 33, 31))
"""Input shapes: odd sizes, one element, no elements, rank 0, size 1, large, an image. Quick runs use the first 3."""

BROADCASTS: tuple[tuple[Shape, Shape], ...] = (
    ((3, 5, 7), (3, 5, 7)),
    ((3, 5, 7), (1, 7)),
    ((4, 1), (1, 6)),
    ((0, 3), (1, 3)),
    ((2, 3, 4, 5), (3, 1, 1)),
    ((1,), (257, 129)),
    ((3, 4), ()),
)

IMAGE: Shape = (2, 3, 8, 9)
VOLUME: Shape = (2, 3, 4, 6, 7)


@dataclass(frozen=True)
class Weight:
    """A tensor argument of a sample call. It becomes a constant of the test model, not an input."""

    tensor: torch.Tensor


@dataclass(frozen=True)
class Sample:
    """One sample call of an operator. The tensors among its arguments become inputs of the test model.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments.
        take: Index of the result to compare, if the operator returns several; None: all results.
        module: A module to call instead of the operator.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    take: int | None = None
    module: torch.nn.Module | None = None

    def __str__(self) -> str:
        shown = [_show(arg) for arg in self.args] + [f"{key}={_show(value)}" for key, value in self.kwargs.items()]
        return f"({', '.join(shown)})"

    @property
    def inputs(self) -> list[torch.Tensor]:
        """The tensors that become inputs of the test model, in the order of the call's arguments."""
        return [arg for arg in _flat(self.args) if isinstance(arg, torch.Tensor)]


class Make:
    """Makes random tensors of one dtype, from a fixed seed."""

    def __init__(self, dtype: torch.dtype, quick: bool, seed: str) -> None:
        self.dtype = dtype
        self.quick = quick
        self._generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))

    def __call__(self, *shape: int, low: float = -2, high: float = 2, channels_last: bool = False) -> torch.Tensor:
        """Make a tensor with values between `low` and `high`. Integers are truncated, booleans are random."""
        tensor = torch.rand(shape, generator=self._generator) * (high - low) + low
        if self.dtype == torch.bool:
            tensor = tensor > (low + high) / 2
        tensor = tensor.to(self.dtype)
        return tensor.to(memory_format=torch.channels_last) if channels_last else tensor

    def some(self, values: Sequence[Any], quick: int = 3) -> Sequence[Any]:
        """Return all of `values`, or in a quick run only the first `quick` of them."""
        return values[:quick] if self.quick else values

    def tensors(self, low: float = -2, high: float = 2) -> list[torch.Tensor]:
        """Make one tensor of each shape of `SHAPES`, and an image with channels last."""
        tensors = [self(*shape, low=low, high=high) for shape in self.some(SHAPES)]
        return [*tensors, self(*IMAGE, low=low, high=high, channels_last=True)]


Samples = Callable[[Make], list[Sample]]

RANGES = {
    **dict.fromkeys(("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "lgamma", "digamma"), (0.1, 4)),
    **dict.fromkeys(("acos", "asin", "atanh", "erfinv"), (-0.9, 0.9)),
    "acosh": (1.1, 4),
    "logit": (0.1, 0.9),
    "tan": (-1, 1),
}
"""Domain (min, max) of unary operators that are not defined for all numbers, by operator name."""

TABLE: dict[str, Samples] = {}
"""Functions that make the sample calls of an operator, by the operator's name, such as "aten.add.Tensor"."""


def samples_of(operator: str, dtype: torch.dtype, quick: bool) -> list[Sample]:
    """Make sample calls of an operator, and return the ones that eager PyTorch accepts.

    Args:
        operator: Name such as "aten.add.Tensor".
        dtype: Dtype of all tensors.
        quick: Make fewer samples.

    Returns:
        The samples; empty if neither the table nor the schema says how to call the operator.
    """
    make = Make(dtype, quick, operator)
    if operator in TABLE:
        samples = TABLE[operator](make)
    else:
        target = resolve(operator)
        samples = _by_schema(target, make) if target is not None else []
    return [sample for sample in samples if _runs(operator, sample)]


def round_inputs(samples: Iterable[Sample]) -> None:
    """Round floating-point inputs in place to bfloat16, so that backends of low precision read them exactly."""
    for tensor in (tensor for sample in samples for tensor in sample.inputs):
        if tensor.is_floating_point():
            tensor.copy_(tensor.bfloat16())


def mixed_samples_of(operator: str, first: torch.dtype, second: torch.dtype, quick: bool) -> list[Sample]:
    """Make sample calls of an operator with two tensors of different dtypes, `first` and `second`."""
    samples = []
    for sample in samples_of(operator, first, quick):
        is_tensor = [isinstance(arg, torch.Tensor) for arg in sample.args]
        if is_tensor == [True, True]:
            left, right = sample.args
            samples.append(Sample((left, right > 0 if second == torch.bool else right.to(second)), sample.kwargs))
    return [sample for sample in samples if _runs(operator, sample)]


def resolve(operator: str) -> OpOverload | None:
    """Find the operator that a model must call to get a given operator in its edge program.

    Args:
        operator: Name such as "aten.view_copy.default".

    Returns:
        The operator; for the copy variant of a view, the view (`aten.view.default`), since models call views and
        edgecore replaces them by their copy variants; None if torch does not have the operator.
    """
    namespace, _, rest = operator.partition(".")
    name, _, overload = rest.partition(".")
    try:
        target = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except (AttributeError, RuntimeError):
        return None
    return _VIEWS.get(target, target) if isinstance(target, OpOverload) else None


_VIEWS = {copying: view for view, copying in VIEW_COPIES.items() if not schema_of(view).name.startswith("aten::_")}


def evaluate(operator: str, sample: Sample, inputs: Sequence[torch.Tensor]) -> Any:
    """Call a sample's operator, with the model's inputs `inputs` in place of the sample's own tensors."""
    rest = iter(inputs)

    def fill(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return next(rest)
        if isinstance(value, Weight):
            return value.tensor
        return [fill(item) for item in value] if isinstance(value, list) else value

    function = sample.module or resolve(operator)
    assert function is not None
    result = function(*(fill(arg) for arg in sample.args), **{key: fill(arg) for key, arg in sample.kwargs.items()})
    return result if sample.take is None else result[sample.take]


def _runs(operator: str, sample: Sample) -> bool:
    try:
        result = evaluate(operator, sample, sample.inputs)
    except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError):
        return False  # omit the sample: eager PyTorch does not support its dtype or shape
    return all(isinstance(value, torch.Tensor) for value in (result if isinstance(result, (tuple, list)) else [result]))


def _by_schema(target: OpOverload, make: Make) -> list[Sample]:
    name = schema_of(target).name.rpartition("::")[2]
    required = [
        str(arg.type) for arg in schema_of(target).arguments if not arg.has_default_value() and not arg.kwarg_only
    ]
    low, high = RANGES.get(name, (-2, 2))
    if required == ["Tensor"]:
        return [Sample((tensor,)) for tensor in make.tensors(low, high)]
    if required == ["Tensor", "Tensor"]:
        return binary(make)
    if required in (["Tensor", "number"], ["Tensor", "Scalar"]):
        return with_number(make)
    if required == ["Tensor", "int"]:  # assume that a required int argument is a dim, as in most operators
        return [Sample((make(3, 5, 7), dim)) for dim in (0, 1, -1)]
    if required == ["Tensor", "List[int]"]:
        return [Sample((make(3, 5, 7), dims)) for dims in ([0], [-1], [0, 2])]
    return []


def with_number(make: Make) -> list[Sample]:
    """Make sample calls of an operator with a tensor and a number."""
    # For boolean tensors, list 0.5 first: a quick run uses only the first number, and 0.5 makes the results floats.
    numbers = (0.5, 2, -1) if make.dtype == torch.bool else (2, 0.5, -1)
    return [Sample((tensor, number)) for tensor in make.tensors() for number in make.some(numbers, 1)]


def binary(make: Make, low: float = -2, high: float = 2, **kwargs: Any) -> list[Sample]:
    """Make sample calls with two tensors of broadcastable shapes; in one call the second tensor is a constant.

    Args:
        make: Makes the tensors.
        low: Minimum of the second tensor.
        high: Maximum of the second tensor.
        **kwargs: Keyword arguments of the call.
    """
    samples = []
    for left, right in make.some(BROADCASTS):
        samples.append(Sample((make(*left), make(*right, low=low, high=high)), kwargs))
    last = make(*IMAGE, low=low, high=high, channels_last=True)
    samples.append(Sample((make(*IMAGE, channels_last=True), last), kwargs))
    samples.append(Sample((make(*IMAGE), Weight(make(1, 3, 1, 1, low=low, high=high))), kwargs))
    return samples


def _flat(args: Sequence[Any]) -> list[Any]:
    return [item for arg in args for item in (_flat(arg) if isinstance(arg, list) else [arg])]


def _show(value: Any) -> str:
    if isinstance(value, Weight):
        return f"constant {_show(value.tensor)}"
    if isinstance(value, torch.Tensor):
        order = ""
        if value.dim() == 4 and math.prod(value.shape) > 1 and not value.is_contiguous():
            order = " channels-last" if value.is_contiguous(memory_format=torch.channels_last) else " strided"
        return f"{dtype_name(value.dtype)}{list(value.shape)}{order}"
    return f"[{', '.join(map(_show, value))}]" if isinstance(value, list) else repr(value)
