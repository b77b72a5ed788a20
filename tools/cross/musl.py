"""Adapt wheels that zig built for the C library musl, before auditwheel checks the wheels."""

from __future__ import annotations

import re
from pathlib import Path

import debian
from auditwheel.wheeltools import InWheelCtx
from process import run

# The name by which libraries that zig linked need musl. In musllinux wheels (PEP 656) it becomes Alpine's name,
# `libc.musl-PROCESSOR.so.1`. musl's loader accepts both names.
LINKED = "libc.so"
DEBIAN = {"aarch64": "arm64", "x86_64": "amd64"}
# Rows of `readelf --dyn-syms`: symbols that a library defines, and symbols that other libraries must define. The group
# `name` ends before the version of the symbol.
DEFINED = re.compile(r" (?:GLOBAL|WEAK) +\w+ +\d+ (?P<name>[^@\s]+)", re.MULTILINE)
UNDEFINED = re.compile(r" (?:FUNC|OBJECT|NOTYPE|TLS) +GLOBAL +\w+ +UND (?P<name>[^@\s]+)", re.MULTILINE)


def adapt(wheel: Path, into: Path, processor: str) -> Path:
    """Write a copy of ``wheel`` for musl on ``processor`` into the folder ``into``, and return the path of the copy.

    Raises:
        SystemExit: A binary of the wheel needs a symbol that neither musl nor Python nor the wheel defines.
    """
    into.mkdir(parents=True, exist_ok=True)
    result = into / wheel.name
    with InWheelCtx(wheel, result) as unpacked:
        root = Path(unpacked.path)
        found = binaries(root)
        for binary in found:
            run("patchelf", "--replace-needed", LINKED, f"libc.musl-{processor}.so.1", binary)
        check(found, wheel.name, processor)
        for metadata in root.glob("*.dist-info/METADATA"):
            # Drop the requirement nanobind-backend: its libraries are for glibc, and the module contains nanobind.
            lines = metadata.read_text().splitlines(keepends=True)
            metadata.write_text(
                "".join(line for line in lines if not line.startswith("Requires-Dist: nanobind-backend"))
            )
    return result


def binaries(root: Path) -> list[Path]:
    """Return the programs and libraries under ``root`` that need other libraries."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    return [path for path in files if "NEEDED" in run("readelf", "--dynamic", path)]


def check(paths: list[Path], wheel: str, processor: str) -> None:
    """Raise SystemExit if a binary of ``paths`` needs a symbol that musl 1.2, Python and the other binaries lack.

    Binaries with copies of musl's data (copy relocations) are refused, too. auditwheel makes neither check.
    """
    symbols = {path: run("readelf", "--wide", "--dyn-syms", path) for path in paths}
    library = debian.unpack(f"musl-{processor}", DEBIAN[processor], ("musl",)) / f"lib/{processor}-linux-musl/libc.so"
    musl = run("readelf", "--wide", "--dyn-syms", library)
    known = {match["name"] for text in (musl, *symbols.values()) for match in DEFINED.finditer(text)}
    for path, text in symbols.items():
        needed = {match["name"] for match in UNDEFINED.finditer(text)}
        unknown = sorted(name for name in needed - known if not name.lstrip("_").startswith("Py"))
        if unknown:
            raise SystemExit(f"{path.name} of {wheel} needs {', '.join(unknown)}, which musl lacks.")
        if "_COPY " in run("readelf", "--wide", "--relocs", path):
            raise SystemExit(
                f"{path.name} of {wheel} has copies of musl's data, which zig confuses: compile it with -fPIE."
            )
