"""The Python surface of backend packages: `edgecore.sdk`, and the rule that packages import nothing else of the core."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import edgecore.sdk

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = {"edgecore", "edgecore.executorch.export.export", "edgecore.executorch.export.recipes", "edgecore.conformance", "edgecore.errors",
          "edgecore.plugin", "edgecore.sdk", "edgecore.sdk.annotations", "edgecore.sdk.commands", "edgecore.sdk.flat",
          "edgecore.sdk.torch_compat"}  # fmt: skip

# Other files of the plugins' tests read and damage files, which is what `edgecore.format` is for.
SOURCES = ["plugins/*/src", "examples", "src/edgecore/cli/templates/new_backend"]


def source_files() -> list[Path]:
    folders = [folder for pattern in SOURCES for folder in ROOT.glob(pattern)]
    assert len(folders) >= 4
    found = {path for folder in folders for suffix in ("*.py", "*.py.in") for path in folder.rglob(suffix)}
    return sorted(path for path in found if "build" not in path.relative_to(ROOT).parts)


def parsed(path: Path) -> ast.Module:
    """The file, or the template with any name filled in."""
    return ast.parse(re.sub(r"@\w+@", "acme", path.read_text(encoding="utf-8")))


def imported_modules(tree: ast.AST) -> list[str]:
    """The modules that a file imports; an imported name of `edgecore` or one of its packages may be a module."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names if is_module(node.module, alias.name)]
    return names


def is_module(package: str, name: str) -> bool:
    folder = ROOT / "src" / package.replace(".", "/")
    return (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()


def test_packages_of_backends_import_only_the_public_modules():
    files = source_files()
    assert len(files) > 40
    wrong = []
    for path in files:
        modules = imported_modules(parsed(path))
        foreign = {name for name in modules if name.split(".")[0] == "edgecore"} - PUBLIC
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in sorted(foreign)]
    assert not wrong, "these must come from edgecore.sdk: " + "; ".join(wrong)


def test_packages_of_backends_import_names_that_the_sdk_lists():
    wrong = []
    for path in source_files():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.module == "edgecore.sdk":
                names = {alias.name for alias in node.names} - {*edgecore.sdk.__all__, "flat"}
                wrong += [f"{path.relative_to(ROOT)}: {name}" for name in sorted(names)]
    assert not wrong, "; ".join(wrong)


def test_partitioners_of_backends_partition_with_the_kit_and_only_once():
    wrong = []
    for path in source_files():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef) and node.name == "partition":
                attributes = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
                calls = [func for func in attributes if isinstance(func, ast.Attribute) and func.attr == "partition"]
                wrong += [f"{path.relative_to(ROOT)}:{node.lineno}"] if len(calls) != 1 else []
    assert not wrong, "state what the backend supports as arguments of `CapabilityPartitioner`: " + ", ".join(wrong)


def test_packages_of_backends_do_not_need_what_they_have_for_scripts_of_executorch():
    wrong = []
    for path in source_files():
        if "executorch" not in (path.stem, path.parent.name):
            modules = imported_modules(parsed(path))
            wrong += [f"{path.relative_to(ROOT)}: {name}" for name in modules if name.split(".")[1:2] == ["executorch"]]
    assert not wrong, "native code must not import a module `executorch`: " + "; ".join(wrong)


@pytest.mark.parametrize(
    "statement",
    [
        "from edgecore.ir.graph import edit",
        "import edgecore.passes",
        "from edgecore.plugin import registry",
        "def f():\n    from edgecore import ir",
    ],
)
def test_an_import_of_a_private_module_is_noticed(statement):
    assert set(imported_modules(ast.parse(statement))) - PUBLIC


def test_importing_the_sdk_imports_no_torch():
    code = "import sys, edgecore.sdk; print([name for name in ('torch', 'numpy', 'pydantic') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("name", edgecore.sdk.__all__)
def test_every_name_of_the_sdk_exists_and_is_documented(name):
    value = getattr(edgecore.sdk, name)
    assert f"`{name}`" in edgecore.sdk.__doc__ or f"`{name}`s" in edgecore.sdk.__doc__
    if callable(value) and not hasattr(value, "__origin__"):
        assert inspect.getdoc(value)


def test_type_checkers_see_the_names_that_exist_when_running():
    (block,) = [
        node
        for node in ast.parse(Path(edgecore.sdk.__file__).read_text(encoding="utf-8")).body
        if isinstance(node, ast.If)
    ]
    declared = {
        alias.asname or alias.name: f"{node.module}:{alias.name}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert declared.keys() == set(edgecore.sdk.__all__)
    for name, home in declared.items():
        module, _, attribute = home.partition(":")
        assert getattr(edgecore.sdk, name) is getattr(sys.modules[module], attribute)


def test_an_unknown_name_of_the_sdk_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'edgecore.sdk' has no attribute 'nothing'"):
        edgecore.sdk.nothing


def test_no_module_of_a_backend_imports_its_names_for_scripts_of_executorch():
    wrong, packages = [], 0
    for module in ROOT.glob("plugins/*/src/*/executorch.py"):
        packages += 1
        name = f"{module.parent.name}.executorch"
        others = (path for path in module.parent.rglob("*.py") if path != module)
        wrong += [str(path.relative_to(ROOT)) for path in others if name in imported_modules(parsed(path))]
    assert packages > 2
    assert not wrong, "imports go from the module executorch to the others: " + ", ".join(wrong)
