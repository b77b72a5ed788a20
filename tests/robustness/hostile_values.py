"""Well-formed `.pte` files that ask for absurd things: the checks of kernels, not those of the parser, must refuse them."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence

from edgecore import format as fmt

INTS = (0, 1, 2, 3, 7, -1, -2, 1000, 1 << 20, (1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 62, (1 << 63) - 1, -(1 << 63))
DOUBLES = (0.0, 1.0, -1.0, 0.5, 1e-300, 1e-7, 1e9, 1e300, float("inf"), float("-inf"), float("nan"))
SIZES = (0, 0, 1, 1, 2, 5, 1000, 1 << 16, (1 << 31) - 1)
TYPES = [t for t in fmt.ScalarType if t in fmt.program.SCALAR_TYPE_SIZES]


def mutated(pte: fmt.PteFile, rng: random.Random) -> bytes:
    """A copy in which one to eight values of one method are replaced; in half of the copies all integers by one number.

    In a third, each size is first replaced by another one wherever it stands, so that shapes still fit one another.
    """
    program = copy.copy(pte.program)
    plan = copy.copy(rng.choice(program.execution_plan))
    plan.values = copy.deepcopy(plan.values)
    program.execution_plan = [plan]
    ints = (rng.choice(INTS),) if rng.random() < 0.5 else INTS
    renamed = rng.random() < 0.3
    if renamed:
        _rename_sizes([value.val for value in plan.values], rng)
    for _ in range(rng.randint(0 if renamed else 1, 8)):
        _mutate(rng.choice(plan.values).val, ints, rng)
    file = copy.copy(pte)
    file.program = program
    return fmt.write_pte(file)


def _rename_sizes(values: Sequence[object], rng: random.Random) -> None:
    tensors = [value for value in values if isinstance(value, fmt.Tensor)]
    known = sorted({size for tensor in tensors for size in tensor.sizes})
    new = {size: rng.choice(SIZES) for size in known if rng.random() < 0.6}
    for tensor in tensors:
        tensor.sizes = [new.get(size, size) for size in tensor.sizes]
    for value in values:
        if isinstance(value, fmt.Int) and rng.random() < 0.5:
            value.int_val = new.get(value.int_val, value.int_val)


def _mutate(value: object, ints: Sequence[int], rng: random.Random) -> None:
    match value:
        case fmt.Int():
            value.int_val = rng.choice(ints)
        case fmt.Double():
            value.double_val = rng.choice(DOUBLES)
        case fmt.Bool():
            value.bool_val = not value.bool_val
        case fmt.DoubleList():
            value.items = [rng.choice(DOUBLES) for _ in value.items]
        case fmt.IntList() | fmt.TensorList() | fmt.OptionalTensorList() if value.items:
            if rng.random() < 0.5:
                value.items = value.items[: rng.randrange(len(value.items) + 1)]
            else:
                value.items = [*value.items, rng.choice(value.items)]
        case fmt.Tensor():
            _mutate_tensor(value, rng)


def _mutate_tensor(tensor: fmt.Tensor, rng: random.Random) -> None:
    choice = rng.randrange(4)
    if choice == 0:
        tensor.scalar_type = rng.choice(TYPES)
    elif choice == 1:
        tensor.shape_dynamism = rng.choice(list(fmt.TensorShapeDynamism))
        tensor.sizes = [max(size, rng.choice((1, 8, 64))) for size in tensor.sizes]
    else:
        tensor.sizes = [rng.choice(SIZES) if rng.random() < 0.5 else size for size in tensor.sizes]
