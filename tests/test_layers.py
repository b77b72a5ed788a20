"""The order of the packages of `src/edgecore`: each imports only those before it. `ARCHITECTURE.md` draws it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src" / "edgecore"

ORDER = [
    # These import no torch.
    *("errors", "stability", "backend", "recipe", "native_program", "html", "format", "plugin", "runtime"),
    *(
        "ir",
        "passes",
        "partition",
        "memory",
        "emit",
        "quantize",
        "pipeline",
        "devtools",
        "sdk",
        "conformance",
        "compat",
        "cli",  # uses the packages after it by `edgecore.NAME` only
        "sweeps",
    ),
]
ANYWHERE = {"edgecore", "_runtime"}
"""The package itself, whose names are lazy, and the native module."""
OUTSIDE = {"__init__.py", "__main__.py", "freezing"}
"""The front door, and a hook that PyInstaller runs."""


def unit(module: str) -> str:
    """`ir` of `edgecore.ir.graph`."""
    return module.split(".")[1] if "." in module else "edgecore"


def imports(tree: ast.AST) -> list[str]:
    """Modules of edgecore that a file imports, at its top or in its functions, but for those that only types need."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"edgecore.{alias.name}" for alias in node.names]
            found += [name for name in names if unit(name) in ORDER] if node.module == "edgecore" else [node.module]
        found += imports(node)
    return [name for name in found if name and name.split(".")[0] == "edgecore"]


def upward(source: str, text: str) -> list[str]:
    """The imports of a file in package `source` that go against the order."""
    allowed = {*ORDER[: ORDER.index(source) + 1], *ANYWHERE}
    return [name for name in imports(ast.parse(text)) if unit(name) not in allowed]


def test_packages_import_only_those_before_them():
    wrong, files = [], 0
    for path in ROOT.rglob("*.py"):
        relative = path.relative_to(ROOT)
        if relative.parts[0] in OUTSIDE:
            continue
        files += 1
        source = relative.parts[0].removesuffix(".py")
        wrong += [f"{relative} imports {name}" for name in upward(source, path.read_text(encoding="utf-8"))]
    assert files > 100
    assert not wrong, "; ".join(sorted(wrong))


@pytest.mark.parametrize(
    "text",
    ["from edgecore.memory.specs import Bounds", "import edgecore.emit", "def f():\n    from edgecore import pipeline"],
)
def test_an_import_against_the_order_is_noticed(text):
    assert upward("partition", text)


def test_imports_for_types_go_either_way():
    assert not upward("plugin", "if TYPE_CHECKING:\n    from edgecore.partition import Partitioner")
