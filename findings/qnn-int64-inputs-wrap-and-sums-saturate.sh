#!/bin/sh
# onnxruntime-qnn cuts int64 inputs to 32 bits, and its int32 sums and products saturate.
#
# Expected: the provider computes int64 in 64 bits, or refuses the node; and int32 arithmetic wraps around, as with ONNX
# Runtime's CPU provider, PyTorch and C compilers in practice.
# What happens (onnxruntime-qnn 2.7.0, HTP emulator of the wheel, SM8650): it takes Add and Mul of int64. An input keeps
# its low 32 bits: 3,000,000,000 + 1 gives -1,294,967,295, and 2**40 + 5 enters as 5. Then sums, differences and
# products stop at -2**31 and 2**31 - 1, in int32 as well: 2**31 - 1 + 2 stays 2**31 - 1, where the CPU provider gives
# -2**31 + 1. A hash or a random generator of wrapping products gives other numbers, without a message.
# What to do: keep hashes, time stamps and wrapping arithmetic outside of the part for the NPU.
# edgecore: delegates no arithmetic of integers to QNN, and its README says that int64 has 32 bits there
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


def compute(operator, dtype, left, right):
    inputs = {"a": np.array([left], dtype), "b": np.array([right], dtype)}
    cpu, npu = run([helper.make_node(operator, ["a", "b"], ["y"])], inputs, kind=7 if dtype is np.int64 else 6)
    return cpu[0].tolist(), npu[0].tolist()


print("onnxruntime", ort.__version__)
most = 2**31 - 1
cases = {
    ("Add", np.int64, (3_000_000_000, 2**40 + 5), (1, 0)): (-1294967295, 5),
    ("Add", np.int32, (most, -most), (2, -7)): (most, -most - 1),
    ("Sub", np.int32, (-most, most), (7, -2)): (-most - 1, most),
    ("Mul", np.int32, (65536, 65536), (65537, -65537)): (most, -most - 1),
}
for (operator, dtype, left, right), expected in cases.items():
    cpu, npu = compute(operator, dtype, left, right)
    print(f"{operator} {dtype.__name__} {left} {right}: CPU {cpu}, QNN {npu}")
    assert tuple(npu) == expected and cpu != npu, "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
