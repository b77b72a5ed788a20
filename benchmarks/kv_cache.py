"""Time and memory of a token of a decoder with a static KV cache, for caches of several capacities.

    python benchmarks/kv_cache.py [--width 512] [--tokens 200] [--threads 1]

The decoder has two layers, 8 query heads and 4 key heads. `in XNNPACK`: the delegate keeps the caches. `in the core`: it
gets them as arguments (`skip_mutable_buffer`). `kernels`: no backend. The runs alternate in blocks of tokens; times are
medians. The positions are the last ones of a cache of the smallest capacity, so that the attention sees the same keys at
every capacity; the last column repeats the measurement at the end of the largest cache. Memory is what loading and the
first token add to the process, in a process of its own for each line.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import edgecore

sys.path.insert(0, str(Path(__file__).parents[1] / "plugins/edgecore-xnnpack/tests"))
from decoder import Decoder, Sizes

CAPACITIES = (128, 4096)
XNNPACK = edgecore.Backend("xnnpack")
PLACES = {
    "in XNNPACK": [XNNPACK],
    "in the core": [edgecore.Backend("xnnpack", skip_mutable_buffer=True)],
    "kernels": [],
}
BLOCK = 10


def compile_decoder(place: str, capacity: int, width: int) -> bytes:
    """Compile the method for one token."""
    decoder = Decoder(Sizes(capacity, width, heads=8, kv_heads=4)).eval()
    inputs = (torch.zeros(1, 1, dtype=torch.long), torch.arange(1))
    return edgecore.compile(decoder, inputs, backends=PLACES[place], runtime="edgecore").buffer


def resident_bytes() -> int:
    """Return the memory of this process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def measure_memory(place: str, capacity: int, width: int, threads: int) -> int:
    """Return the bytes that loading and one token add, without the file itself, measured in a new process."""
    command = [sys.executable, __file__, "--memory", place, str(capacity), "--width", str(width)]
    printed = subprocess.run([*command, "--threads", str(threads)], check=True, capture_output=True, text=True).stdout
    return int(printed)


def token(model: edgecore.Program, position: int) -> None:
    """Run one token."""
    model.forward(torch.zeros(1, 1, dtype=torch.long), torch.tensor([position]))


def time_tokens(models: dict, start: int, tokens: int) -> dict:
    """Return the median time of a token for each model, at the positions from `start` on."""
    times: dict = {key: [] for key in models}
    for block in range(tokens // BLOCK + 1):
        for key, model in models.items():
            for step in range(BLOCK):
                begin = time.perf_counter()
                token(model, start + step)
                if block:
                    times[key].append(time.perf_counter() - begin)
    return {key: statistics.median(each) for key, each in times.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        place, capacity = options.memory[0], int(options.memory[1])
        data = compile_decoder(place, capacity, options.width)
        before = resident_bytes()
        model = edgecore.load(data, threads=options.threads)
        token(model, 0)
        print(resident_bytes() - before)
        return
    files = {(place, size): compile_decoder(place, size, options.width) for place in PLACES for size in CAPACITIES}
    models = {key: edgecore.load(data, threads=options.threads) for key, data in files.items()}
    with torch.no_grad():
        near = time_tokens(models, CAPACITIES[0] - BLOCK, options.tokens)
        far = time_tokens(
            {key: model for key, model in models.items() if key[1] == CAPACITIES[-1]},
            CAPACITIES[-1] - BLOCK,
            options.tokens,
        )
    print(f"width {options.width}, {options.threads} threads; caches of {CAPACITIES[0]} and {CAPACITIES[-1]} positions")
    for place in PLACES:
        small, large = (near[place, size] for size in CAPACITIES)
        memory = [measure_memory(place, size, options.width, options.threads) / 2**20 for size in CAPACITIES]
        print(
            f"| {place} | {small * 1e6:.0f} us | {large * 1e6:.0f} us | {large / small:.2f} "
            f"| {far[place, CAPACITIES[-1]] * 1e6:.0f} us | {memory[0]:.1f} MiB | {memory[1]:.1f} MiB |"
        )


if __name__ == "__main__":
    main()
