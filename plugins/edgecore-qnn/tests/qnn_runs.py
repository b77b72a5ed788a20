"""Run files without Python, and read ONNX Runtime's profiles."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgecore.plugin.installed.manifests import write_manifests

RUNNER = Path(sys.executable).with_name("edgecore-run")


def run_without_python(
    file: Path, inputs: Sequence[torch.Tensor], folder: Path, **options: str
) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the first output of a file that edgecore-run runs, with further load options for QNN in its manifest."""
    if not RUNNER.is_file():
        pytest.skip("edgecore-run is not installed")
    manifests = folder / "manifests"
    write_manifests(manifests)
    manifest = json.loads((manifests / "qnn.json").read_text(encoding="utf-8"))
    manifest["options"].update(options)
    (manifests / "qnn.json").write_text(json.dumps(manifest), encoding="utf-8")
    command: list[Any] = [RUNNER, file, "--backend-path", manifests, "--output-dir", folder]
    for index, value in enumerate(inputs):
        np.save(folder / f"input_{index}.npy", value.numpy())
        command += ["--input", folder / f"input_{index}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    result: np.ndarray[Any, np.dtype[Any]] = np.load(folder / "output_0.npy")
    return result


def providers(folder: Path, start: str) -> list[str]:
    """List the providers that ran the nodes of the profile whose name begins with `start`."""
    (profile,) = folder.glob(f"{start}*.json")
    events = json.loads(profile.read_text(encoding="utf-8"))
    return [event["args"]["provider"] for event in events if event["cat"] == "Node"]
