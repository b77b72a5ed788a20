"""Descriptions of changes to XNNPACK's sources: generated kernel files, and replaced texts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TEMPLATES = Path(__file__).with_name("kernels")


@dataclass(frozen=True)
class Kernel:
    """A micro-kernel file that XNNPACK's ``tools/xngen.py`` writes from a template.

    ``template`` is a patched template of XNNPACK, or a file of ``kernels/``, which ``generate`` copies to
    ``src/edgecore/``. ``options`` are the template's variables, such as ``MR=7 NR=32``. ``path`` is the file to write.

    If XNNPACK lacks the file ``path``, it must be added to the list of files to compile: ``listing`` is that list (a
    .cmake file), and ``like`` is the kernel in it before which ``path`` is inserted. If XNNPACK has the file, it is
    replaced, and ``like`` and ``listing`` are empty.
    """

    template: str
    options: str
    path: str
    like: str = ""
    listing: str = ""


@dataclass(frozen=True)
class Patch:
    """A replacement of ``old``, which must occur exactly once in the file ``path`` of the sources, by ``new``."""

    path: str
    old: str
    new: str


def generate(kernels: list[Kernel], source: Path) -> None:
    """Write the kernels' files into the sources with XNNPACK's generator."""
    shutil.copytree(TEMPLATES, source / "src" / "edgecore")
    for kernel in kernels:
        options = [word for option in kernel.options.split() for word in ("-D", option)]
        command = [sys.executable, "tools/xngen.py", kernel.template, *options, "-o", kernel.path]
        subprocess.run(command, cwd=source, check=True)


def apply(patches: list[Patch], source: Path) -> None:
    """Patch the files under ``source``. Raises ValueError if a patch's text does not occur exactly once."""
    for patch in patches:
        file = source / patch.path
        text = file.read_text()
        if text.count(patch.old) != 1:
            raise ValueError(
                f"{patch.path} is not the file that its patch was written for "
                f"({text.count(patch.old)} matches instead of 1); update the patch."
            )
        file.write_text(text.replace(patch.old, patch.new))
