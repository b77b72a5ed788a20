#!/bin/sh
# Vela estimates a network for an Ethos-U55 with the clock and memories of an Ethos-U85, and the other way round.
#
# Expected: a --system-config whose name has Ethos_U85 in it is refused for --accelerator-config=ethos-u55-128, or at
# least causes a warning: the clocks, ports and memories are those of another chip.
# What happens (ethos-u-vela 5.2.0): it compiles with status 0 and no word. With Ethos_U85_SYS_DRAM_Mid an Ethos-U55
# runs at 1 GHz in the estimate instead of 500 MHz, which the inferences per second show as twice as many or more. An
# Ethos-U85 with Ethos_U55_High_End_Embedded runs at half of its clock. A typing error in a build script so changes all
# estimates, and the placement of weights that follows from the memories.
# What to do: check that both options name one family; read core_clock in the summary.
# edgecore: refuses a system configuration of another family (`plugins/edgecore-ethosu/tests/test_ethosu_options.py`).
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
small, large = "ethos-u55-128", "ethos-u85-256"
old, new = "Ethos_U55_High_End_Embedded", "Ethos_U85_SYS_DRAM_Mid"
clocks = {}
for accelerator, system in ((small, old), (small, new), (large, new), (large, old)):
    summary, output = vela(network(16, 16), accelerator, system, "Sram_Only" if system == new else "Shared_Sram")
    clocks[accelerator, system] = clock = float(summary["core_clock"])
    rate = float(summary["inferences_per_second"])
    print(f"{accelerator} with {system}: {clock / 1e6:.0f} MHz, {rate:.0f} inferences per second")
    assert "warn" not in output.lower(), "the behaviour has changed"
assert clocks[small, new] == clocks[large, new] == 1e9 and clocks[large, old] == clocks[small, old] == 5e8
PY
"$python" "$folder/run.py"
