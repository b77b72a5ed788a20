#!/bin/sh
# A context file of onnxruntime-qnn loads only if the library has its own name, when it compiles and when it loads.
#
# Expected: register_execution_provider_library(name, path) takes any name for the library; the compiled context belongs
# to the provider, and loads in each process that has registered it.
# What happens (onnxruntime 1.31.1, onnxruntime-qnn 2.7.0): under a name of one's own the library works, compiles and
# computes. The EPContext model holds this name as its source. A process that has the library under get_ep_name() cannot
# load it: the node is assigned to no provider, and with fallback to the CPU forbidden the session fails with a message
# about the CPU, not about the name. Nor does one that has another name load its own file.
# What to do: register it under onnxruntime_qnn.get_ep_name(), always.
# edgecore: registers it under this name (`plugins/edgecore-qnn/tests/provider/test_process.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" onnxruntime==1.31.1 onnxruntime-qnn==2.7.0 onnx==1.23.2 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import os
import subprocess
import sys

import numpy as np
import onnxruntime as ort
import onnxruntime_qnn
from onnx import helper

FILE = os.path.join(os.path.dirname(__file__), "context.onnx")
OFFICIAL = onnxruntime_qnn.get_ep_name()


def session(name, model, compile_it):
    ort.set_default_logger_severity(4)
    ort.register_execution_provider_library(name, onnxruntime_qnn.get_library_path())
    devices = [device for device in ort.get_ep_devices() if device.ep_name == name]
    options = ort.SessionOptions()
    entries = {"session.disable_cpu_ep_fallback": "1"}
    if compile_it:
        entries |= {"ep.context_enable": "1", "ep.context_file_path": FILE, "ep.context_embed_mode": "1"}
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    options.add_provider_for_devices(devices, {"soc_model": "57", "backend_type": "htp"})
    return ort.InferenceSession(model, sess_options=options)


def child(action, name):
    """Compile or load in a process of its own; return whether that works."""
    done = subprocess.run([sys.executable, __file__, action, name], capture_output=True, text=True)
    return done.returncode == 0, (done.stderr.strip().splitlines() or [""])[-1]


def main():
    print("onnxruntime", ort.__version__)
    for compiled, loaded in ((OFFICIAL, OFFICIAL), ("my_qnn", OFFICIAL), ("my_qnn", "my_qnn")):
        assert child("compile", compiled)[0], "it does not compile"
        works, message = child("load", loaded)
        print(f"compiled under {compiled}, loaded under {loaded}: {works} {message[-110:]}")
        assert works == (compiled == OFFICIAL), "the behaviour has changed"
        os.remove(FILE)


if len(sys.argv) == 1:
    main()
elif sys.argv[1] == "compile":
    values = [helper.make_tensor_value_info(key, 1, [1, 8]) for key in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session(sys.argv[2], model.SerializeToString(), True)
else:
    session(sys.argv[2], FILE, False).run(None, {"x": np.ones((1, 8), np.float32)})
PY
"$python" "$folder/run.py"
