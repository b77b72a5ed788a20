#!/bin/sh
# onnxruntime-qnn computes with fp16 in sessions without soc_model after any session with it.
#
# Expected: the options of a session hold for this session: one without soc_model gives the same numbers, whatever other
# sessions the process has had.
# What happens (onnxruntime-qnn 2.7.0, HTP emulator of the wheel): x * x in float32 without soc_model is exact; after a
# session with soc_model 57, which computes with fp16, a new session without it is off by a thousandth as well, for the
# rest of the process. So the order of tests decides about their results.
# What to do: always set soc_model; give each target, and each compilation whose result is kept, a process of its own.
# edgecore: asks the provider in a process of its own for each request
# (`plugins/edgecore-qnn/tests/provider/test_process.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" onnxruntime==1.31.1 onnxruntime-qnn==2.7.0 onnx==1.23.2 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import numpy as np
import onnxruntime as ort
from onnx import helper
from qnn_provider import serialized, session


def error(options):
    """Return the largest relative error of x * x in a new session."""
    x = (np.arange(1, 9, dtype=np.float32) / 3).reshape(1, 8)
    values = [helper.make_tensor_value_info(key, 1, [1, 8]) for key in "xy"]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["y"])], "g", values[:1], values[1:])
    result = session(serialized(graph), {"backend_type": "htp", **options}).run(None, {"x": x})[0]
    return float(np.abs(result / (x * x) - 1).max())


print("onnxruntime", ort.__version__)
before, with_soc, after = error({}), error({"soc_model": "57"}), error({})
print(f"relative error: without soc_model {before:.1e}, with it {with_soc:.1e}, without it again {after:.1e}")
assert before < 1e-6 and with_soc > 1e-4, "the precision of soc_model has changed"
assert after == with_soc, "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
