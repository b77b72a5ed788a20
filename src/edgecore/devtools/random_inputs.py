"""Random inputs of a method, made without numpy."""

from __future__ import annotations

import array
import random
from collections.abc import Sequence
from math import prod
from typing import Any, cast

from edgecore.devtools.describe import describe
from edgecore.devtools.file_arguments import program_file
from edgecore.errors import EdgecoreError
from edgecore.format.dtypes import DTYPES

NUMBERS = ("int", "float", "bool")
"""The `TensorInfo.dtype` of inputs that are Python numbers."""


def random_arguments(file: Any, method: str, infos: Sequence[Any]) -> list[Any]:
    """Make arguments for a method: random tensors from a fixed seed, so that a repeated command gets equal inputs.

    The argument for a number input is the value that the export fixed; other inputs that are not tensors get None.

    Args:
        file: Path of the file, which records the values of number inputs.
        method: Name of the method.
        infos: The method's `Method.inputs`.
    """
    fixed: list[Any] = [None] * len(infos)
    if any(info.dtype in NUMBERS for info in infos):
        described = next(row for row in describe(program_file(file))["methods"] if row["name"] == method)
        fixed = [value.get("value") for value in described["inputs"]]
    return [
        fixed[index]
        if info.dtype in (*NUMBERS, "none", "str")
        else random_tensor(tuple(dim.max for dim in info.dims), info.dtype, seed=index)
        for index, info in enumerate(infos)
    ]


def random_tensor(shape: tuple[int, ...], dtype: str, seed: int) -> memoryview:
    """Make a random tensor without numpy: floats uniform in [-1, 1), integers and booleans 0 or 1.

    Args:
        shape: Sizes of all dims.
        dtype: Name such as "float32".
        seed: Seed of the random numbers.

    Returns:
        A contiguous buffer of this shape and dtype.

    Raises:
        EdgecoreError: The buffer protocol has no format for this dtype.
    """
    code = next((row.code for row in DTYPES.values() if row.name == dtype), "")
    if code in ("", "e"):  # Python's `array` and `memoryview` do not support float16, and "" is an unknown dtype
        raise EdgecoreError(
            f"cannot make a random {dtype} input; only a command with --input FILE.npy can run the file"
        )
    generator = random.Random(seed)
    draw = (lambda: generator.random() * 2 - 1) if code in "fd" else (lambda: generator.getrandbits(1))
    count = prod(shape)
    raw: Any = memoryview(array.array(code.replace("?", "B"), (draw() for _ in range(count)))).cast("B")
    # leave the shape out if a size is 0, because memoryview.cast refuses such shapes
    return cast(memoryview, raw.cast(code, shape) if count else raw.cast(code))
