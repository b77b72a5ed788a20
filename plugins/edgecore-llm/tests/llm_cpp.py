"""The C++ programs of the tests: the example and the probe, built against the installed packages."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from embedding import PACKAGE, build, needs, shared_folder

NATIVE = Path(__file__).parent / "native"


def programs(factory: pytest.TempPathFactory, pte: Path) -> Path:
    """Return the folder with `probe` and `llm-cpp/llm`, which have the operators of a file."""
    needs("cmake", "ninja", "g++")
    if not (PACKAGE.parent / "edgecore_llm" / "cmake").is_dir():
        pytest.skip("the installed edgecore-llm has no sources of the C++ runner")
    return shared_folder(factory, "llm-cpp", lambda folder: build(NATIVE, folder, f"-DPTE={pte}"))


def probe(folder: Path, pte: Path, commands: Sequence[str], threads: int = 1) -> list[str]:
    """Return the lines that the probe prints for commands, without the statistics at the end."""
    done = subprocess.run(
        [folder / "probe", pte, str(threads)], input="\n".join(commands), capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()[: len(commands) if done.returncode == 0 else None]
