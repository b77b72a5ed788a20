"""Compile a small network with Vela's command line."""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from serializer.tosa_serializer import DType, Op, TosaSerializer, TosaSerializerAttribute


def network(channels: int, size: int) -> bytes:
    """Return a TOSA graph: a 3x3 convolution of int8 and its RESCALE."""
    graph = TosaSerializer("", tosa_version_major=1, tosa_version_minor=0, tosa_version_draft=False)
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


def vela(data: bytes, accelerator: str, system: str, memory: str, *flags: str) -> tuple[dict[str, Any], str]:
    """Return the summary that Vela writes, and what it prints."""
    options = {"accelerator-config": accelerator, "config": "Arm/vela.ini", "system-config": system}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "g.tosa").write_bytes(data)
        options |= {"memory-mode": memory, "output-format": "raw", "output-dir": name}
        command = [sys.executable, "-m", "ethosu.vela", str(folder / "g.tosa")]
        command += [*(f"--{key}={value}" for key, value in options.items()), *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (summary,) = folder.glob("*summary*.csv")
        with summary.open() as file:
            return next(csv.DictReader(file)), done.stdout + done.stderr
