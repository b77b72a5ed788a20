"""Which dtypes each operator takes and returns: `dtype_rules.json`, made by tools/make_dtype_rules.py from torch itself.

A call has a key: one item for each argument of the schema that bears on dtypes (tensors, lists of tensors, numbers,
dtypes), joined. A tensor or dtype is a letter, a list the sorted letters of its dtypes in parentheses, a number its kind
(I, F or B), an argument that is None or absent `-`. The file holds, for each distinct rule, `results:key,key;results:key`,
where results are letters too; and for each operator the number of its rule and the patterns of given arguments (`x`) that
were tried: calls with others are not judged. With more than `MAX_SLOTS` items, all but the first had one dtype in the trial.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload

from edgecore.ir.dtypes import DTYPE_LETTERS, dtype_name

MAX_SLOTS = 3

_NAMES = {letter: dtype_name(dtype) for dtype, letter in DTYPE_LETTERS.items()}
_KINDS = {"I": "int", "F": "float", "B": "bool", "-": "none"}


@cache
def _slots(target: OpOverload) -> tuple[tuple[int, str, Any], ...]:
    """(position, name, default) of the arguments that bear on dtypes."""
    return tuple(
        (index, spec.name, spec.default_value if spec.has_default_value() else None)
        for index, spec in enumerate(target._schema.arguments)
        if is_slot(spec)
    )


def is_slot(spec: Any) -> bool:
    """Whether a schema argument bears on dtypes; factors with a default, such as `alpha`, do not."""
    kind = str(spec.real_type)
    if "number" in kind and spec.has_default_value() and spec.default_value is not None:
        return False
    return any(word in kind for word in ("Tensor", "number", "Scalar"))


def slots_of(target: OpOverload, args: Any, kwargs: Any) -> list[Any]:
    """The arguments of a call that bear on dtypes, defaults included."""
    return [args[index] if index < len(args) else kwargs.get(name, default) for index, name, default in _slots(target)]


def key_of(target: OpOverload, args: Any, kwargs: Any) -> str:
    """The key of a call of tensors and numbers, as above; `?` in it stands for what has no letter."""
    return "".join([_item(value) for value in slots_of(target, args, kwargs)])


def _item(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, torch.Tensor):
        return DTYPE_LETTERS.get(value.dtype, "?")
    if isinstance(value, torch.dtype):
        return DTYPE_LETTERS.get(value, "?")
    if isinstance(value, (list, tuple)):
        return f"({''.join(sorted({_item(item) for item in value if item is not None}))})"
    if isinstance(value, (bool, torch.SymBool)):
        return "B"
    return "I" if isinstance(value, (int, torch.SymInt)) else "F"


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(Path(__file__).with_name("dtype_rules.json").read_text())
    return table


@cache
def _rule(target: OpOverload) -> tuple[dict[str, str], frozenset[str]] | None:
    """(key -> results, patterns that were tried); None for an operator without a rule."""
    entry = _table()["operators"].get(str(target))
    if entry is None:
        return None
    number, *patterns = entry
    results: dict[str, str] = {}
    for group in _table()["rules"][number].split(";"):
        letters, _, keys = group.partition(":")
        results.update(dict.fromkeys(keys.split(","), letters))
    return results, frozenset(patterns)


def complaint(target: OpOverload, args: Any, kwargs: Any, result: Any) -> str | None:
    """Why a call with these (fake) tensors and this result breaks the operator's rule; None if it does not."""
    rule = _rule(target)
    if rule is None:
        return None
    results, patterns = rule
    key = key_of(target, args, kwargs)
    expected = results.get(key)
    if expected is None:
        slots = slots_of(target, args, kwargs)
        return None if _untried(slots, key, patterns) else f"takes no {_spell(slots)}"
    if not isinstance(result, (list, tuple)):
        given = _item(result) if isinstance(result, torch.Tensor) else expected
    else:
        given = "".join(_item(item) for item in result if isinstance(item, torch.Tensor))
        expected = expected * len(given) if isinstance(result, list) else expected
    if given != expected:
        return f"gives {', '.join(_NAMES.get(x, x) for x in expected)} for these inputs, not {', '.join(_NAMES.get(x, x) for x in given)}"
    return None


def _untried(slots: list[Any], key: str, patterns: frozenset[str]) -> bool:
    if "?" in key or "".join("-" if value is None else "x" for value in slots) not in patterns:
        return True
    lists = [_item(value) for value in slots if isinstance(value, (list, tuple))]
    if any(len(item) not in (3, 4) or "b" in item for item in lists):
        return True  # three dtypes at once, or masks, whose shapes the trial's tensors do not fit
    if not lists and not any(isinstance(value, torch.Tensor) for value in slots):
        return True  # the trial's numbers need not make sense together
    given = [_item(value) for value in slots if value is not None]
    return len(given) > MAX_SLOTS and len(set(given[1:])) > 1


def _spell(slots: list[Any]) -> str:
    words = [_item(value).strip("()") for value in slots if value is not None]
    return " with ".join("/".join(_NAMES.get(x) or _KINDS.get(x, x) for x in word) for word in words)
