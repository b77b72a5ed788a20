"""Write kernels into XNNPACK's sources with its generator, as ``kernels.txt`` lists them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

TEMPLATES = Path(__file__).with_name("kernels")
TABLE = Path(__file__).with_name("kernels.txt")
OURS = "src/edgecore"  # where the templates lie among XNNPACK's sources
_KERNELS_PER_FILE = 16
_PRODUCTION_LIST = re.compile(r"(SET\(PROD_\w+_MICROKERNEL_SRCS)([^)]*)\)")
REGENERATE = "regenerate"


@dataclass(frozen=True)
class Kernel:
    """A row of the table, or one of the kernels of a row with a list of values."""

    section: str  # an instruction set, by whose flags the file is compiled, or "regenerate"
    path: str
    template: str = ""  # empty: XNNPACK has the file
    options: tuple[str, ...] = ()  # NAME=VALUE: variables of the template

    @property
    def is_ours(self) -> bool:
        return self.template.startswith(OURS)


def read(text: str | None = None) -> Iterator[Kernel]:
    """Yield the kernels of the table."""
    section = ""
    for line in (TABLE.read_text() if text is None else text).splitlines():
        words = line.split()
        if line.startswith("["):
            section = line.strip("[]")
        elif words and not line.startswith("#"):
            path, *rest = words
            template, *options = rest or [""]
            name = re.search(r"\{(\w+)\}", path)
            if name is None:
                yield Kernel(section, path, template, tuple(options))
                continue
            (values,) = (option.split("=")[1].split(",") for option in options if option.startswith(f"{name[1]}="))
            others = tuple(option for option in options if not option.startswith(f"{name[1]}="))
            for value in values:
                yield Kernel(section, path.replace(name[0], value), template, (*others, f"{name[1]}={value}"))


def generate(source: Path) -> None:
    """Write the files of the table below the folder of XNNPACK's sources, and list them among those to compile.

    Raises ValueError if the sources lack a file, a list or a command that the table names.
    """
    shutil.copytree(TEMPLATES, source / OURS)
    kernels = list(read())
    scripts = commands(source)
    runs: list[list[str]] = []  # the arguments of XNNPACK's generator
    for kernel in kernels:
        if kernel.template:
            options = [word for option in kernel.options for word in ("-D", option)]
            runs.append([kernel.template, *options, "-o", kernel.path])
        elif kernel.section == REGENERATE:
            matching = [words for path, words in scripts.items() if fnmatch(path, kernel.path)]
            if not matching:
                raise ValueError(f"XNNPACK's scripts write no {kernel.path} of kernels.txt (third_party/README.md).")
            runs += matching
        elif not (source / kernel.path).is_file():
            raise ValueError(f"kernels.txt names {kernel.path}, which XNNPACK lacks (third_party/README.md).")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(lambda words: run(source, words), runs):
            done.check_returncode()
    for section in dict.fromkeys(kernel.section for kernel in kernels):
        if section != REGENERATE:
            select(source, section, [kernel.path for kernel in kernels if kernel.section == section])


def run(source: Path, words: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "tools/xngen.py", *words], cwd=source, check=False)


def commands(source: Path) -> dict[str, list[str]]:
    """Return the arguments with which XNNPACK's scripts call its generator, by the file that they write."""
    texts = [script.read_text() for script in sorted((source / "scripts").glob("generate-*.sh"))]
    lines = re.findall(r"^tools/xngen (.*?)\s*&?$", "\n".join(texts), re.M)
    return {words[-1]: words for words in map(shlex.split, lines) if words[-2] == "-o"}


def select(source: Path, isa: str, paths: list[str]) -> None:
    """Put files to the start of the list of an instruction set's kernels that XNNPACK compiles."""
    listing = source / "cmake" / "gen" / f"{isa}_microkernels.cmake"
    start = f"SET(PROD_{isa.upper()}_MICROKERNEL_SRCS\n"
    text = listing.read_text() if listing.is_file() else ""
    if start not in text:
        raise ValueError(f"XNNPACK has no list PROD_{isa.upper()}_MICROKERNEL_SRCS in {listing}; update kernels.txt.")
    for path in paths:  # XNNPACK lists those of its kernels that it does not select in a second list
        text = text.replace(f"  {path}\n", "")
    listing.write_text(text.replace(start, start + "".join(f"  {path}\n" for path in paths)))


def group(source: Path) -> None:
    """Merge the kernels of each instruction set: a new C file includes up to 16 of them and replaces them in the list.

    To parse the intrinsics' headers takes a compiler three times as long as a kernel does. Kernels of our templates stay
    in files of their own, because they define the same static functions.
    """
    separate = {kernel.path for kernel in read() if kernel.is_ours}
    for listing in sorted((source / "cmake" / "gen").glob("*_microkernels.cmake")):
        text = listing.read_text()
        match = _PRODUCTION_LIST.search(text)
        if match is None:
            raise ValueError(f"{listing.name} has no list PROD_..._MICROKERNEL_SRCS; update generate.py.")
        merged = [path for path in match[2].split() if path.endswith(".c") and path not in separate]
        paths = [path for path in match[2].split() if path not in merged]
        for first in range(0, len(merged), _KERNELS_PER_FILE):
            paths.append(f"{OURS}/{listing.stem}-{first}.c")
            included = merged[first : first + _KERNELS_PER_FILE]
            (source / paths[-1]).write_text("".join(f'#include "../../{path}"\n' for path in included))
        listing.write_text(text[: match.start()] + "\n  ".join([match[1], *paths]) + ")" + text[match.end() :])
