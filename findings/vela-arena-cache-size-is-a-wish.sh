#!/bin/sh
# Vela compiles a network that needs more SRAM than --arena-cache-size allows, and does not say so.
#
# Expected: --arena-cache-size is a limit: if the scheduler cannot keep the feature maps within it, Vela ends with an
# error or prints a warning, since the network will not fit into the memory of the board.
# What happens (ethos-u-vela 5.2.0): a convolution of 64x64x16, with --arena-cache-size of 40,000 bytes, is compiled
# with status 0 and uses 128 KiB of SRAM, as its input and output take 64 KiB each. No line of the output has a warning;
# the size that was asked for stands in the summary, beside the size used. On the device the network writes past the
# arena, or its allocation fails.
# What to do: compare sram_memory_used (KiB) in the summary with the SRAM of the board, in the script that calls Vela.
# edgecore: raises an error if a graph needs more SRAM than the limit
# (`plugins/edgecore-ethosu/tests/test_ethosu_vela.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" tosa-tools==2026.8.0 ethos-u-vela==5.2.0 numpy==2.1.3)
cat > "$folder/run.py" <<'PY'
import csv
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
from serializer.tosa_serializer import DType, Op, TosaSerializer, TosaSerializerAttribute

FOLDER = Path(__file__).parent


def network(channels, size):
    """Return a TOSA graph: a 3x3 convolution of int8 and its RESCALE."""
    graph = TosaSerializer(str(FOLDER), tosa_version_major=1, tosa_version_minor=0, tosa_version_draft=False)
    weight = np.random.default_rng(0).integers(-127, 128, (channels, 3, 3, channels)).astype(np.int8)
    arrays = [weight, np.zeros(channels, np.int32), np.zeros(1, np.int8), np.zeros(1, np.int8)]
    arrays += [np.array([1 << 30], np.int32), np.array([40], np.int8), np.zeros(1, np.int32), np.zeros(1, np.int8)]
    kinds = {np.int8: DType.INT8, np.int32: DType.INT32}
    names = [graph.addConst(list(array.shape), kinds[array.dtype.type], array).name for array in arrays]
    shape = [1, size, size, channels]
    x, y = graph.addPlaceholder(shape, DType.INT8, None), graph.addIntermediate(shape, DType.INT32)
    convolution, rescale = TosaSerializerAttribute(), TosaSerializerAttribute()
    convolution.Conv2dAttribute([1] * 4, [1, 1], [1, 1], False, DType.INT32)
    rescale.RescaleAttribute(True, 1, False, False, False)
    graph.addOperator(Op.CONV2D, [x.name, *names[:4]], [y.name], convolution)
    graph.addOperator(Op.RESCALE, [y.name, *names[4:]], [graph.addOutput(shape, DType.INT8).name], rescale)
    return bytes(graph.serialize())


def vela(data, accelerator, system, memory, *flags):
    """Return the summary that Vela writes."""
    folder = Path(tempfile.mkdtemp(dir=FOLDER))
    (folder / "g.tosa").write_bytes(data)
    options = {"accelerator-config": accelerator, "config": "Arm/vela.ini", "system-config": system}
    options |= {"memory-mode": memory, "output-format": "raw", "output-dir": str(folder)}
    command = [sys.executable, "-m", "ethosu.vela", str(folder / "g.tosa")]
    command += [*(f"--{key}={value}" for key, value in options.items()), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (summary,) = folder.glob("*summary*.csv")
    with summary.open() as file:
        return next(csv.DictReader(file)), done.stdout + done.stderr


print("ethos-u-vela", version("ethos-u-vela"))
wanted = 40_000
arguments = ("ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram", f"--arena-cache-size={wanted}")
summary, output = vela(network(16, 64), *arguments)
used = float(summary["sram_memory_used"]) * 1024
print(f"asked for {wanted} bytes, arena_cache_size {summary['arena_cache_size']} KiB, used {used:.0f} bytes")
print("lines with a warning:", [line for line in output.splitlines() if "warn" in line.lower()])
assert float(summary["arena_cache_size"]) * 1024 == wanted and used == 2 * 64 * 64 * 16, "the behaviour has changed"
assert "warn" not in output.lower(), "the behaviour has changed"
PY
"$python" "$folder/run.py"
