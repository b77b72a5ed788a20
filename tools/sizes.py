#!/usr/bin/env python3
"""Sizes of the runtime when linked into an application, stripped, as a table or with --json.

The application loads a program, sets an input, executes and reads an output (`runtime_cpp/tests/size_app.cpp`); it is
linked with `-Os -flto --gc-sections` and without the C library, so every byte is ours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / "runtime_cpp"
FLAGS = ["-std=c++17", "-Os", "-DNDEBUG", "-fno-exceptions", "-fno-rtti", "-fno-pie", "-flto", "-ffunction-sections"]
FLAGS += ["-fdata-sections", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables", f"-I{RUNTIME}"]
FLAGS += [f"-I{RUNTIME / 'include'}"]
LINK = ["-no-pie", "-static", "-nostdlib", "-Wl,--gc-sections", "-Wl,-e,edgecore_size_app", "-Wl,--build-id=none"]
# What the C library and the compiler's own would add.
LINK += ["-Wl,--unresolved-symbols=ignore-all", "-Wl,-z,noseparate-code", "-s"]


def generated_readers(folder: Path) -> Path:
    """The C++ readers of the flatbuffer schemas, made by flatc."""
    schemas = ROOT / "src" / "edgecore" / "format" / "schema"
    names = [path for path in sorted(schemas.glob("*.fbs")) if f'"{path.stem}_generated.h"' in includes()]
    subprocess.run(["flatc", "--cpp", "--scoped-enums", "-o", folder, *names], check=True, stdout=subprocess.DEVNULL)
    return folder


def includes() -> str:
    """Text of the header that names the readers that the core includes."""
    return (RUNTIME / "core" / "schema.h").read_text()


def core_bytes(compiler: str = "g++") -> int:
    """Bytes of the stripped file: the core and the application, no kernels."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = [*sorted((RUNTIME / "core").glob("*.cpp")), RUNTIME / "tests" / "size_app.cpp"]
        output = folder / "app"
        command = [compiler, *FLAGS, "-isystem", generated_readers(folder), *LINK, "-o", output, *sources]
        subprocess.run(command, check=True)
        return output.stat().st_size


def main() -> None:
    """Print the sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    sizes = {"core": core_bytes(arguments.compiler)}
    if arguments.json:
        print(json.dumps(sizes))
    else:
        print("\n".join(f"{name:24}{size / 1000:8.1f} kB" for name, size in sizes.items()))


if __name__ == "__main__":
    main()
