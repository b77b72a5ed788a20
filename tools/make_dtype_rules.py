"""Write src/edgecore/ir/dialect/dtype_rules.json: the dtypes that each edge operator accepts and returns.

The table is generated. A dispatch mode records the operators that PyTorch's OpInfo samples call, with their arguments.
Then each operator is called with every combination of dtypes, on meta tensors and on the CPU. A combination is allowed
if both calls succeed. The CPU has no kernels of some operators for float16, bfloat16, uint16 or uint32; then the call
with float32 or int32 instead must succeed.

    python tools/make_dtype_rules.py        (some minutes; prints the operators without a rule)

Format: see `edgecore.ir.dialect.dtype_rules`.
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

from edgecore.ir.dialect.dtype_rules import MAX_SLOTS, is_slot, key_of, slots_of
from edgecore.ir.dialect.dtypes import DTYPE_LETTERS
from edgecore.ir.dialect.edge_operators import COMPLEX, VIEW_COPIES, edge_operators

PATH = Path(__file__).resolve().parents[1] / "src/edgecore/ir/dialect/dtype_rules.json"
LETTER_DTYPES = {letter: dtype for dtype, letter in DTYPE_LETTERS.items()}
SCALARS = {"I": 1, "F": 1.5, "B": True}
NO_KERNEL = tuple(f"for '{name}'" for name in ("Half", "BFloat16", "UInt16", "UInt32"))
"""Parts of error messages about a missing CPU kernel, for dtypes in which the CPU lacks many kernels.

For any other dtype, a missing kernel means that the operator does not accept the dtype.
"""

COMMON = str.maketrans("hevw", "ffii")
"""Maps the letters of these dtypes to float32 and int32, with which the CPU call must succeed instead."""

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Recorder(TorchDispatchMode):
    """Dispatch mode that records small calls of operators: up to 6 per operator, each with another set of arguments."""

    def __init__(self, wanted: set[OpOverload], calls: dict[OpOverload, dict[str, Call]]) -> None:
        super().__init__()
        self.wanted, self.calls = wanted, calls
        self.decompositions = torch._decomp.core_aten_decompositions()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = VIEW_COPIES.get(func, func)
        if name in self.wanted:
            shape = "".join("-" if item is None else "x" for item in slots_of(name, args, kwargs))
            small = all(
                leaf.numel() <= 2000 for leaf in torch.utils._pytree.tree_leaves((args, kwargs)) if is_tensor(leaf)
            )
            if small and len(self.calls.setdefault(name, {})) < 6:
                self.calls[name].setdefault(shape, torch.utils._pytree.tree_map(detach, (args, kwargs)))
        elif func in self.decompositions:
            with self:
                return self.decompositions[func](*args, **kwargs)
        return func(*args, **kwargs)


def is_tensor(value: Any) -> bool:
    """Return True for a tensor."""
    return isinstance(value, torch.Tensor)


def is_number(value: Any) -> bool:
    """Return True for a Python number."""
    return isinstance(value, (bool, int, float))


def detach(value: Any) -> Any:
    """Return a copy of a tensor, and any other value unchanged."""
    return value.detach().clone() if is_tensor(value) else value


def record() -> dict[OpOverload, dict[str, Call]]:
    """Record calls of all edge operators that OpInfo samples reach, by operator and set of arguments."""
    calls: dict[OpOverload, dict[str, Call]] = {}
    recorder = Recorder(set(edge_operators()), calls)
    for info in op_db:
        for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
            if dtype not in info.dtypes:
                continue
            try:
                for sample in itertools.islice(info.sample_inputs("cpu", dtype), 12):
                    with torch.no_grad(), recorder:
                        info.op(sample.input, *sample.args, **sample.kwargs)
            except Exception:
                continue  # this build of torch cannot run the sample
    return calls


def variants(target: OpOverload, call: Call) -> Iterator[Call]:
    """Yield the call with every combination of dtypes of tensors, types of numbers, and dtype arguments."""
    args, kwargs = call
    slots = slots_of(target, args, kwargs)
    letters = [letter for letter, dtype in LETTER_DTYPES.items() if target in COMPLEX or not dtype.is_complex]
    choices = [choice(slot, letters) for slot in slots]
    names = [spec.name for spec in target._schema.arguments]
    positions = [index for index, spec in enumerate(target._schema.arguments) if is_slot(spec)]
    used = [index for index, options in enumerate(choices) if options]
    if len(used) > MAX_SLOTS:  # too many combinations: give all slots but the first the same dtype
        combinations = [(first, *[rest] * (len(used) - 1)) for first in choices[used[0]] for rest in letters]
    else:
        combinations = list(itertools.product(*(choices[index] for index in used)))
    for combination in combinations:
        new_args, new_kwargs = list(args), dict(kwargs)
        for index, letter in zip(used, combination, strict=True):
            position = positions[index]
            value = slots[index] if is_number(slots[index]) and letter not in SCALARS else convert(slots[index], letter)
            if position < len(new_args):
                new_args[position] = value
            else:
                new_kwargs[names[position]] = value
        yield tuple(new_args), new_kwargs


def choice(slot: Any, letters: list[str]) -> list[str]:
    """Return the letters of the dtypes, or pairs of dtypes, to try for an argument."""
    if slot is None:
        return []
    if is_tensor(slot) or isinstance(slot, torch.dtype):
        return letters
    if isinstance(slot, (list, tuple)):
        return (
            letters + ["".join(pair) for pair in itertools.combinations(sorted(letters), 2)]
            if len(slot) > 1
            else letters
        )
    return list(SCALARS)


def convert(slot: Any, letters: str) -> Any:
    """Convert an argument to the dtype, or to the type of number, that the letters name."""
    if is_tensor(slot):
        return slot.to(LETTER_DTYPES[letters])
    if isinstance(slot, torch.dtype):
        return LETTER_DTYPES[letters]
    if isinstance(slot, (list, tuple)):
        dtypes = [LETTER_DTYPES[letters[min(index, len(letters) - 1)]] for index in range(len(slot))]
        return [None if item is None else item.to(dtype) for item, dtype in zip(slot, dtypes, strict=True)]
    return SCALARS[letters]


def result_letters(result: Any) -> str | None:
    """Return the letters of the results' dtypes, one for a list; None if a dtype is not in the dialect."""
    if is_tensor(result):
        return DTYPE_LETTERS.get(result.dtype)
    if isinstance(result, list):
        return result_letters(result[0]) if result else None
    if isinstance(result, tuple):
        letters = [result_letters(item) for item in result]
        return None if None in letters else "".join(letters)
    return ""


