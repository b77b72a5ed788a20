"""Additional rows of `edgecore doctor qnn`: packages, device, licence."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from edgecore_qnn.backend import provider_library, sdk_version

RUN = 'pip install "edgecore-qnn[run]"'
Row = tuple[str, bool, str] | tuple[str, bool, str, str]


def rows() -> list[Row]:
    """Return the rows of `edgecore doctor`: (name of the check, passed, detail, remedy)."""
    installed, missing = [], []
    for package in ("onnxruntime", "onnxruntime-qnn"):
        try:
            installed.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        return [("packages", False, f"not installed: {', '.join(missing)}", RUN)]
    return [("packages", True, f"{', '.join(installed)}, SDK {sdk_version()}"), _device(), _licence()]


def _device() -> Row:
    import onnxruntime as ort
    import onnxruntime_qnn

    name = onnxruntime_qnn.get_ep_name()
    ort.register_execution_provider_library(name, onnxruntime_qnn.get_library_path())
    kinds = [device.device.type.name for device in ort.get_ep_devices() if device.ep_name == name]
    if "NPU" in kinds:
        return ("device", True, "Hexagon NPU")
    if "CPU" in kinds:
        return ("device", True, "no NPU on this machine: files run on Qualcomm's emulator")
    return ("device", False, f"the QNN provider offers no device ({', '.join(kinds) or 'none'})", RUN)


def _licence() -> Row:
    path = Path(provider_library() or "").parent / "Qualcomm_LICENSE.pdf"
    return ("licence", True, f"Qualcomm's libraries in onnxruntime-qnn have Qualcomm's licence: {path}")
