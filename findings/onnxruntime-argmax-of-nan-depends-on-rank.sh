#!/bin/sh
# onnxruntime's ArgMax finds a NaN in a vector, but not in the same numbers as a row of a matrix.
#
# Expected: a NaN counts as the largest number, as in PyTorch and NumPy, or is skipped, in each operator that looks for
# a maximum, and in each shape of the tensor.
# What happens (onnxruntime 1.31.1, CPU provider on x86-64): ArgMax of the vector [1, 2, NaN, 0] is 2, the NaN; of the
# matrix [[1, 2, NaN, 0]] it is 1. ReduceMax and TopK are NaN only if it comes first, MaxPool only if it comes last. A
# class that was chosen by ArgMax and a score from ReduceMax so belong to different entries, and a test on a single
# vector says nothing about a batch.
# What to do: look for NaN before such operators; take the value by Gather at ArgMax instead of a second maximum.
# edgecore: its kernels take a NaN for the largest number (`tests/compile/test_values_of_findings.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" onnxruntime==1.31.1 onnx==1.23.2 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

ort.set_default_logger_severity(3)
NAN = np.nan


def run(values):
    """Return ArgMax of the vector, then ArgMax, ReduceMax, TopK's value and MaxPool of the row."""
    row = [1, 1, 4]
    nodes = [
        helper.make_node("ArgMax", ["vector"], ["of_vector"], axis=0, keepdims=0),
        helper.make_node("ArgMax", ["row"], ["of_row"], axis=2, keepdims=0),
        helper.make_node("ReduceMax", ["row"], ["largest"], keepdims=0),
        helper.make_node("TopK", ["row", "one"], ["top", "where"]),
        helper.make_node("MaxPool", ["row"], ["pool"], kernel_shape=[4]),
    ]
    inputs = [helper.make_tensor_value_info(*spec) for spec in (("vector", 1, [4]), ("row", 1, row))]
    kinds = {"of_vector": TensorProto.INT64, "of_row": TensorProto.INT64, "largest": 1, "top": 1, "pool": 1}
    outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
    one = helper.make_tensor("one", TensorProto.INT64, [1], [1])
    graph = helper.make_graph(nodes, "g", inputs, outputs, [one])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.array(values, np.float32)
    return [result.item() for result in session.run(list(kinds), {"vector": x, "row": x.reshape(row)})]


print("onnxruntime", ort.__version__, "onnx", onnx.__version__)
wanted = {(NAN, 1, 2, 3): [0, 0, NAN, NAN, 3], (1, 2, NAN, 0): [2, 1, 2, 2, 2], (1, 2, 3, NAN): [3, 2, 3, 3, NAN]}
for values, expected in wanted.items():
    got = run(values)
    print(f"{list(values)}: ArgMax of the vector {got[0]}, of the row {got[1]};", end=" ")
    print(f"ReduceMax {got[2]}, TopK {got[3]}, MaxPool {got[4]}")
    np.testing.assert_array_equal(got, expected, err_msg="the behaviour has changed")
PY
"$python" "$folder/run.py"
