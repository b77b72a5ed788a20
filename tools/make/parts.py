"""The parts of `make test-all`: each has a stamp, so that a stopped run continues with the unfinished parts."""

from __future__ import annotations

from collections.abc import Iterator

from steps import ROOT, Step, run

TREE = (
    *("src", "runtime_cpp", "plugins", "tests", "examples", "docs", "benchmarks", "findings", "tools", "cmake"),
    *("Makefile", "CMakeLists.txt", "CMakePresets.json", "plugins.toml", "pyproject.toml", "conftest.py"),
    *("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
)
"""The files and folders on which each part depends: after a change in them, the part runs again."""

TARGETS = (
    *("lint", "ctest", "docs", "test-kernels", "test-emulated", "test-platforms", "test-wheels", "test-ray"),
    *("test-conformance", "fuzz", "sanitize", "vulkan-threads", "fuzz-long", "fuzz-graphs"),
)
"""Targets of the Makefile that are parts, beside the Python tests by folder."""


def part_steps() -> dict[str, Step]:
    """Return a step for each part, and `test-all`, which needs them all."""
    parts = {f"part-{target}": make_step(f"make {target}", target) for target in TARGETS}
    for tests in test_folders():
        name = "part-" + tests.split()[0].removeprefix("plugins/").replace("/", "-")
        parts[name] = make_step(f"tests in {tests}", "test-slow", f"SELECTION=--full {tests}")
    return {**parts, "test-all": Step("everything passed", lambda: None, needs=tuple(parts))}


def test_folders() -> Iterator[str]:
    """Yield arguments of pytest: each folder of tests, and the files beside them."""
    folders = [*ROOT.glob("tests/*/"), *ROOT.glob("plugins/*/tests/")]
    yield from sorted(str(folder.relative_to(ROOT)) for folder in folders if next(folder.rglob("test_*.py"), None))
    yield " ".join(sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/test_*.py")))


def make_step(title: str, *arguments: str) -> Step:
    return Step(f"{title} (part of test-all)", lambda: run("make", *arguments), inputs=TREE)
