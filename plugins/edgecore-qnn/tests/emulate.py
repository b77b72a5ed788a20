"""Run an ONNX model on the emulator: `python emulate.py FOLDER SOC`.

It reads `FOLDER/model.onnx` and `FOLDER/inputs.npz`, and writes `FOLDER/outputs.npz`. ONNX Runtime's provider keeps state
in its process, so each model gets a process of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import onnxruntime_qnn

from edgecore_qnn.provider.socs import SOCS


def main(folder: Path, soc: str) -> None:
    """Run the model of a folder."""
    name = onnxruntime_qnn.get_ep_name()
    ort.register_execution_provider_library(name, onnxruntime_qnn.get_library_path())
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    devices = [device for device in ort.get_ep_devices() if device.ep_name == name]
    options.add_provider_for_devices(devices, {"backend_type": "htp", "soc_model": str(SOCS[soc].number)})
    session = ort.InferenceSession((folder / "model.onnx").read_bytes(), options)
    session.disable_fallback()
    with np.load(folder / "inputs.npz") as inputs:
        results = session.run(None, dict(inputs))
    names = [output.name for output in session.get_outputs()]
    np.savez(folder / "outputs.npz", **dict(zip(names, results, strict=True)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
