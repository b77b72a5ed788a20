"""Count the instructions of one run of a file on an emulated 64-bit Arm processor, for each function.

    python benchmarks/instructions/count.py PROGRAM FILE.pte [--backend LIBRARY] [--input FILE.npy]...
        [--cpu neoverse-n1] [--functions 10]

PROGRAM is edgecore-run of a build for Arm, such as build/linux-arm64, and LIBRARY the plugin's native library. The
count of a run is the count of two runs minus the count of one run, so that loading does not count. The count is the
same each time, because with --threads 1 the program always does the same work. All instructions count alike, whatever
they cost. The other two columns are millions of bytes that these instructions load and store.
"""

import argparse
import bisect
import os
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).with_name("count.c")
SYSROOT = Path("/usr/aarch64-linux-gnu")
NM, READELF = "aarch64-linux-gnu-nm", "aarch64-linux-gnu-readelf"


@dataclass
class Counts:
    """Instructions and bytes of one run, by function."""

    instructions: Counter[str] = field(default_factory=Counter)
    loaded: Counter[str] = field(default_factory=Counter)
    stored: Counter[str] = field(default_factory=Counter)

    def columns(self) -> tuple[Counter[str], Counter[str], Counter[str]]:
        return self.instructions, self.loaded, self.stored

    def totals(self) -> tuple[int, int]:
        """Return the instructions and the bytes loaded and stored."""
        return self.instructions.total(), self.loaded.total() + self.stored.total()


class Functions:
    """The functions of a program or library, found by offset in its file."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        headers = subprocess.run([READELF, "-lW", path], capture_output=True, text=True, check=True).stdout
        rows = [line.split() for line in headers.splitlines()]
        self.segments = [
            (int(row[1], 16), int(row[4], 16), int(row[2], 16)) for row in rows if row and row[0] == "LOAD"
        ]
        # A stripped file has no names here. Do not use its exported names (`nm -D`) instead: the functions between two
        # exported ones would count for the first.
        listing = subprocess.run([NM, "-nC", path], capture_output=True, text=True, check=True).stdout
        symbols = [line.split(maxsplit=2) for line in listing.splitlines() if line[:1].isalnum()]
        code = [(int(row[0], 16), row[2]) for row in symbols if row[1] in "tTwW" and not row[2].startswith("$")]
        self.addresses, self.names = [a for a, _ in code], [n for _, n in code]

    def at(self, offset: int) -> str:
        for start, size, address in self.segments:
            if start <= offset < start + size:
                index = bisect.bisect(self.addresses, offset - start + address)
                return self.names[index - 1] if index else f"({self.name})"
        return f"({self.name})"


def build_plugin(folder: Path) -> Path:
    """Compile the plugin of qemu into a folder."""
    plugin = folder / "count.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", plugin, SOURCE], check=True)
    return plugin


def _counts(plugin: Path, command: list[str], cpu: str, sysroot: Path, functions: dict[str, Functions]) -> Counts:
    with tempfile.NamedTemporaryFile(mode="r", suffix=".txt") as output:
        emulator = ["qemu-aarch64", "-L", str(sysroot), "-cpu", cpu, "-plugin", str(plugin)]
        environment = os.environ | {"EDGECORE_INSTRUCTIONS": output.name}
        subprocess.run([*emulator, *command], check=True, env=environment, stdout=subprocess.DEVNULL)
        counts = Counts()
        for line in output:
            file, offset, *numbers = line.rsplit(maxsplit=4)
            if file not in functions:
                functions[file] = Functions(Path(file))
            name = functions[file].at(int(offset))
            for column, number in zip(counts.columns(), numbers, strict=True):
                column[name] += int(number)
    return counts


def count(plugin: Path, command: list[str], cpu: str, sysroot: Path = SYSROOT) -> Counts:
    """Count one run of a command, which takes the number of runs as its last argument."""
    functions: dict[str, Functions] = {}
    once, twice = (_counts(plugin, [*command, str(runs)], cpu, sysroot, functions) for runs in (1, 2))
    run = Counts()
    for before, after, column in zip(once.columns(), twice.columns(), run.columns(), strict=True):
        column.update({name: number - before[name] for name, number in after.items()})
    return run


def edgecore_command(program: str, file: str | Path, backend: str | None, inputs: list[str]) -> list[str]:
    """Return the command line of edgecore-run without the number of runs."""
    command = [program, str(file), "--threads", "1"]
    for path in inputs:
        command += ["--input", path]
    return [*command, *(["--backend", backend] if backend else []), "--runs"]


def print_functions(counts: Counts, number: int) -> None:
    """Print the functions with most instructions: millions of instructions, of bytes loaded and stored."""
    for name, instructions in counts.instructions.most_common(number):
        loaded, stored = counts.loaded[name] / 1e6, counts.stored[name] / 1e6
        print(f"{instructions / 1e6:10.2f} {loaded:10.2f} {stored:10.2f} {name[:110]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("file")
    parser.add_argument("--backend")
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--cpu", default="neoverse-n1")
    parser.add_argument("--functions", type=int, default=10)
    arguments = parser.parse_args()
    command = edgecore_command(arguments.program, arguments.file, arguments.backend, arguments.input)
    with tempfile.TemporaryDirectory() as folder:
        counts = count(build_plugin(Path(folder)), command, arguments.cpu)
    loaded, stored = counts.loaded.total() / 1e6, counts.stored.total() / 1e6
    print(
        f"{counts.instructions.total() / 1e6:10.2f} million instructions, {loaded:.2f} and {stored:.2f} million bytes"
    )
    print_functions(counts, arguments.functions)


if __name__ == "__main__":
    main()
