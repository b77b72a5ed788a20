"""`python -m edgecore.plugin`: the folders that the build of a plugin needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import edgecore

SOURCE = Path(__file__).resolve().parents[2]


def plugin_path(folder, *arguments):
    """`python -m edgecore.plugin` with the packages in `folder` before the others."""
    code = f"""
import sys
sys.path.insert(0, {str(folder)!r})
from edgecore.plugin.__main__ import main
sys.exit(main({list(arguments)!r}))
"""
    return subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False)


def test_folders_for_the_build_of_a_plugin_hold_headers_and_cmake_files(tmp_path):
    """Installed or from its source tree, edgecore names folders that hold what is promised."""
    installed = Path(edgecore.__path__[0]).parent
    copy = tmp_path / "wheel without headers"
    shutil.copytree(SOURCE / "src" / "edgecore" / "plugin", copy / "edgecore" / "plugin")
    shutil.copy(SOURCE / "src" / "edgecore" / "stability.py", copy / "edgecore")
    (copy / "edgecore" / "__init__.py").touch()
    for option, file in (("--include-dir", "edgecore/backend.h"), ("--cmake-dir", "edgecoreConfig.cmake")):
        for packages in (installed, SOURCE / "src"):
            result = plugin_path(packages, option)
            assert result.returncode == 0, result.stderr
            assert (Path(result.stdout.strip()) / file).is_file()
        result = plugin_path(copy, option)
        assert result.returncode == 1 and "pip install" in result.stderr
    assert plugin_path(installed).returncode == plugin_path(installed, "--lib-dir").returncode == 2


def test_cmake_finds_the_source_tree(tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    folder = plugin_path(SOURCE / "src", "--cmake-dir").stdout.strip()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(a LANGUAGES NONE)\n"
        "find_package(edgecore CONFIG REQUIRED COMPONENTS headers)\n"
        "get_target_property(folder edgecore::headers INTERFACE_INCLUDE_DIRECTORIES)\n"
        "if(NOT EXISTS ${folder}/edgecore/backend.h OR NOT COMMAND edgecore_add_backend)\n"
        "  message(FATAL_ERROR ${folder})\nendif()\n"
    )
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-Dedgecore_DIR={folder}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