def allowed(target: OpOverload, call: Call) -> tuple[str | None, bool]:
    """Try a call on meta tensors and on the CPU.

    Returns:
        The letters of the result dtypes, None if the call fails; and True if the CPU has no kernel for the call, so
        that only the call on meta tensors has succeeded.
    """
    try:
        arguments = torch.utils._pytree.tree_map(lambda v: v.to("meta") if is_tensor(v) else v, call[0])
        meta = target(*arguments, **torch.utils._pytree.tree_map(to_meta, call[1]))
        letters = result_letters(meta)
    except Exception as error:
        if "meta" not in str(error).lower() and "Tensor.item" not in str(error):
            return None, False
        letters = "?"  # meta tensors do not support sizes that depend on data: only the CPU call decides
    if letters is None:
        return None, False
    for change in (lambda v: v, torch.ones_like, torch.zeros_like):
        try:
            args, kwargs = torch.utils._pytree.tree_map(lambda v, f=change: f(v) if is_tensor(v) else v, call)
            return result_letters(target(*args, **kwargs)), False
        except Exception as error:
            missing = any(text in str(error) for text in NO_KERNEL)
    return letters if missing and letters != "?" else None, True


def to_meta(value: Any) -> Any:
    """Move a tensor to the meta device, replace a device by the meta device, and return any other value unchanged."""
    if isinstance(value, torch.device):
        return torch.device("meta")
    return value.to("meta") if is_tensor(value) else value


def rule(target: OpOverload, calls: dict[str, Call]) -> str:
    """Find all allowed combinations of dtypes, and write them grouped by results: `results:key,key;...`."""
    known: dict[str, str] = {}
    unsure: dict[str, str] = {}
    for call in calls.values():
        for variant in variants(target, call):
            result, by_meta_only = allowed(target, variant)
            if result is not None:
                (unsure if by_meta_only else known)[key_of(target, *variant)] = result
    known |= {key: result for key, result in unsure.items() if key.translate(COMMON) in known}
    by_result: dict[str, set[str]] = {}
    for key, result in known.items():
        by_result.setdefault(result, set()).add(key)
    return ";".join(f"{result}:{','.join(sorted(keys))}" for result, keys in sorted(by_result.items()))


def main() -> None:
    """Write the table, and print the operators without a rule."""
    warnings.filterwarnings("ignore")
    calls = record()
    rules: list[str] = []
    operators: dict[str, list[Any]] = {}
    for target in sorted(calls, key=str):
        text = rule(target, calls[target])
        if text not in rules:
            rules.append(text)
        shapes = sorted(calls[target])
        operators[str(target)] = [rules.index(text), *shapes]
    PATH.write_text(
        json.dumps({"torch": torch.__version__.partition("+")[0], "rules": rules, "operators": operators}, indent=0)
    )
    missing = sorted(str(target) for target in edge_operators() if str(target) not in operators)
    print(f"{len(operators)} operators, {len(rules)} rules, {PATH.stat().st_size} bytes; without a rule: {missing}")


if __name__ == "__main__":
    sys.exit(main())
