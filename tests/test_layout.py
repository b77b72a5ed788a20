"""The layout of the tests themselves: each file lies beside the module that it tests, and each name stands alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PLUGINS = [
    "coreml",
    "ethosu",
    "llm",
    "openvino",
    "qnn",
    "tosa",
    "vgf",
    "vulkan",
    "xnnpack",
]
"""The plugins of one shape: small folders, tests that mirror them, a short README."""

SOURCES = {
    "tests": "src/edgecore",
    "tests/executorch_names": "src/edgecore/executorch",  # pytest puts `tests` on the path, where `executorch` is a package
    **{f"plugins/edgecore-{name}/tests": f"plugins/edgecore-{name}/src/edgecore_{name}" for name in PLUGINS},
}
"""A folder of tests, and the package that its subfolders mirror."""

MOST_FILES = 12
FOLDERS_OF_EQUALS = {
    "edgecore/cli/commands",
    "edgecore/conformance/checks",
    "edgecore/html/assets",
    "edgecore/passes/library",
    "edgecore_tosa/operators",
    "edgecore_xnnpack/operators",
}
"""Folders with a file for each command, group of checks, view, pass or operator table, and with nothing else."""

MOST_LINES_OF_A_README = 150

SEVERAL_UNITS = {
    *(
        "passes/test_all_passes.py",
        "plugin/test_installations.py",
        "conformance/test_faults.py",
        "devtools/test_compare_faults.py",
        "format/test_interop.py",
    ),
    *("cli/test_cli.py", "cli/test_edgecore_run.py", "plugin/test_main.py", "sdk/test_sdk.py"),
}
"""Files that test a package as a whole, or a program beside it; `runtime` is native, so its tests have names of their own."""


def files() -> list[Path]:
    return sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("test_*.py"))


def names_of(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


@pytest.mark.parametrize("folder", SOURCES)
def test_a_test_file_in_a_folder_of_a_package_is_named_after_one_of_its_modules(folder):
    package, wrong = ROOT / SOURCES[folder], []
    for path in sorted((ROOT / folder).rglob("test_*.py")):
        name = path.relative_to(ROOT / folder)
        if len(name.parts) == 1 or name.parts[0] == "runtime" or name.as_posix() in SEVERAL_UNITS:
            continue
        module = package / name.parent / path.stem.removeprefix("test_")
        if module.parent.is_dir() and not (module.is_dir() or module.with_suffix(".py").is_file()):
            wrong.append(f"{name}: {SOURCES[folder]} has no such module")
    assert not wrong, "; ".join(wrong)


def test_no_test_file_imports_another_one():
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").split(".")[-1].startswith("test_"), path


def test_the_name_of_each_test_has_at_least_three_words():
    short = [f"{path.name}::{name}" for path in files() for name in names_of(path) if name.count("_") < 3]
    assert len(files()) > 150
    assert not short, "name what holds, in a full sentence: " + ", ".join(short)


def test_no_folder_of_sources_has_more_than_twelve_files():
    full = []
    for source in (ROOT / "src", *(ROOT / "plugins" / f"edgecore-{name}" / "src" for name in PLUGINS)):
        for folder in {path.parent for path in source.rglob("*.*") if "__pycache__" not in path.parts}:
            count = sum(path.is_file() for path in folder.iterdir())
            if count > MOST_FILES and folder.relative_to(source).as_posix() not in FOLDERS_OF_EQUALS:
                full.append(f"{folder.relative_to(ROOT)}: {count}")
    assert not full, "find the seam: " + ", ".join(full)


@pytest.mark.parametrize("name", PLUGINS)
def test_the_readme_of_a_plugin_is_short(name):
    readme = ROOT / "plugins" / f"edgecore-{name}" / "README.md"
    lines = len(readme.read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES_OF_A_README, f"{readme.relative_to(ROOT)} has {lines} lines; move tables to its docs"
