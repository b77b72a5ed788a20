"""Writes src/edgecore/ir/dtype_rules.json: which dtypes each operator of the edge dialect takes, and what it returns.

Nothing in the table is typed by hand. Arguments that an operator accepts come from PyTorch's own OpInfo samples, seen by a
dispatch mode; each operator is then called with every combination of dtypes, on meta tensors and on the CPU. A combination
is allowed if the meta call succeeds and the CPU call does too; where the CPU has no kernel for a half-precision or a wider
unsigned type, the call with float32 or int32 in its place must succeed.

    python tools/make_dtype_rules.py        (some minutes; prints the operators without a rule)

Format: see `edgecore.ir.dtype_rules`.
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

from edgecore.ir.dialect import COMPLEX, VIEW_COPIES, edge_operators
from edgecore.ir.dtype_rules import MAX_SLOTS, is_slot, key_of, slots_of
from edgecore.ir.dtypes import DTYPE_LETTERS

PATH = Path(__file__).resolve().parents[1] / "src/edgecore/ir/dtype_rules.json"
LETTER_DTYPES = {letter: dtype for dtype, letter in DTYPE_LETTERS.items()}
SCALARS = {"I": 1, "F": 1.5, "B": True}
NO_KERNEL = tuple(f"for '{name}'" for name in ("Half", "BFloat16", "UInt16", "UInt32"))
"""What the CPU says of types that it computes less with; of the others, a missing kernel is meant."""

COMMON = str.maketrans("hevw", "ffii")

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Recorder(TorchDispatchMode):
    """Keeps one small call of each operator for every set of arguments that are given."""

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
    """Whether a value is a tensor."""
    return isinstance(value, torch.Tensor)


def is_number(value: Any) -> bool:
    """Whether a value is a Python number."""
    return isinstance(value, (bool, int, float))


def detach(value: Any) -> Any:
    """A copy of a tensor; anything else as it is."""
    return value.detach().clone() if is_tensor(value) else value


def record() -> dict[OpOverload, dict[str, Call]]:
    """A call of every reachable edge operator."""
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
                continue  # a sample that this build of torch cannot run teaches nothing
    return calls


def variants(target: OpOverload, call: Call) -> Iterator[Call]:
    """`call` with every combination of dtypes, kinds of numbers and dtype arguments."""
    args, kwargs = call
    slots = slots_of(target, args, kwargs)
    letters = [letter for letter, dtype in LETTER_DTYPES.items() if target in COMPLEX or not dtype.is_complex]
    choices = [choice(slot, letters) for slot in slots]
    names = [spec.name for spec in target._schema.arguments]
    places = [index for index, spec in enumerate(target._schema.arguments) if is_slot(spec)]
    used = [index for index, options in enumerate(choices) if options]
    if len(used) > MAX_SLOTS:  # the first and the others
        combinations = [(first, *[rest] * (len(used) - 1)) for first in choices[used[0]] for rest in letters]
    else:
        combinations = list(itertools.product(*(choices[index] for index in used)))
    for combination in combinations:
        new_args, new_kwargs = list(args), dict(kwargs)
        for index, letter in zip(used, combination, strict=True):
            place = places[index]
            value = slots[index] if is_number(slots[index]) and letter not in SCALARS else convert(slots[index], letter)
            if place < len(new_args):
                new_args[place] = value
            else:
                new_kwargs[names[place]] = value
        yield tuple(new_args), new_kwargs


def choice(slot: Any, letters: list[str]) -> list[str]:
    """The letters that an argument may become."""
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
    """An argument in another dtype or of another kind."""
    if is_tensor(slot):
        return slot.to(LETTER_DTYPES[letters])
    if isinstance(slot, torch.dtype):
        return LETTER_DTYPES[letters]
    if isinstance(slot, (list, tuple)):
        return [None if item is None else item.to(LETTER_DTYPES[letters[min(index, len(letters) - 1)]])
                for index, item in enumerate(slot)]  # fmt: skip
    return SCALARS[letters]


def result_letters(result: Any) -> str | None:
    """The dtypes of the results; None if one is outside the dialect. Lists of tensors share a dtype."""
    if is_tensor(result):
        return DTYPE_LETTERS.get(result.dtype)
    if isinstance(result, list):
        return result_letters(result[0]) if result else None
    if isinstance(result, tuple):
        letters = [result_letters(item) for item in result]
        return None if None in letters else "".join(letters)
    return ""


def allowed(target: OpOverload, call: Call) -> tuple[str | None, bool]:
    """The result dtypes of a call, None if it is refused; and whether only the meta call vouches for it."""
    try:
        meta = target(*torch.utils._pytree.tree_map(lambda v: v.to("meta") if is_tensor(v) else v, call[0]),
                      **torch.utils._pytree.tree_map(to_meta, call[1]))  # fmt: skip
        letters = result_letters(meta)
    except Exception as error:
        if "meta" not in str(error).lower() and "Tensor.item" not in str(error):
            return None, False
        letters = "?"  # results of a size that depends on data: the CPU alone decides
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
    """A tensor or device on the meta device; anything else as it is."""
    if isinstance(value, torch.device):
        return torch.device("meta")
    return value.to("meta") if is_tensor(value) else value


def rule(target: OpOverload, calls: dict[str, Call]) -> str:
    """All allowed combinations as `key>results`, grouped by results: `results:key,key;...`."""
    found: dict[str, str] = {}
    unsure: dict[str, str] = {}
    for call in calls.values():
        for variant in variants(target, call):
            result, by_meta_only = allowed(target, variant)
            if result is not None:
                (unsure if by_meta_only else found)[key_of(target, *variant)] = result
    found |= {key: result for key, result in unsure.items() if key.translate(COMMON) in found}
    by_result: dict[str, set[str]] = {}
    for key, result in found.items():
        by_result.setdefault(result, set()).add(key)
    return ";".join(f"{result}:{','.join(sorted(keys))}" for result, keys in sorted(by_result.items()))


def main() -> None:
    """Write the table."""
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
