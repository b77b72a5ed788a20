"""Time the layers of MobileNetV2 and ResNet-50 with edgecore's build of XNNPACK and with executorch's. Print a table.

    python benchmarks/layers/run.py [--dtype f32 int8] [--network mobilenet_v2 resnet50] [--threads 1 2]
        [--rounds 10] [--work FOLDER]

Needs executorch, torch, torchao, cmake and a C++ compiler. FOLDER keeps the build and the lowered layers. The two sides
alternate in blocks of runs. The time of a 2x2 layer with 2 channels is subtracted from executorch's times: it is the
overhead of executorch's Python binding and executor.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import peer

HERE = Path(__file__).parent
BLOCK_MICROSECONDS = 15_000
WARM_UP = 2


@dataclass(frozen=True)
class Layer:
    """A layer of a network. `count` is the number of such layers in the network."""

    network: str
    count: int
    kind: str
    size: int
    channels: int
    out: int
    kernel: int
    stride: int
    activation: str

    def words(self, dtype: str) -> str:
        shape = f"{self.kind} {self.size} {self.channels} {self.out} {self.kernel} {self.stride}"
        return f"{dtype} {shape} {self.activation}"

    def label(self) -> str:
        return f"{self.kind} {self.size}x{self.size} {self.channels}->{self.out} k{self.kernel} s{self.stride}"


EMPTY = Layer("", 0, "conv", 2, 2, 2, 1, 1, "none")


def read_layers() -> list[Layer]:
    with (HERE / "layers.csv").open() as file:
        rows = list(csv.reader(file))[1:]
    layers = []
    for network, count, kind, *numbers, activation in rows:
        size, channels, out, kernel, stride = map(int, numbers)
        layers.append(Layer(network, int(count), kind, size, channels, out, kernel, stride, activation))
    return layers


class Ours:
    """The C++ program `layers`, which answers each line with a line."""

    def __init__(self, program: Path, threads: int) -> None:
        command = [str(program), str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the layers program ended at: {line}")
        return answer

    def run(self, layer: int, count: int) -> list[float]:
        """Run a layer `count` times. Return the microseconds of each run."""
        return [float(word) for word in self.ask(f"run {layer} {count}").split()]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def build(work: Path) -> Path:
    folder = work / "build"
    configure = ["cmake", "-S", str(HERE), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release"]
    for command in (configure, ["cmake", "--build", str(folder)]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "layers"


def lowered(layer: Layer, dtype: str, work: Path) -> bytes:
    """Compile the layer with executorch, unless its file exists in `work`. Return the file."""
    name = hashlib.sha256(layer.words(dtype).encode()).hexdigest()[:16]
    path = work / f"{name}.pte"
    if not path.exists():
        print("lowering", layer.words(dtype), file=sys.stderr, flush=True)
        words = (layer.kind, layer.size, layer.channels, layer.out, layer.kernel, layer.stride, layer.activation)
        path.write_bytes(peer.lower(dtype, *words))
    return path.read_bytes()


def measure(layers: list[Layer], dtype: str, threads: int, rounds: int, work: Path, program: Path) -> None:
    ours, theirs = Ours(program, threads), peer.Runner(threads)
    ours_ids, peer_ids = [], []
    for layer in [EMPTY, *layers]:
        ours_ids.append(int(ours.ask(layer.words(dtype))))
        x = peer.example_input(layer.kind, layer.size, layer.channels, dtype)
        peer_ids.append(theirs.add(lowered(layer, dtype, work), x))
    ours_times: list[list[float]] = [[] for _ in ours_ids]
    peer_times: list[list[float]] = [[] for _ in peer_ids]
    for _ in range(rounds):
        for i, (a, b) in enumerate(zip(ours_ids, peer_ids, strict=True)):
            first = min(ours.run(a, 3))
            count = WARM_UP + max(5, min(100, int(BLOCK_MICROSECONDS / max(first, 1))))
            ours_times[i] += ours.run(a, count)[WARM_UP:]
            peer_times[i] += theirs.run(b, count)[WARM_UP:]
    ours.close()
    report(layers, dtype, threads, ours_times, peer_times)


def report(
    layers: list[Layer], dtype: str, threads: int, ours_times: list[list[float]], peer_times: list[list[float]]
) -> None:
    """Print the table: medians, and in brackets the first deciles, which other load changes less."""

    def both(times: list[float]) -> tuple[float, float]:
        return median(times), quantiles(times, n=10)[0]

    empty = both(peer_times[0])
    print(f"\n### {dtype}, {threads} thread{'s' * (threads > 1)}")
    print(f"\nsubtracted from executorch's times: {empty[0]:.0f} ({empty[1]:.0f}) us\n")
    print("| layer | count | ours us | peer us | ours / peer |\n|---|---|---|---|---|")
    for network in dict.fromkeys(layer.network for layer in layers):
        sums = [0.0] * 4
        for layer, a, b in zip(layers, ours_times[1:], peer_times[1:], strict=True):
            if layer.network != network:
                continue
            peer_raw = both(b)
            row = (*both(a), *(max(raw - base, 0.1) for raw, base in zip(peer_raw, empty, strict=True)))
            sums = [total + layer.count * value for total, value in zip(sums, row, strict=True)]
            print(table_row(layer.label(), str(layer.count), row))
        print(table_row(f"**{network}, all layers**", "", tuple(sums)), flush=True)


def table_row(label: str, count: str, row: tuple[float, ...]) -> str:
    ours, ours_low, theirs, theirs_low = row
    ratios = f"{ours / theirs:.2f} ({ours_low / theirs_low:.2f})"
    return f"| {label} | {count} | {ours:.0f} ({ours_low:.0f}) | {theirs:.0f} ({theirs_low:.0f}) | {ratios} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Time single layers with edgecore's build of XNNPACK and executorch's."
    )
    parser.add_argument("--dtype", nargs="+", default=["f32", "int8"], choices=["f32", "int8"])
    parser.add_argument("--network", nargs="+", default=["mobilenet_v2", "resnet50"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "edgecore-layers")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    program = build(arguments.work)
    layers = [layer for layer in read_layers() if layer.network in arguments.network]
    for dtype in arguments.dtype:
        for threads in arguments.threads:
            measure(layers, dtype, threads, arguments.rounds, arguments.work, program)


if __name__ == "__main__":
    main()
