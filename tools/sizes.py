#!/usr/bin/env python3
"""Measure the size of the runtime in a stripped application, and print a table, or JSON with --json.

The application loads a program, sets an input, executes and reads an output (`runtime_cpp/tests/size_app.cpp`). It is
linked with `-Os -flto --gc-sections` and without the C library, so the file contains code of edgecore only.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / "runtime_cpp"
FLAGS = ["-std=c++17", "-Os", "-DNDEBUG", "-fno-exceptions", "-fno-rtti", "-fno-pie", "-flto", "-ffunction-sections"]
FLAGS += ["-fdata-sections", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables", f"-I{RUNTIME}"]
FLAGS += [f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'kernels'}"]
LINK = ["-no-pie", "-static", "-nostdlib", "-Wl,--gc-sections", "-Wl,-e,edgecore_size_app", "-Wl,--build-id=none"]
# Do not link the C library and the compiler's runtime library: their functions stay unresolved.
LINK += ["-Wl,--unresolved-symbols=ignore-all", "-Wl,-z,noseparate-code", "-s"]


def generated_readers(folder: Path) -> Path:
    """Generate the C++ readers of the flatbuffer schemas into `folder` with flatc. Return the folder."""
    schemas = sorted((ROOT / "src" / "edgecore" / "format" / "schema").glob("*.fbs"))
    subprocess.run(["flatc", "--cpp", "--scoped-enums", "-o", folder, *schemas], check=True, stdout=subprocess.DEVNULL)
    return folder


def linked(sources: list[Path], compiler: str, *options: str | Path) -> int:
    """Link the core, the application and these sources. Return the size of the stripped file in bytes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources_of_core = sorted(path for path in (RUNTIME / "core").glob("*.cpp") if not path.stem.endswith("_test"))
        core = [*sources_of_core, RUNTIME / "tests" / "size_app.cpp"]
        output = folder / "app"
        command = [compiler, *FLAGS, "-isystem", generated_readers(folder), *LINK, *options, "-o", output]
        subprocess.run([*command, *core, *sources], check=True)
        return output.stat().st_size


def kernel_options(table: str, *definitions: str) -> list[str]:
    """Return compiler options for the baseline variant of the operator library.

    Args:
        table: Name of the function that returns the table of kernels.
        *definitions: Further macro definitions.
    """
    names = ["EDGECORE_VARIANT=baseline", 'EDGECORE_VERSION="0"', f"EDGECORE_SIZE_KERNELS={table}", *definitions]
    return [*(f"-D{name}" for name in names), "-fno-math-errno", "-fno-trapping-math", "-fwrapv"]


def kernel_sources(*tables: str) -> list[Path]:
    """Return the sources of all operators; of the sources with tables of operators, only those with these names."""
    excluded = {"library.cpp", "table.cpp", "exports.cpp"} - set(tables)
    return [path for path in sorted((RUNTIME / "kernels").glob("[lo]*/*.cpp")) if path.name not in excluded]


def selection_bytes(files: str, compiler: str) -> int:
    """Return the size of the core with only those kernels that some files call. `files` is "A.pte,B.pte"."""
    with tempfile.TemporaryDirectory() as name:
        table = Path(name) / "kernels.c"
        command = [sys.executable, "-m", "edgecore", "kernels", "--for", files, "--out", table]
        subprocess.run([*command, "--sources", RUNTIME / "kernels"], check=True, stdout=subprocess.DEVNULL)
        (mask,) = re.findall("EDGECORE_DTYPES=0x[0-9a-f]+", table.read_text())
        compiled = table.with_suffix(".o")
        command = [compiler, "-x", "c", "-Os", "-flto", f"-I{RUNTIME / 'include'}", "-c", table, "-o", compiled]
        subprocess.run(command, check=True)
        options = kernel_options("edgecore_kernels_library", mask)
        return linked([*kernel_sources("exports.cpp"), compiled], compiler, *options)


def main() -> None:
    """Print the sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument(
        "--for", dest="files", help="A.pte,B.pte: also measure the core with the kernels of these files, and with all"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    compiler = arguments.compiler
    sizes = {"core": linked([], compiler)}
    if arguments.files:
        sizes["core and selection"] = selection_bytes(arguments.files, compiler)
        options = kernel_options("edgecore_kernels_baseline")
        sizes["core and all kernels"] = linked(kernel_sources("table.cpp"), compiler, *options)
    if arguments.json:
        print(json.dumps(sizes))
    else:
        print("\n".join(f"{name:24}{size / 1000:8.1f} kB" for name, size in sizes.items()))


if __name__ == "__main__":
    main()
