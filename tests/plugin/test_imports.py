from __future__ import annotations

import subprocess
import sys

# These take longer to import than a small file takes to load.
HEAVY = (
    *("torch", "numpy", "pydantic", "typer", "rich", "jinja2", "pluggy", "tomllib", "tomli"),
    *("importlib.metadata", "dataclasses", "typing", "pathlib", "inspect", "re", "enum", "contextlib", "collections"),
)
LIGHT = """
    from edgecore.plugin import BackendInfo, hookimpl

    @hookimpl
    def edgecore_backends():
        return [BackendInfo(name={name!r}, backend_id={backend_id!r}, summary="a fake", compiler="nowhere:Nothing")]
"""


def test_finding_a_backend_imports_nothing_heavy(add_package):
    """The path that loading a file takes."""
    add_package("edgecore-fake", "FakeBackend", LIGHT)
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
import edgecore, edgecore.runtime
from edgecore.plugin import registry
registry.find("FakeBackend")
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    result = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.strip()) == (0, "[]"), result.stderr


def test_paths_for_a_plugin_build_or_a_sentence():
    for option, suffix in (("--include-dir", "native/include"), ("--cmake-dir", "cmake")):
        result = subprocess.run(
            [sys.executable, "-m", "edgecore.plugin", option], capture_output=True, text=True, check=False
        )
        if result.returncode == 0:
            assert result.stdout.strip().endswith(f"edgecore/{suffix}")
        else:
            assert "install its wheel" in result.stderr
    assert subprocess.run([sys.executable, "-m", "edgecore.plugin"], capture_output=True, check=False).returncode == 2
