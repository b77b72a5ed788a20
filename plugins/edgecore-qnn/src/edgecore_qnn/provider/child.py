"""`python -m edgecore_qnn.provider.child FOLDER`: ask ONNX Runtime's QNN provider about FOLDER/model.onnx.

`FOLDER/request.json` contains the task and the options of the provider and the session. The task `compile` writes the
context binary and the EPContext model that refers to it. `dump` writes the files that the options request. `assign`
writes the names of the nodes that the provider refuses to `FOLDER/refused.json`.

Each request needs a new process, because the provider keeps state: after another graph, it compiles the same graph to
different bytes, and after another SoC, it may compute in another precision. All output goes to standard error, in
order.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

FAILURE = "edgecore-qnn failure: "
"""Prefix of the error message, which follows the log lines."""


def main(folder: Path) -> None:
    """Process the request in a folder; if the provider fails, exit with its message."""
    import onnxruntime as ort
    import onnxruntime_qnn

    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    if hasattr(signal, "alarm"):  # end even if the parent, which enforces the time limit, is killed
        signal.alarm(request["seconds"])
    ort.set_default_logger_severity(request["log_severity"])
    name = onnxruntime_qnn.get_ep_name()
    # The EPContext node names the provider that wrote the context binary, and only a provider of the same name can load
    # it later.
    ort.register_execution_provider_library(name, onnxruntime_qnn.get_library_path())
    devices = [device for device in ort.get_ep_devices() if device.ep_name == name]
    if not devices:
        raise SystemExit(f"{FAILURE}the QNN provider offers no device on this machine")
    options = ort.SessionOptions()
    for key, value in request["session_options"].items():
        options.add_session_config_entry(key, value)
    options.add_provider_for_devices(devices, request["provider_options"])
    model = (folder / "model.onnx").read_bytes()
    try:
        session = ort.InferenceSession(model, sess_options=options)
        session.disable_fallback()
        if request["task"] == "assign":
            refused = json.dumps(_refused(session, name))
            (folder / "refused.json").write_text(refused, encoding="utf-8")
    except Exception as error:
        raise SystemExit(f"{FAILURE}{error}") from None


def _refused(session: Any, name: str) -> list[str]:
    return [
        node.name
        for subgraph in session.get_provider_graph_assignment_info()
        if subgraph.ep_name != name
        for node in subgraph.get_nodes()
    ]


if __name__ == "__main__":
    os.dup2(2, 1)
    main(Path(sys.argv[1]))
