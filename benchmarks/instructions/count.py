"""Count the instructions of one run of a file on an emulated 64-bit Arm processor, for each function.

    python benchmarks/instructions/count.py PROGRAM FILE.pte [--input FILE.npy]... [--cpu neoverse-n1] [--functions 10]

PROGRAM is edgecore-run of a build for Arm, such as build/linux-arm64. The count of a run is the difference between
three runs and one run, by half, so that loading does not count. It is the same each time: with --threads 1 the program
does the same work. An instruction is one of the program, of any cost.
"""

import argparse
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).with_name("count.c")


def counts(plugin: Path, runs: int, arguments: argparse.Namespace) -> Counter[str]:
    output = plugin.with_suffix(".txt")
    command = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-cpu", arguments.cpu, "-plugin", plugin]
    command += [arguments.program, arguments.file, "--threads", "1", "--runs", str(runs)]
    for path in arguments.input:
        command += ["--input", path]
    environment = os.environ | {"EDGECORE_INSTRUCTIONS": str(output)}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    lines = (line.split(maxsplit=1) for line in output.read_text().splitlines())
    return Counter({name: int(count) for count, name in lines})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("file")
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--cpu", default="neoverse-n1")
    parser.add_argument("--functions", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plugin = Path(folder) / "count.so"
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", plugin, SOURCE], check=True)
        once, thrice = counts(plugin, 1, arguments), counts(plugin, 3, arguments)
    run = Counter({name: (count - once[name]) // 2 for name, count in thrice.items()})
    print(f"{sum(run.values()) / 1e6:10.2f} million instructions")
    for name, count in run.most_common(arguments.functions):
        demangled = subprocess.run(["c++filt", name], capture_output=True, text=True, check=True).stdout
        print(f"{count / 1e6:10.2f} {demangled.strip()[:110]}")


if __name__ == "__main__":
    main()
