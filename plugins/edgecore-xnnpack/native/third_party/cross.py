"""The identity of a toolchain file of CMake: the part of a library's key that tells builds for other processors apart."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

LANGUAGES = ("C", "CXX")
PROJECT = """\
cmake_minimum_required(VERSION 3.20)
project(toolchain NONE)
file(WRITE "${CMAKE_BINARY_DIR}/modules" "${CMAKE_ROOT}")
foreach(language C CXX)
  file(WRITE "${CMAKE_BINARY_DIR}/${language}" "${CMAKE_${language}_COMPILER}")
endforeach()
"""
# The variables that name the compiler if the toolchain file does not, and the program that CMake takes without them.
DEFAULTS = {"C": ("CC", "cc"), "CXX": ("CXX", "c++")}


class ToolchainError(ValueError):
    """An error whose text is one sentence: what is wrong with a toolchain file."""


def describe(toolchain: Path, definitions: Sequence[str] = ()) -> list[str]:
    """Return the texts of a toolchain file and of the files that it includes, and which compilers it chooses.

    CMake itself reads the file, in a project without a language, with the definitions NAME=VALUE. A compiler is described
    by the answer to ``--version``, by the words of its command without their folders, and by the scripts among these
    words.
    """
    with tempfile.TemporaryDirectory(prefix="edgecore-toolchain-") as name:
        project, build, trace = (Path(name).resolve() / part for part in ("project", "build", "trace"))
        project.mkdir()
        (project / "CMakeLists.txt").write_text(PROJECT)
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        options = [f"-DCMAKE_TOOLCHAIN_FILE={toolchain.resolve()}", *(f"-D{one}" for one in definitions)]
        command = ["cmake", *generator, "-S", project, "-B", build, *options]
        command += ["--trace-format=json-v1", f"--trace-redirect={trace}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ToolchainError(f"CMake cannot use the toolchain file {toolchain}: {' '.join(done.stderr.split())}")
        modules = Path((build / "modules").read_text())
        own = (modules, project, build)
        read = dict.fromkeys(json.loads(line).get("file", "") for line in trace.read_text().splitlines())
        files = [path for path in map(Path, filter(None, read)) if not any(path.is_relative_to(part) for part in own)]
        commands = {language: (build / language).read_text() for language in LANGUAGES}
    description = [path.read_text() for path in files]
    for name, _, value in (one.partition("=") for one in definitions):
        description.append(f"{name}={Path(value).name}")  # without the folder of a program, as below
    for language, words in commands.items():
        variable, program = DEFAULTS[language]
        chosen = words.split(";") if words else shlex.split(os.environ.get(variable, program))
        description += describe_compiler(chosen, toolchain)
    return description


def describe_compiler(command: list[str], toolchain: Path) -> list[str]:
    """Return the words of a compiler's command, the scripts among them, and the compiler's version."""
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise ToolchainError(f"The compiler {command[0]} of {toolchain} cannot be run: {error.strerror}.") from error
    if done.returncode:
        raise ToolchainError(f"The compiler {' '.join(command)} of {toolchain} does not tell its version.")
    paths = [Path(word) for word in command]
    scripts = [path.read_bytes() for path in paths if path.is_absolute() and path.is_file() and not is_program(path)]
    version, *_folders = done.stdout.splitlines() or [""]
    return [*(path.name for path in paths), *(script.decode() for script in scripts), version]


def is_program(path: Path) -> bool:
    """Return True for a program that the processor runs; its version stands for it."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
