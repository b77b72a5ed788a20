"""Compare the instructions of an inference, and the bytes that they load and store, with executorch's XNNPACK.

    python benchmarks/instructions/table.py RUN LIBRARY FOLDER [MODEL ...] [--recipes RECIPE ...] [--functions 8]

RUN and LIBRARY are edgecore-run and libedgecore_xnnpack.so for 64-bit Arm (`make test-platforms` builds them in
build/platforms/aarch64). The peer is the C++ runtime of executorch's wheel for 64-bit Arm, which needs neither torch
nor Python: peer.cpp is linked with the wheel's libraries. qemu runs both programs with one thread. FOLDER keeps the
wheel, the peer's program and the files that the two compilers make of each network. With --again, the files of edgecore
are made again.

The library cpuinfo in the wheel reads the processor from /proc/cpuinfo, which under qemu describes the host. So
FOLDER/sysroot has a /proc/cpuinfo that names the emulated processor, for which XNNPACK then chooses its kernels.

With --functions, the functions with most instructions follow each row. The peer's libraries are stripped, so their
instructions are listed by library only.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path

from count import SYSROOT, Counts, build_plugin, count, edgecore_command, print_functions

HERE = Path(__file__).resolve().parent
MODELS = ("mobilenet_v2", "mobilenet_v3_large", "resnet18", "efficientnet_b0", "bert_mini", "vit_ti_16")
RECIPES = ("fp32", "int8", "int8-dynamic", "int4-weights")
PEER = "executorch==1.5.1"
LIBRARIES = ("", "_kernels_optimized", "_kernels_quantized", "_backend_xnnpack", "_threadpool")
CPU = "neoverse-n1"
CPUINFO = """processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

"""


def build_peer(folder: Path) -> Path:
    """Download the peer's wheel, and link peer.cpp with its libraries, unless the program exists already."""
    program = folder / "peer"
    if program.exists():
        return program
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--platform", "manylinux_2_28_aarch64", "--python-version", "3.11", "--dest", str(folder), PEER]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("executorch-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "wheel")
    package = folder / "wheel/executorch"
    headers = (package / "include", package / "include/executorch/runtime/core/portable_type/c10")
    compiler = [os.environ.get("CXX", "clang++-16"), "--target=aarch64-linux-gnu", "-std=c++20", "-O2"]
    compiler += ["-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED", *(f"-I{path}" for path in headers)]
    linked = [f"-L{package / 'lib'}", f"-Wl,-rpath,{package / 'lib'}", "-Wl,--no-as-needed"]
    linked += [f"-lexecutorch{name}" for name in LIBRARIES]
    subprocess.run([*compiler, HERE / "peer.cpp", "-o", program, *linked], check=True)
    return program


def make_sysroot(folder: Path) -> Path:
    """Make a folder in which qemu finds the emulated processor's libraries and its /proc/cpuinfo."""
    (folder / "proc").mkdir(parents=True, exist_ok=True)
    (folder / "proc/cpuinfo").write_text(CPUINFO)
    if not (folder / "lib").exists():
        (folder / "lib").symlink_to(SYSROOT / "lib")
    return folder


def make_files(name: str, recipes: Iterable[str], folder: Path, again: bool) -> None:
    """Compile a network with both compilers, except for files that exist; with `again`, replace edgecore's files."""
    wanted = [(recipe, side) for recipe in recipes for side in ("edgecore", "executorch")]
    missing = [
        (recipe, side, path)
        for recipe, side in wanted
        if not (path := folder / f"{name}.{recipe}.{side}.pte").exists() or (again and side == "edgecore")
    ]
    if not missing:
        return
    sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "tests")]
    import numpy as np
    import torch
    import zoo
    from quantized import peer_file
    from runtimes import executorch_file

    import edgecore

    def vit() -> zoo.Example:
        return zoo.torchvision_models().VisionTransformer(224, 16, 12, 3, 192, 768).eval(), (
            torch.randn(1, 3, 224, 224),
        )

    zoo.ALL["vit_ti_16"] = vit
    model, inputs = zoo.make(name)
    exported = torch.export.export(model, inputs)
    np.save(folder / f"{name}.npy", inputs[0].numpy())
    for recipe, side, path in missing:
        if side == "edgecore":
            options = {} if recipe == "fp32" else {"quantize": recipe}
            options |= {"calibration": [inputs]} if recipe == "int8" else {}
            edgecore.compile(exported, backends=["xnnpack"], **options).save(path)
        elif recipe == "fp32":
            executorch_file(exported, None, path)
        else:
            path.write_bytes(peer_file(recipe, model, exported, inputs)[0])


def row(name: str, recipe: str, ours: Counts, peer: Counts) -> list[float]:
    """Print a row of the table. Return its ratios: instructions, bytes loaded and stored."""
    pairs = list(zip(ours.totals(), peer.totals(), strict=True))
    ratios = [mine / theirs for mine, theirs in pairs]
    cells = " | ".join(f"{mine / 1e6:.1f} | {theirs / 1e6:.1f} | {mine / theirs:.3f}" for mine, theirs in pairs)
    print(f"| {name} | {recipe} | {cells} |", flush=True)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("library")
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--recipes", nargs="+", default=RECIPES, choices=RECIPES)
    parser.add_argument("--functions", type=int, default=0)
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    folder: Path = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    peer, sysroot, plugin = build_peer(folder), make_sysroot(folder / "sysroot"), build_plugin(folder)
    models = arguments.models or MODELS
    for name in models:
        make_files(name, arguments.recipes, folder, arguments.again)
    print("| network | recipe | instructions | executorch | ratio | bytes | executorch | ratio |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for recipe in arguments.recipes:
        ratios = []
        for name in models:
            numbers = str(folder / f"{name}.npy")
            mine, theirs = (folder / f"{name}.{recipe}.{side}.pte" for side in ("edgecore", "executorch"))
            command = edgecore_command(arguments.run, mine, arguments.library, [numbers])
            ours = count(plugin, command, CPU, sysroot)
            other = count(plugin, [str(peer), str(theirs), "--input", numbers, "--runs"], CPU, sysroot)
            ratios.append(row(name, recipe, ours, other))
            for counts in (ours, other) if arguments.functions else ():
                print_functions(counts, arguments.functions)
        means = [math.exp(sum(map(math.log, column)) / len(column)) for column in zip(*ratios, strict=True)]
        print(f"| geometric mean | {recipe} | | | {means[0]:.3f} | | | {means[1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
