#!/bin/sh
# Vela's summary counts the weights of the memory mode Sram_Only as on-chip flash, not as SRAM.
#
# Expected: in the mode Sram_Only, which vela.ini describes as all of the network in SRAM, sram_memory_used includes the
# weights, and weights_storage_area says SRAM.
# What happens (ethos-u-vela 5.2.0): weights_storage_area is "On-chip Flash", and sram_memory_used has the feature maps
# only: 32 KiB for a convolution whose weights take 37 KiB more of the same SRAM on an Ethos-U55 and 41 on an Ethos-U85,
# for systems that have no on-chip flash. A board with 64 KiB of SRAM looks large enough and is not.
# What to do: add on_chip_flash_memory_used to sram_memory_used in this mode.
# edgecore: reports these weights as SRAM beside the rest (`plugins/edgecore-ethosu/tests/test_ethosu_vela.py`).
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
systems = (("ethos-u55-128", "Ethos_U55_High_End_Embedded"), ("ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid"))
for accelerator, system in systems:
    summary, _ = vela(network(64, 16), accelerator, system, "Sram_Only")
    sram, flash = (float(summary[key]) for key in ("sram_memory_used", "on_chip_flash_memory_used"))
    weights = float(summary["total_npu_encoded_weights"]) / 1024
    area = summary["weights_storage_area"]
    print(f"{accelerator}: weights in {area}, {weights:.1f} KiB; SRAM {sram} KiB, on-chip flash {flash:.1f} KiB")
    assert area == "On-chip Flash" and sram == 32 and flash > weights > 30, "the behaviour has changed"
PY
"$python" "$folder/run.py"
