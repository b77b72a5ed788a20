"""Installation by pip from a clone, without `make`: in a new environment, nothing else has to be installed before."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

if sys.version_info < (3, 11):
    import tomli as tomllib
else:
    import tomllib

ROOT = Path(__file__).parents[2]
PLUGINS = sorted(path.parents[1] for path in ROOT.glob("plugins/*/native/CMakeLists.txt"))
FIND = "from edgecore.plugin import registry; print(registry.find('XnnpackBackend').name)"


def overrides(folder: Path) -> list[dict[str, object]]:
    entries = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert not [name for name in entries["build-system"]["requires"] if name.startswith("edgecore")], folder
    return entries["tool"]["scikit-build"]["overrides"]


def test_every_plugin_is_built_with_the_headers_of_the_clone_or_else_of_the_installed_package():
    """A package index does not have the edgecore of a clone, so no plugin may require it to be built in the clone."""
    in_a_clone, elsewhere = overrides(PLUGINS[0])
    assert in_a_clone["if"] == {"from-sdist": False} and elsewhere["if"] == {"from-sdist": True}
    assert in_a_clone["cmake"] == {"args": ["-C../../cmake/clone.cmake"]}
    assert elsewhere["build"] == {"requires": ["edgecore>=0.1,<0.2"]}
    assert len(PLUGINS) > 5
    assert [folder for folder in PLUGINS if overrides(folder) != [in_a_clone, elsewhere]] == []


@pytest.mark.parametrize("name", ["edgecore", "edgecore-llm", pytest.param("edgecore-xnnpack", marks=pytest.mark.slow)])
def test_warnings_are_errors_in_a_clone_but_not_in_an_sdist(name: str, tmp_path: Path):
    """A user builds the sdist with any compiler, which may warn about code that ours accepts."""
    folder, native = tmp_path / name, "native"
    if name == "edgecore":
        native = "."
        for part in ("cmake", "runtime_cpp", "src/edgecore/format/schema"):
            shutil.copytree(ROOT / part, folder / part)
        for part in ("CMakeLists.txt", "pyproject.toml"):
            shutil.copy(ROOT / part, folder)
    else:
        shutil.copytree(ROOT / "plugins" / name, folder, ignore=shutil.ignore_patterns("corpus", "tests"))
    commands = compile_commands(folder / native, tmp_path / "clone")
    assert [command for command in commands if "-Wextra" in command and "-Werror" not in command] == []
    assert any("-Werror" in command for command in commands)
    (folder / "PKG-INFO").touch()
    commands = compile_commands(folder / native, tmp_path / "sdist")
    assert [command for command in commands if "-Werror" in command] == []


def compile_commands(source: Path, build: Path) -> list[str]:
    """Return the commands that compile the files of a CMake project."""
    options = [f"-Dedgecore_DIR={ROOT / 'cmake'}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", build, *options], check=True, capture_output=True)
    return [row["command"] for row in json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))]


@pytest.mark.slow
def test_pip_alone_installs_edgecore_and_a_plugin_in_an_empty_environment(tmp_path):
    environment = tmp_path / "venv"
    venv.EnvBuilder(with_pip=True, symlinks=True).create(environment)
    python = environment / "bin" / "python"
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    for name in (".", "./plugins/edgecore-xnnpack"):
        # Not into the build folders of `make`: with the paths of another environment, it would compile all files again.
        options = ["--quiet", "--config-settings", f"build-dir={tmp_path / 'build' / name}"]
        command = [python, "-m", "pip", "install", *options, name]
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    found = subprocess.run([python, "-c", FIND], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert (found.stdout, found.returncode) == ("xnnpack\n", 0), found.stderr
