#!/bin/sh
# onnxruntime-qnn ignores the attribute nearest_mode of Resize, and treats pytorch_half_pixel as asymmetric.
#
# Expected: a nearest Resize takes the pixels that its attributes define (ONNX: round_prefer_floor, round_prefer_ceil,
# floor or ceil of the coordinate), or the provider refuses the node, as it does for asymmetric with round_prefer_floor.
# What happens (onnxruntime-qnn 2.7.0, HTP emulator of the wheel, SM8650): for half_pixel the results of all four modes
# are those of round_prefer_ceil, so the default, round_prefer_floor, takes pixels 1 and 3 for 4 -> 2 where 0 and 2 are
# right, and 0 1 1 2 3 3 for 4 -> 6 where 0 0 1 2 2 3 are. pytorch_half_pixel gives the pixels of asymmetric with floor.
# asymmetric with floor, which exporters write for PyTorch's nearest, is right.
# What to do: write nearest as asymmetric with floor, or as half_pixel with round_prefer_ceil (PyTorch's nearest-exact);
# compare the pixels with the CPU provider.
# edgecore: writes PyTorch's nearest as asymmetric with floor, and computes nearest-exact by indices
# (`plugins/edgecore-qnn/tests/test_partitioner.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" onnxruntime==1.31.1 onnxruntime-qnn==2.7.0 onnx==1.23.2 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import numpy as np
import onnxruntime as ort
from onnx import helper
from qnn_provider import run


def pixels(coordinates, mode, size):
    attributes = {"mode": "nearest", "coordinate_transformation_mode": coordinates, "nearest_mode": mode}
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], **attributes)
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)
    both = run([node], {"x": x}, {"s": np.array([1, 1, 1, size])})
    return [np.rint(result).astype(int).ravel().tolist() for result in both]


print("onnxruntime", ort.__version__)
modes = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
for size in (2, 6):
    for coordinates in ("half_pixel", "pytorch_half_pixel"):
        rows = {mode: pixels(coordinates, mode, size) for mode in modes}
        for mode, (cpu, npu) in rows.items():
            print(f"4 -> {size}, {coordinates}, {mode}: CPU {cpu}, QNN {npu}")
        kind = ("half_pixel", "round_prefer_ceil") if coordinates == "half_pixel" else ("asymmetric", "floor")
        right = pixels(*kind, size)
        assert right[0] == right[1], "QNN does not compute this one rightly any more"
        assert all(npu == right[0] for _, npu in rows.values()), "the behaviour has changed"
        assert len({str(cpu) for cpu, _ in rows.values()}) > 1
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
