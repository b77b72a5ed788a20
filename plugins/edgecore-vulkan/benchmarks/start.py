"""Measure how long MobileNetV2 takes from its file to its first result, with and without compiled shaders kept.

    python plugins/edgecore-vulkan/benchmarks/start.py [--rounds 20] [--runtime edgecore]

Each start has a process of its own, and starts with and without a cache alternate. A start is the load of the file and
the first run: the imports of Python and the compilation of the model are not in it. Its time is given as wall time and as
processor time of all threads, which other programs disturb less. Two things can keep compiled
shaders: the folder of the option ``pipeline_cache_folder``, which holds what the driver gives as Vulkan's pipeline
cache, and a cache of the driver's own. lavapipe of Mesa 22.3 gives nothing, and Mesa keeps shaders in
``MESA_SHADER_CACHE_DIR``. A start with a cache has both, which earlier starts have filled; one without has neither.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CHILD = """
import json, sys, time
import torch
import edgecore

torch.set_num_threads(1)
path, folder = sys.argv[1:]
torch.manual_seed(0)
image = torch.randn(1, 3, 224, 224)
options = {"vulkan": {"pipeline_cache_folder": folder}} if folder else {}
start = time.perf_counter()
processor = time.process_time()
program = edgecore.load(path, options=options)
loaded = time.perf_counter()
program.forward(image)
first = time.perf_counter()
processor = time.process_time() - processor
program.forward(image)
second = time.perf_counter()
print(json.dumps([loaded - start, first - loaded, second - first, processor]))
"""


def start(path: Path, folder: Path | None) -> list[float]:
    """Return the seconds of the load, the first and the second run in a new process, and the processor time of a start.

    Compiled shaders are kept in ``folder``; without it there is no cache.
    """
    environment = {key: value for key, value in os.environ.items() if key != "EDGECORE_VULKAN_CACHE"}
    if folder is None:
        environment["MESA_SHADER_CACHE_DISABLE"] = "true"
    else:
        environment["MESA_SHADER_CACHE_DIR"] = str(folder / "mesa")
    words = [sys.executable, "-c", CHILD, str(path), "" if folder is None else str(folder / "pipelines")]
    result = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    seconds: list[float] = json.loads(result.stdout.splitlines()[-1])
    return seconds


def compile_network(path: Path, runtime: str) -> None:
    """Write the file of MobileNetV2."""
    import edgecore

    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
    from zoo import make

    model, inputs = make("mobilenet_v2")
    path.write_bytes(edgecore.compile(model, inputs, backends=[edgecore.Backend("vulkan")], runtime=runtime).buffer)


def main() -> None:
    """Print the medians and the fastest starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--runtime", default="executorch-1.5", help="the target runtime of the compilation")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "mobilenet.pte"
        compile_network(path, arguments.runtime)
        start(path, folder)  # fills the caches
        rounds = [(start(path, None), start(path, folder)) for _ in range(arguments.rounds)]
    without, kept = ([pair[i] for pair in rounds] for i in range(2))
    for title, starts in (("without", without), ("with", kept)):
        load, first, second, _ = (statistics.median(column) * 1e3 for column in zip(*starts, strict=True))
        print(f"{title} cache: load {load:.0f} ms, first run {first:.0f} ms, second run {second:.0f} ms (medians)")
    sums = [[one[0] + one[1] for one in starts] for starts in (without, kept)]
    medians = [statistics.median(column) for column in sums]
    fastest = [min(column) for column in sums]
    paired = statistics.median(b / a for a, b in zip(*sums, strict=True))
    print(f"start: median {medians[0] * 1e3:.0f} and {medians[1] * 1e3:.0f} ms, ratio {medians[1] / medians[0]:.3f}")
    print(f"start: fastest {fastest[0] * 1e3:.0f} and {fastest[1] * 1e3:.0f} ms, ratio {fastest[1] / fastest[0]:.3f}")
    print(f"median of the ratios of neighbours: {paired:.3f}")
    used = [min(one[3] for one in starts) for starts in (without, kept)]
    print(f"processor time: minimum {used[0] * 1e3:.0f} and {used[1] * 1e3:.0f} ms, ratio {used[1] / used[0]:.3f}")


if __name__ == "__main__":
    main()
