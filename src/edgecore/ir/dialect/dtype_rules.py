"""Dtype rules: the dtypes that each operator accepts, and the dtypes of its results.

tools/make_dtype_rules.py makes `dtype_rules.json` by calling torch's operators with all combinations of dtypes. The
rules of its 194 operators accept 8,234 combinations. The notation below, and storing each of the 65 different rules
only once, keep the file at 25 KB; a plain JSON object of keys and results for each operator would take 99 KB.

Slot: an argument of the schema that affects dtypes: a tensor, a list of tensors, a number or a dtype (`is_slot`).
Key: the dtypes in the slots of a call. A tensor or a dtype is a letter (column `letter` in `edgecore.format.dtypes`), a
    list of tensors the sorted letters of its dtypes in parentheses, a number I (int), F (float) or B (bool), an
    argument that is None or absent `-`. Example: `add.Tensor(float32, int64)` has the key `fl`, `cat([int8, float32])`
    has `(cf)`.
Rule: `results:key,key;results:key,key`, where `results` are the letters of the results. `f:ff,fl;l:ll` means that
    float32 with float32 or int64 gives float32, and int64 with int64 gives int64. Other keys are not accepted.
Pattern: the slots for which a call has arguments (`x`) or not (`-`).

The JSON object `operators` maps the name of an operator to [index of its rule in `rules`, pattern, pattern, ...]. The
tool tried only these patterns; calls with other patterns are accepted without a check. In calls with more than
`MAX_SLOTS` arguments in slots, the tool gave all arguments but the first the same dtype, because four slots with 12
dtypes each, without complex ones, already have 20,736 combinations.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import torch

from edgecore.ir.dialect.dtypes import DTYPE_LETTERS, dtype_name
from edgecore.ir.torch_compat import OpOverload, schema_of

MAX_SLOTS = 3
"""Largest number of arguments for which tools/make_dtype_rules.py tried all combinations of dtypes."""

_NAMES = {letter: dtype_name(dtype) for dtype, letter in DTYPE_LETTERS.items()}
_ITEM = re.compile(r"\([^)]*\)|.")
"""Matches the letter, or letters in parentheses, of one slot in a key."""
_KINDS = {"I": "int", "F": "float", "B": "bool", "-": "none"}


@cache
def _slots(target: OpOverload) -> tuple[tuple[int, str, Any], ...]:
    """List (position, name, default) of the operator's slots, which are the arguments that affect dtypes."""
    return tuple(
        (index, spec.name, spec.default_value if spec.has_default_value() else None)
        for index, spec in enumerate(schema_of(target).arguments)
        if is_slot(spec)
    )


def is_slot(spec: Any) -> bool:
    """Return True if a schema argument affects dtypes. Numbers with a default, such as `alpha`, do not."""
    kind = str(spec.real_type)
    if "number" in kind and spec.has_default_value() and spec.default_value is not None:
        return False
    return any(word in kind for word in ("Tensor", "number", "Scalar"))


def slots_of(target: OpOverload, args: Any, kwargs: Any) -> list[Any]:
    """List the values of a call's slots (the arguments that affect dtypes), with defaults for missing arguments."""
    return [args[index] if index < len(args) else kwargs.get(name, default) for index, name, default in _slots(target)]


def key_of(target: OpOverload, args: Any, kwargs: Any) -> str:
    """Return the dtypes of a call's arguments as letters, the key in `dtype_rules.json`; `?` for other dtypes."""
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
    """Return the dtype rule of an operator (key -> letters of the results) and its patterns; None if it has no rule.

    A key has the letters of the arguments' dtypes. The docstring of this module explains keys and patterns.
    """
    entry = _table()["operators"].get(str(target))
    if entry is None:
        return None
    index, *patterns = entry
    results: dict[str, str] = {}
    for group in _table()["rules"][index].split(";"):
        letters, _, keys = group.partition(":")
        results.update(dict.fromkeys(keys.split(","), letters))
    return results, frozenset(patterns)


