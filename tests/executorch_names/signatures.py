"""The arguments of the compatibility layer, as `inspect` finds them, and the calls of tests, as their sources have them."""

from __future__ import annotations

import ast
import enum
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

from edgecore.executorch.names import MODULES

TESTS = Path(__file__).parents[1]
TABLES_OF_FILES = "executorch.exir.schema"
"""The module with the tables of the file format: their fields are what the format has."""


@cache
def arguments() -> dict[str, list[str]]:
    """Callable of the layer, such as "compat.export:ExportRecipe.combine" -> its arguments, in order."""
    found: dict[str, list[str]] = {}
    for module, names in MODULES.items():
        if module == TABLES_OF_FILES:
            continue
        for target in names.values():
            source, _, attribute = target.partition(":")
            if source.partition(".")[0] == "edgecore":
                for function in _callables(getattr(import_module(source), attribute)):
                    found[_key(function)] = _arguments(function)
    return {key: names for key, names in sorted(found.items()) if names}


def _callables(value: Any) -> Iterator[Any]:
    """Yield a function; or a class, and the methods that edgecore's classes define in it."""
    if isinstance(value, FunctionType):
        yield value
        return
    kind = value if inspect.isclass(value) else type(value)
    if issubclass(kind, (enum.Enum, BaseException)):
        return
    yield kind
    for name in dir(kind):
        method = inspect.unwrap(inspect.getattr_static(kind, name))
        method = getattr(method, "__func__", method)
        is_public = name == "__call__" or not name.startswith("_")
        is_method = isinstance(method, FunctionType) and "." in method.__qualname__
        if is_public and is_method and method.__module__.startswith("edgecore"):
            yield method


def _key(function: Any) -> str:
    return f"{function.__module__.removeprefix('edgecore.')}:{function.__qualname__}"


def _arguments(function: Any) -> list[str]:
    if inspect.isclass(function) and not function.__module__.startswith("edgecore"):
        return []
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return []
    kept = [one.name for one in parameters if one.kind is not inspect.Parameter.VAR_POSITIONAL]
    return [name for name in kept if name not in ("self", "cls")]


@dataclass(frozen=True)
class Calls:
    """What a file of tests passes and overrides.

    Attributes:
        names: Keywords of calls, keys and texts: the names by which arguments are given.
        positions: Name of a callable -> number of positional arguments that a call of it has at most.
        methods: Names of the methods and functions that the file defines.
    """

    names: frozenset[str]
    positions: dict[str, int]
    methods: frozenset[str]


@cache
def calls_of(file: str) -> Calls:
    """Read the calls of a file below `tests`."""
    names: set[str] = set()
    positions: dict[str, int] = {}
    methods: set[str] = set()
    for node in ast.walk(ast.parse((TESTS / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            methods.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            names |= {keyword.arg for keyword in node.keywords if keyword.arg}
            positions[name] = max(positions.get(name, 0), len(node.args))
    return Calls(frozenset(names), positions, frozenset(methods))


def passes(file: str, function: str, argument: str) -> bool:
    """Return True if a file gives an argument by its name, or has a call of `function` with enough arguments."""
    calls, name = calls_of(file), function.rpartition(":")[2].rpartition(".")[2]
    return argument in calls.names or calls.positions.get(name, 0) > arguments()[function].index(argument)
