"""The order of the packages of `src/edgecore`: each imports only those before it. `ARCHITECTURE.md` draws it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src" / "edgecore"

ORDER = [
    # These import no torch.
    *("errors", "progress", "stability", "backend", "recipe", "native_program", "html", "format", "processes"),
    *("files", "plugin", "runtime"),
    *(
        "ir",
        "passes",
        "partition",
        "memory",
        "emit",
        "numerics",
        "quantize",
        "pipeline",
        "devtools",
        "sdk",
        "conformance",
        "cli",  # uses the packages after it by `edgecore.NAME` only
        "sweeps",
        # ExecuTorch's names: nothing before imports them.
        *("executorch", "compat"),
    ),
]
ANYWHERE = {"edgecore", "_runtime"}
"""The package itself, whose names are lazy, and the native module."""
OUTSIDE = {"__init__.py", "__main__.py", "freezing"}
"""The front door, and a hook that PyInstaller runs."""
RECORDS = ("pipeline/compiled_program.py", "edgecore.executorch.devtools.etrecord.record")
"""The exception: `CompiledProgram.get_etrecord` makes a record for ExecuTorch's tools, and imports its class when called."""
DOORS = {"__init__.py", "devtools/__init__.py", "pipeline/__init__.py", "runtime/__init__.py"}
"""Packages that offer ExecuTorch's names, by strings: the first use of a name imports its module."""
ROOMS = ("comparison", "file_diff", "graph", "memory", "profiling", "remote")
"""Folders of `devtools`."""


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
        names = upward(source, path.read_text(encoding="utf-8"))
        wrong += [f"{relative} imports {name}" for name in names if (relative.as_posix(), name) != RECORDS]
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


def test_only_doors_name_the_modules_for_executorch():
    """Also not as strings, nor for types: then this package could be removed without a change of others."""
    wrong = []
    for path in ROOT.rglob("*.py"):
        relative = path.relative_to(ROOT)
        if relative.parts[0] in {"executorch", "compat"} or relative.as_posix() in {*DOORS, RECORDS[0]}:
            continue
        if "edgecore.executorch" in path.read_text(encoding="utf-8"):
            wrong.append(relative.as_posix())
    assert not wrong, "; ".join(sorted(wrong))


def test_each_room_of_the_developer_tools_is_imported_by_its_door():
    wrong = []
    for path in ROOT.rglob("*.py"):
        relative = path.relative_to(ROOT)
        for name in imports(ast.parse(path.read_text(encoding="utf-8"))):
            parts = name.split(".")
            inside = relative.parts[:2] == ("devtools", parts[2] if len(parts) > 2 else "")
            if parts[1:2] == ["devtools"] and len(parts) > 3 and parts[2] in ROOMS and not inside:
                wrong.append(f"{relative} imports {name}")
    assert not wrong, "; ".join(sorted(wrong))