def allowed_types(operator: OpOverload) -> dict[str, frozenset[torch.dtype]]:
    """Return the dtypes that an edge operator accepts for its tensors and its argument `dtype`, and its result dtypes.

    Only some combinations of these dtypes are allowed; the verifier checks them.

    Args:
        operator: The operator, such as `torch.ops.aten.sigmoid.default`.

    Returns:
        Name of the argument -> dtypes; `return` -> dtypes of the results. Empty if the edge dialect has no rule for the
        operator.

    Example:
        >>> allowed_types(torch.ops.aten.sigmoid.default)["return"]
        frozenset({torch.float32, torch.float64, ...})
    """
    rule = _rule(operator)
    if rule is None:
        return {}
    names = [name for _, name, _ in _slots(operator)]
    letters: dict[str, set[str]] = {}
    for key, results in rule[0].items():
        for name, item in zip(names, _ITEM.findall(key), strict=False):
            letters.setdefault(name, set()).update(item)
        letters.setdefault("return", set()).update(results)
    dtypes = {letter: dtype for dtype, letter in DTYPE_LETTERS.items()}
    allowed = {
        name: frozenset(dtypes[letter] for letter in of_name if letter in dtypes) for name, of_name in letters.items()
    }
    return {name: of_name for name, of_name in allowed.items() if of_name}


def dtype_finding(target: OpOverload, args: Any, kwargs: Any, result: Any) -> str | None:
    """Describe how a call breaks the dtype rule of its operator.

    Args:
        target: The operator.
        args: Its positional arguments, real or fake tensors in place of nodes.
        kwargs: Its keyword arguments.
        result: The result of the call, or its `val`.

    Returns:
        The rest of a sentence about the call, such as `does not accept float32 with int64`. None if the call follows
        the rule, or if there is no rule for it.
    """
    rule = _rule(target)
    if rule is None:
        return None
    results, patterns = rule
    key = key_of(target, args, kwargs)
    expected = results.get(key)
    if expected is None:
        slots = slots_of(target, args, kwargs)
        return None if _untried(slots, key, patterns) else f"does not accept {_spell(slots)}"
    if not isinstance(result, (list, tuple)):
        actual = _item(result) if isinstance(result, torch.Tensor) else expected
    else:
        actual = "".join(_item(item) for item in result if isinstance(item, torch.Tensor))
        # A rule has one letter for a list of results, because all tensors of the list have the same dtype.
        expected = expected * len(actual) if isinstance(result, list) else expected
    if actual != expected:
        expected_names, actual_names = (", ".join(_NAMES.get(x, x) for x in letters) for letters in (expected, actual))
        return f"gives {expected_names} for these inputs, not {actual_names}"
    return None


def _untried(slots: list[Any], key: str, patterns: frozenset[str]) -> bool:
    """Return True if tools/make_dtype_rules.py tried no call whose arguments have the kinds and dtypes of `slots`."""
    if "?" in key or "".join("-" if value is None else "x" for value in slots) not in patterns:
        return True
    lists = [_item(value) for value in slots if isinstance(value, (list, tuple))]
    if any(len(item) not in (3, 4) or "b" in item for item in lists):
        return True  # untried: the tool tried only lists of one or two dtypes, and no boolean masks whose shapes fit
    if not lists and not any(isinstance(value, torch.Tensor) for value in slots):
        return True  # untried: without a tensor argument, torch may have rejected a number's value instead of its type
    items = [_item(value) for value in slots if value is not None]
    return len(items) > MAX_SLOTS and len(set(items[1:])) > 1


def _spell(slots: list[Any]) -> str:
    """Format the dtypes of a call's arguments for a message: `float32 with int64`."""
    words = [_item(value).strip("()") for value in slots if value is not None]
    return " with ".join("/".join(_NAMES.get(x) or _KINDS.get(x, x) for x in word) for word in words)
