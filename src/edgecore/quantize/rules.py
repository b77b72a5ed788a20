"""Apply the rules of recipes: decide once, on the exported program, which recipe may quantize each operator call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase

from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.ir.graph import all_calls, operator_name
from edgecore.ir.program.copying import copy_program
from edgecore.quantize.plan import MARK, Plan
from edgecore.recipe import Rule

_LISTED = 12
"""Largest number of names that an error message lists."""


def mark(program: ExportedProgram, plan: Plan) -> tuple[ExportedProgram, dict[str, str]]:
    """Mark each operator call with the recipes that may quantize it: see `edgecore.quantize.plan.MARK`.

    Args:
        program: The exported program; it is not changed.
        plan: The recipes and rules of each backend.

    Returns:
        A copy of the program with marks, and a map from each call that stays in floating point to the rule that keeps
        the call there.
    """
    program = copy_program(program)
    excluded: dict[str, str] = {}
    for node in all_calls(program.graph_module):
        marks: list[int] = []
        for backend in plan:
            rule, recipe = next((pair for pair in backend.rules if matches(pair[0], node)), (None, backend.recipes[0]))
            if recipe is not None:
                marks.append(recipe.number)
            else:
                excluded[node.name] = f"rule {rule}"
        if marks:
            excluded.pop(node.name, None)
        node.meta["custom"] = {**(node.meta.get("custom") or {}), MARK: tuple(marks)}
    return program, excluded


def check_rules(plan: Plan, programs: Mapping[str, ExportedProgram]) -> None:
    """Raise `CompileError` if a rule matches no operator call of any of the exported programs (one per method)."""
    rules = [(rule, backend.recipes[0].name) for backend in plan for rule, _ in backend.rules]
    if not rules:
        return
    nodes = [node for program in programs.values() for node in all_calls(program.graph_module)]
    for rule, recipe in rules:
        if not any(matches(rule, node) for node in nodes):
            raise CompileError(f"the rule {rule} of recipe {recipe!r} matches nothing: {_advice(rule, nodes)}")


def matches(rule: Rule, node: Node) -> bool:
    """Return True if a rule of a recipe applies to an operator call."""
    return (
        (not rule.module or _any_matches(_module_names(node), rule.module))
        and (not rule.type or _any_matches(_module_types(node), rule.type))
        and (not rule.operator or _any_matches(_operator_names(node), rule.operator))
    )


def _any_matches(names: Iterable[str], pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


def _module_names(node: Node) -> Iterator[str]:
    """Yield the qualified names of the modules that contain a node, including containers such as `ModuleList`.

    Strips what torch.export adds: a prefix, and `@1` if a module is called for the second time.
    """
    for name, _ in (node.meta.get("nn_module_stack") or {}).values():
        parts = re.sub(r"@\d+", "", str(name).removeprefix("L['self'].").removeprefix("L__self___")).split(".")
        yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _module_types(node: Node) -> Iterator[str]:
    """Yield type names of the modules around a node: `torch.nn.modules.linear.Linear`, `torch.nn.Linear`, `Linear`."""
    for _, kind in (node.meta.get("nn_module_stack") or {}).values():
        name = f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else str(kind)
        yield from (name, re.sub(r"^torch\.nn\.modules\.\w+\.", "torch.nn.", name), name.rpartition(".")[2])


def _operator_names(node: Node) -> Iterator[str]:
    """Yield the names that a rule may match: `aten.add_.Tensor`, `aten.add_`, `add_`, and each without its last `_`."""
    name = operator_name(node.target)
    packet = name.rpartition(".")[0] or name
    for text in (name, packet, packet.rpartition(".")[2]):
        yield from (text, re.sub(r"_(?=\.|$)", "", text))


def _advice(rule: Rule, nodes: list[Node]) -> str:
    """Suggest existing names for a rule that matches nothing."""
    kinds = {
        "modules": (rule.module, _module_names),
        "types of modules": (rule.type, _module_types),
        "operators": (rule.operator, _operator_names),
    }
    for kind, (pattern, names_of) in kinds.items():
        if not pattern:
            continue
        names = list(dict.fromkeys(name for node in nodes for name in names_of(node) if name))
        if not _any_matches(names, pattern):
            close = get_close_matches(pattern, names, n=5, cutoff=0.6)
            listed = close or sorted(names, key=lambda name: (len(name), name))[:_LISTED]
            text = ", ".join(listed) + (", ..." if not close and len(names) > _LISTED else "")
            return f"the {kind} {'with similar names ' if close else ''}are {text or 'unknown'}"
    return "no operator call matches all of its conditions"
