#!/bin/sh
# onnxruntime-qnn compiles one model to other bytes each time, except the first time in a process.
#
# Expected: a compiler without random parts gives equal bytes for equal models and options, so that builds can be
# repeated and caches compare hashes.
# What happens (onnxruntime 1.31.1, onnxruntime-qnn 2.7.0, SM8650): the context binary of the first session of a process
# has the same SHA-256 in each process. The second session in the same process, for the same model, options and path,
# gives another one, and so does a session after that of another model.
# What to do: compile each model in a process of its own where bytes matter (signed files, caches, comparisons of
# builds).
# edgecore: compiles each partition in a process of its own (`plugins/edgecore-qnn/tests/provider/test_process.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" onnxruntime==1.31.1 onnxruntime-qnn==2.7.0 onnx==1.23.2 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import hashlib
import os
import subprocess
import sys

import onnxruntime as ort
import onnxruntime_qnn
from onnx import helper

FOLDER = os.path.dirname(os.path.abspath(__file__))
MODELS = {"relu": ["Relu"], "three": ["Relu", "Exp", "Neg"]}


def compile_model(name):
    """Return the SHA-256 of the context binary; each session writes to the same path."""
    values = [f"v{index}" for index in range(len(MODELS[name]) + 1)]
    nodes = [helper.make_node(kind, [values[i]], [values[i + 1]]) for i, kind in enumerate(MODELS[name])]
    ends = [helper.make_tensor_value_info(value, 1, [1, 16]) for value in (values[0], values[-1])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    options = ort.SessionOptions()
    entries = {"session.disable_cpu_ep_fallback": "1", "ep.context_enable": "1", "ep.context_embed_mode": "0"}
    for key, value in (entries | {"ep.context_file_path": os.path.join(FOLDER, "context.onnx")}).items():
        options.add_session_config_entry(key, value)
    devices = [device for device in ort.get_ep_devices() if device.ep_name == onnxruntime_qnn.get_ep_name()]
    options.add_provider_for_devices(devices, {"soc_model": "57", "backend_type": "htp"})
    ort.InferenceSession(model, sess_options=options)
    (file,) = (entry.path for entry in os.scandir(FOLDER) if entry.name.endswith(".bin"))
    with open(file, "rb") as binary:
        digest = hashlib.sha256(binary.read()).hexdigest()[:12]
    os.remove(file)
    os.remove(os.path.join(FOLDER, "context.onnx"))
    return digest


if len(sys.argv) > 1:
    ort.set_default_logger_severity(3)
    ort.register_execution_provider_library(onnxruntime_qnn.get_ep_name(), onnxruntime_qnn.get_library_path())
    print("digests", *map(compile_model, sys.argv[1:]))
    raise SystemExit
print("onnxruntime", ort.__version__)
runs = (["relu"], ["relu"], ["relu", "relu"], ["three", "relu"])
digests = []
for names in runs:
    done = subprocess.run([sys.executable, __file__, *names], capture_output=True, text=True, check=True)
    digests.append(next(line for line in done.stdout.splitlines() if line.startswith("digests")).split()[1:])
    print(f"one process, {', '.join(names)}: {' '.join(digests[-1])}")
first, again, twice, other = digests
assert first == again == twice[:1], "the first compilation of a process is not reproducible any more"
assert twice[1] != twice[0] and other[1] != first[0], "the behaviour has changed"
PY
"$python" "$folder/run.py"
