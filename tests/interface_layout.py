"""The layout of the native interface, as libabigail reads it from the debug information of a compiled library.

`python tests/interface_layout.py` records the layout of today's headers, after the version of the interface was raised.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent
INCLUDE = TESTS.parent / "runtime_cpp" / "include"
BASELINE = TESTS / "native" / "interface.abi.xml"
HEADERS = ("abi.h", "backend.h", "kernel.h", "platform.h")
# Without everything that depends on the machine, on folders, on comments and on names of parameters.
ABIDW = (
    *("abidw", "--no-architecture", "--no-corpus-path", "--no-show-locs", "--no-comp-dir-path"),
    *("--no-parameter-names", "--no-write-default-sizes", "--type-id-style", "hash"),
)


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)


def source(include: Path) -> str:
    """Return C code with one variable, whose type has all types and constants of the headers.

    Each block of constants is an enum of its own: abidiff ignores a changed constant if another one of the same enum has
    its new value.
    """
    members = []
    for header in HEADERS:
        text = (include / "edgecore" / header).read_text(encoding="utf-8")
        names = re.findall(r"^typedef struct \w+ (?:\{.*?\n\} )?(\w+);", text, re.MULTILINE | re.DOTALL)
        names += re.findall(r"^typedef [^;{]*\*(edgecore_\w+_fn)\)", text, re.MULTILINE)
        members += [f"{name} *{name};" for name in names]
        for block in text.split("\n\n"):
            constants = re.findall(r"^#define (EDGECORE_\w+) (?:0x[0-9a-f]+|\d+)u?\b", block, re.MULTILINE)
            if constants:
                values = ", ".join(f"{name}_value = {name}" for name in constants)
                members.append(f"enum {constants[0]}_and_others {{ {values} }} {constants[0]}_block;")
    includes = [f'#include "edgecore/{header}"' for header in HEADERS]
    return "\n".join([*includes, "struct edgecore_interface {", *members, "} edgecore_interface;", ""])


def layout(compiler: str, folder: Path, include: Path = INCLUDE) -> str:
    """Compile the headers in `include`, with files in `folder`, and return the layout of their types as XML."""
    code, library = folder / "interface.c", folder / "interface.so"
    code.write_text(source(include), encoding="utf-8")
    options = ("-std=c11", "-g", "-O0", "-fPIC", "-shared", f"-I{include}")
    compiled = run(compiler, *options, code, "-o", library)
    assert compiled.returncode == 0, compiled.stderr
    done = run(*ABIDW, library)
    assert done.returncode == 0, done.stderr
    # abidw writes the path of the source, which no option suppresses.
    return re.sub(r"path='[^']*'", "path='interface.c'", done.stdout)


def changes(xml: Path) -> str:
    """Return how a layout differs from the recorded one, in the words of abidiff; empty if it does not."""
    done = run("abidiff", "--harmless", "--leaf-changes-only", BASELINE, xml)
    assert (done.returncode == 0) == (done.stdout == ""), done.stdout + done.stderr
    return done.stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        BASELINE.write_text(layout("gcc", Path(temporary)), encoding="utf-8")
