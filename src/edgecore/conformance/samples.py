"""Calls of single operators: shapes, layouts, broadcasting, arguments beside the defaults.

An operator without a row here is sampled by its schema where that says enough: one tensor, two tensors, tensor and number.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload

from edgecore.ir.dialect import VIEW_COPIES
from edgecore.ir.dtypes import dtype_name

Shape = tuple[int, ...]

SHAPES: tuple[Shape, ...] = ((3, 5, 7), (1,), (0, 3), (), (2, 3, 1, 5), (257, 129), (1, 8, 33, 31))
"""Odd, one element, none, no dimension, a dimension of 1, large, an image. The first three are those of a quick run."""

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
    """A tensor argument that is a constant of the model."""

    tensor: torch.Tensor


@dataclass(frozen=True)
class Sample:
    """One call: tensors among the arguments are inputs of the model. `take`: index of the only result that it returns."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    take: int | None = None
    module: torch.nn.Module | None = None
    """Called instead of the operator."""

    def __str__(self) -> str:
        shown = [_show(arg) for arg in self.args] + [f"{key}={_show(value)}" for key, value in self.kwargs.items()]
        return f"({', '.join(shown)})"

    @property
    def inputs(self) -> list[torch.Tensor]:
        """The tensors that become inputs of the model, in the order of the arguments."""
        return [arg for arg in _flat(self.args) if isinstance(arg, torch.Tensor)]


class Make:
    """Makes tensors of one dtype; the same ones in every run."""

    def __init__(self, dtype: torch.dtype, quick: bool, seed: str) -> None:
        self.dtype = dtype
        self.quick = quick
        self._generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))

    def __call__(self, *shape: int, low: float = -2, high: float = 2, channels_last: bool = False) -> torch.Tensor:
        """Values between `low` and `high`; integers and bools have whatever lies between."""
        made = torch.rand(shape, generator=self._generator) * (high - low) + low
        if self.dtype == torch.bool:
            made = made > (low + high) / 2
        made = made.to(self.dtype)
        return made.to(memory_format=torch.channels_last) if channels_last else made

    def some(self, values: Sequence[Any], quick: int = 3) -> Sequence[Any]:
        """All of `values`, or the first few in a quick run."""
        return values[:quick] if self.quick else values

    def tensors(self, low: float = -2, high: float = 2) -> list[torch.Tensor]:
        """One tensor of each of `SHAPES`, one of them also in channels-last order."""
        made = [self(*shape, low=low, high=high) for shape in self.some(SHAPES)]
        return [*made, self(*IMAGE, low=low, high=high, channels_last=True)]


Samples = Callable[[Make], list[Sample]]

