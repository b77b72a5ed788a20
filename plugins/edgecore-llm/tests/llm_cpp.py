"""The C++ programs of the tests: the example and the probe, built against the installed packages."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from embedding import PACKAGE, build, needs, shared_folder
from llm_models import Checkpoint

from edgecore_llm.export import ExportOptions, export
from edgecore_llm.model.layers import Precision

NATIVE = Path(__file__).parent / "native"


def exported(name: str, path: Path, chunk: int = 16, eos_ids: tuple[int, ...] = (2,)) -> Path:
    """Write the file of a small model, whose packed layers give the same bits however tokens are divided."""
    options = ExportOptions(context=320, chunk=chunk, precision=Precision(linear=8, embedding=8, output=8))
    export(Checkpoint(name, eos_ids), path, options)
    return path


def programs(factory: pytest.TempPathFactory) -> Path:
    """Return the folder with `probe`, `units` and `llm-cpp/llm`, which have the operators of small models.

    The environment variable EDGECORE_LLM_PROGRAMS names a folder in which they have been built before.
    """
    if folder := os.environ.get("EDGECORE_LLM_PROGRAMS"):
        return Path(folder)
    needs("cmake", "ninja", "g++")
    if not (PACKAGE.parent / "edgecore_llm" / "cmake").is_dir():
        pytest.skip("the installed edgecore-llm has no sources of the C++ runner")

    def make(folder: Path) -> None:
        exported("gemma3", folder / "model.pte", chunk=8)
        build(NATIVE, folder, f"-DPTE={folder / 'model.pte'}")

    return shared_folder(factory, "llm-cpp", make)


def probe(folder: Path, pte: Path, commands: Sequence[str], threads: int = 1) -> list[str]:
    """Return the lines that the probe prints for commands, without the statistics at the end."""
    done = subprocess.run(
        [folder / "probe", pte, str(threads)], input="\n".join(commands), capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()[: len(commands) if done.returncode == 0 else None]
