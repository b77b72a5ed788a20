"""Changes to XNNPACK's sources as data: files that its generator writes, and texts replaced."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TEMPLATES = Path(__file__).with_name("kernels")


@dataclass(frozen=True)
class Kernel:
    """A micro-kernel written by XNNPACK's ``tools/xngen.py``: one that it lacks, or one whose template is patched.

    ``template`` is one of XNNPACK's, or one of ``kernels/``, which are put into ``src/edgecore/``.
    A new file stands before ``like``, a kernel of another shape, in the list of files ``listing``; a file that XNNPACK
    has is replaced and has neither.
    """

    template: str
    options: str
    path: str
    like: str = ""
    listing: str = ""


@dataclass(frozen=True)
class Patch:
    """Replaces ``old``, which occurs once in ``path``; paths are relative to the folder of the sources."""

    path: str
    old: str
    new: str


def generate(kernels: list[Kernel], source: Path) -> None:
    """Write the kernels' files under ``source`` by its own generator."""
    shutil.copytree(TEMPLATES, source / "src" / "edgecore")
    for kernel in kernels:
        options = [word for option in kernel.options.split() for word in ("-D", option)]
        command = [sys.executable, "tools/xngen.py", kernel.template, *options, "-o", kernel.path]
        subprocess.run(command, cwd=source, check=True)


def apply(patches: list[Patch], source: Path) -> None:
    """Patch the files under ``source``. Raises ValueError when a text is not there exactly once."""
    for patch in patches:
        file = source / patch.path
        text = file.read_text()
        if text.count(patch.old) != 1:
            raise ValueError(f"{patch.path} is not the file that its patch was written for; update the patch.")
        file.write_text(text.replace(patch.old, patch.new))