RANGES = {
    **dict.fromkeys(("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "lgamma", "digamma"), (0.1, 4)),
    **dict.fromkeys(("acos", "asin", "atanh", "erfinv"), (-0.9, 0.9)),
    "acosh": (1.1, 4),
    "logit": (0.1, 0.9),
    "tan": (-1, 1),
}
"""Where an operator of one tensor is defined, by its name."""

TABLE: dict[str, Samples] = {}
"""Samples by operator as reports name it: `aten.add.Tensor`."""


def samples_of(operator: str, dtype: torch.dtype, quick: bool) -> list[Sample]:
    """Samples that eager accepts, none if the suite has no idea how the operator is called."""
    make = Make(dtype, quick, operator)
    if operator in TABLE:
        found = TABLE[operator](make)
    else:
        target = resolve(operator)
        found = _by_schema(target, make) if target is not None else []
    return [sample for sample in found if _runs(operator, sample)]


def mixed_samples_of(operator: str, first: torch.dtype, second: torch.dtype, quick: bool) -> list[Sample]:
    """Samples of two tensors, the second one of another dtype."""
    found = []
    for sample in samples_of(operator, first, quick):
        tensors = [isinstance(arg, torch.Tensor) for arg in sample.args]
        if tensors == [True, True]:
            one, two = sample.args
            found.append(Sample((one, two > 0 if second == torch.bool else two.to(second)), sample.kwargs))
    return [sample for sample in found if _runs(operator, sample)]


def resolve(operator: str) -> OpOverload | None:
    """The operator to call for a row of a backend's table: a view for its copying form, None if torch has none."""
    namespace, _, rest = operator.partition(".")
    name, _, overload = rest.partition(".")
    try:
        target = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except (AttributeError, RuntimeError):
        return None
    return _VIEWS.get(target, target) if isinstance(target, OpOverload) else None


_VIEWS = {copying: view for view, copying in VIEW_COPIES.items() if not view._schema.name.startswith("aten::_")}


def evaluate(operator: str, sample: Sample, inputs: Sequence[torch.Tensor]) -> Any:
    """The call with other tensors in the place of its inputs."""
    rest = iter(inputs)

    def fill(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return next(rest)
        if isinstance(value, Weight):
            return value.tensor
        return [fill(item) for item in value] if isinstance(value, list) else value

    function = sample.module or resolve(operator)
    assert function is not None
    made = function(*(fill(arg) for arg in sample.args), **{key: fill(arg) for key, arg in sample.kwargs.items()})
    return made if sample.take is None else made[sample.take]


def _runs(operator: str, sample: Sample) -> bool:
    try:
        made = evaluate(operator, sample, sample.inputs)
    except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError):
        return False  # no such dtype or shape, in torch neither
    return all(isinstance(one, torch.Tensor) for one in (made if isinstance(made, (tuple, list)) else [made]))


def _by_schema(target: OpOverload, make: Make) -> list[Sample]:
    name = target._schema.name.rpartition("::")[2]
    required = [str(arg.type) for arg in target._schema.arguments if not arg.has_default_value() and not arg.kwarg_only]
    low, high = RANGES.get(name, (-2, 2))
    if required == ["Tensor"]:
        return [Sample((tensor,)) for tensor in make.tensors(low, high)]
    if required == ["Tensor", "Tensor"]:
        return binary(make)
    if required in (["Tensor", "number"], ["Tensor", "Scalar"]):
        numbers = (0.5, 2, -1) if make.dtype == torch.bool else (2, 0.5, -1)  # with 2, truth values become integers
        return [Sample((tensor, number)) for tensor in make.tensors() for number in make.some(numbers, 1)]
    if required == ["Tensor", "int"]:  # mostly a dimension
        return [Sample((make(3, 5, 7), dim)) for dim in (0, 1, -1)]
    if required == ["Tensor", "List[int]"]:
        return [Sample((make(3, 5, 7), dims)) for dims in ([0], [-1], [0, 2])]
    return []


def binary(make: Make, low: float = -2, high: float = 2, **kwargs: Any) -> list[Sample]:
    """Two tensors whose shapes go together, the second one also as a constant of the model."""
    found = []
    for left, right in make.some(BROADCASTS):
        found.append(Sample((make(*left), make(*right, low=low, high=high)), kwargs))
    last = make(*IMAGE, low=low, high=high, channels_last=True)
    found.append(Sample((make(*IMAGE, channels_last=True), last), kwargs))
    found.append(Sample((make(*IMAGE), Weight(make(1, 3, 1, 1, low=low, high=high))), kwargs))
    return found


def _flat(args: Sequence[Any]) -> list[Any]:
    return [one for arg in args for one in (_flat(arg) if isinstance(arg, list) else [arg])]


def _show(value: Any) -> str:
    if isinstance(value, Weight):
        return f"constant {_show(value.tensor)}"
    if isinstance(value, torch.Tensor):
        order = ""
        if value.dim() == 4 and math.prod(value.shape) > 1 and not value.is_contiguous():
            order = " channels-last" if value.is_contiguous(memory_format=torch.channels_last) else " strided"
        return f"{dtype_name(value.dtype)}{list(value.shape)}{order}"
    return f"[{', '.join(map(_show, value))}]" if isinstance(value, list) else repr(value)
