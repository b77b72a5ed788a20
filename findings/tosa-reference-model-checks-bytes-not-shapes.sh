#!/bin/sh
# TOSA's reference model takes an input of another shape or dtype, if it has the same number of bytes.
#
# Expected: run() compares the shape and the dtype of each array with those in the graph, and raises an error where they
# differ, as it raises one for a wrong number of inputs.
# What happens (tosa-tools 2026.8.0, Python interface): only the size in bytes counts. An image in the order NCHW runs
# in a graph for NHWC, int32 values run in a graph for float32, which then adds bit patterns, and the status is
# TOSA_VALID. With another number of bytes it raises a ValueError.
# What to do: compare array.shape and array.dtype with the graph before run().
# edgecore: checks shapes and dtypes before a graph runs (`plugins/edgecore-tosa/tests/test_simulator.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" tosa-tools==2026.8.0 ethos-u-vela==5.2.0 numpy==2.1.3)
cat > "$folder/run.py" <<'PY'
from importlib.metadata import version

import numpy as np
import tosa_reference_model
from serializer.tosa_serializer import DType, Op, TosaSerializer, TosaSerializerAttribute



def doubled(array):
    """Run x + x of float32 with the shape [1, 2, 2, 3]."""
    shape = [1, 2, 2, 3]
    graph = TosaSerializer("", tosa_version_major=1, tosa_version_minor=0, tosa_version_draft=False)
    x, attribute = graph.addPlaceholder(shape, DType.FP32, None), TosaSerializerAttribute()
    attribute.AddAttribute()
    graph.addOperator(Op.ADD, [x.name, x.name], [graph.addOutput(shape, DType.FP32).name], attribute)
    results, status = tosa_reference_model.run(graph.serialize(), [array])
    return status.name, np.frombuffer(results[0].tobytes(), np.float32)


print("tosa-tools", version("tosa-tools"))
numbers = np.arange(12)
cases = {
    "[1, 2, 2, 3] of float32": numbers.reshape(1, 2, 2, 3).astype(np.float32),
    "[1, 3, 2, 2] of float32": numbers.reshape(1, 3, 2, 2).astype(np.float32),
    "[6, 2] of float32": numbers.reshape(6, 2).astype(np.float32),
    "[1, 2, 2, 3] of int32": numbers.reshape(1, 2, 2, 3).astype(np.int32),
}
for name, array in cases.items():
    status, result = doubled(array)
    print(f"{name}: {status} {result[:4]}")
    assert status == "TOSA_VALID", "the behaviour has changed"
try:
    doubled(np.zeros((1, 2, 2, 4), np.float32))
except ValueError as error:
    print("[1, 2, 2, 4] of float32: ValueError:", error)
else:
    raise AssertionError("the behaviour has changed")
PY
"$python" "$folder/run.py"
