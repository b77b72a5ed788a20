"""Print the shaders that compute linear layers in float16 on the GPU path, and their errors; for test_later_lavapipe.py."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

import torch

import edgecore
import edgecore_vulkan
from edgecore_vulkan.devices import list_devices

SIZES = [  # rows, inputs, outputs: around the tiles of lavapipe's matrices of 8 x 8 x 8
    *((rows, 36, outputs) for rows in (32, 33, 63, 64, 65, 70) for outputs in (32, 41, 64, 66)),
    *((40, inputs, 40) for inputs in (8, 9, 15, 16, 17, 31, 70)),
    (257, 256, 100),
    (128, 300, 130),
]


def main() -> None:
    """Print a JSON object: the features that are used, and [rows, inputs, outputs, shader, error] of each layer.

    An error is the largest difference from the product of the rounded float16 numbers in float64, divided by what
    rounding the result to float16 may change, and the sums in float32.
    """
    torch.manual_seed(0)
    rows = []
    for size in SIZES:
        count, inputs, outputs = size
        layer = torch.nn.Linear(inputs, outputs, bias=outputs % 2 == 0).eval()
        x = torch.randn(count, inputs)
        backend = edgecore.Backend("vulkan", force_fp16=True)
        program = edgecore.compile(layer, (x,), backends=[backend], runtime="edgecore")
        options = {"vulkan": {"validation": True, "gpu_shaders": True}}
        loaded = edgecore.load(program.buffer, trace=True, options=options)
        result = torch.as_tensor(loaded.forward(x)).double()
        a, b = x.half().double(), layer.weight.half().double().T
        bias = 0 if layer.bias is None else layer.bias.double()
        expected = a @ b + bias
        bound = 2**-11 * expected.abs() + inputs * 2**-24 * (a.abs() @ b.abs() + 1)
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "trace.etdump"
            loaded.write_trace(path)
            (shader,) = {found.decode() for found in re.findall(rb'"kernel": "(gemm\w*)', path.read_bytes())}
        rows.append([*size, shader, float(((result - expected).abs() / bound).max())])
    (device, *_) = list_devices(edgecore_vulkan.native_library())
    json.dump({"used": device.used, "layers": rows}, sys.stdout)


if __name__ == "__main__":
    main()
