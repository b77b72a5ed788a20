"""`help()` of the runtime's classes says what each member takes, returns and raises."""

from __future__ import annotations

import ast
import inspect
import pydoc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgecore import _runtime, runtime

STUB = Path(__file__).resolve().parents[2] / "src" / "edgecore" / "_runtime.pyi"
CLASSES = (_runtime.Tensor, _runtime.DimInfo, _runtime.TensorInfo, _runtime.Run, _runtime.Method, _runtime.Program)


def words(text: str | None) -> str:
    return " ".join((text or "").split())


def stub_members() -> Iterator[tuple[str, Any]]:
    """Dotted name in `_runtime` and definition of each class, method, property and function of the stub."""
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, node
            yield from ((f"{node.name}.{member.name}", member) for member in node.body if hasattr(member, "name"))
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node


def native(name: str) -> Any:
    value: Any = _runtime
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_every_public_member_of_the_native_module_has_a_docstring() -> None:
    lacking = [
        f"{cls.__name__}.{name}"
        for cls in CLASSES
        for name, value in vars(cls).items()
        if not name.startswith("_") and not inspect.getdoc(value)
    ]
    lacking += [cls.__name__ for cls in CLASSES if not cls.__doc__]
    lacking += [name for name in ("open_program", "kernels") if not getattr(_runtime, name).__doc__]
    assert lacking == []


def test_the_stub_has_every_public_member_of_the_native_module() -> None:
    declared = {name for name, _ in stub_members()}
    actual = {f"{cls.__name__}.{name}" for cls in CLASSES for name in vars(cls) if not name.startswith("_")}
    assert actual | {cls.__name__ for cls in CLASSES} <= declared


@pytest.mark.parametrize("name", [name for name, node in stub_members() if ast.get_docstring(node)])
def test_the_stub_and_the_native_module_have_the_same_docstrings(name: str) -> None:
    expected = words(ast.get_docstring(dict(stub_members())[name]))
    actual = words(native(name).__doc__)
    assert actual.endswith(expected)  # nanobind puts the signature of a function before its docstring


@pytest.mark.parametrize("owner", [runtime.Program, _runtime.Run, _runtime.Method, _runtime.Program, _runtime.Tensor])
def test_docstrings_of_methods_name_their_arguments_and_results(owner: type) -> None:
    for name, value in vars(owner).items():
        if name.startswith("_") or not callable(value):
            continue
        text = value.__doc__ or ""
        definition = text.partition("\n\n")[0] if owner.__module__ == "edgecore._runtime" else ""
        takes = "," in definition.partition("->")[0] or len(getattr(value, "__annotations__", {})) > 1
        returns = "-> None" not in definition and getattr(value, "__annotations__", {}).get("return") != "None"
        assert not takes or "Args:" in text, name
        assert not returns or "Returns:" in text, name


def test_help_of_a_loaded_method_shows_how_to_call_it() -> None:
    text = pydoc.plain(pydoc.render_doc(_runtime.Method))
    for part in ("Args:", "Returns:", "Raises:", "ExecutionError", "named_inputs", "planned_bytes"):
        assert part in text
