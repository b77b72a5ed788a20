"""`python -m edgecore_openvino.blob.compile FOLDER DEVICE [KEY=VALUE ...]`: compile model.xml to model.blob in FOLDER.

Each model is compiled in a new process. OpenVINO counts the nodes that it creates in a process, and a blob contains the
nodes' numbers. So equal models that are compiled in one process would give different blobs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def main(folder: str, device: str, *properties: str) -> None:
    """Compile `folder`/model.xml for a device into `folder`/model.blob; if OpenVINO fails, exit with its message."""
    import openvino as ov

    core = ov.Core()
    if device != "CPU" and (absent := _absent(device, core.available_devices)):
        raise SystemExit(
            f"the device {absent} is not available on this machine; OpenVINO has: {', '.join(core.available_devices)}"
        )
    try:
        model = core.read_model(Path(folder, "model.xml"))
        compiled = core.compile_model(model, device, dict(text.split("=", 1) for text in properties))
        Path(folder, "model.blob").write_bytes(compiled.export_model().getvalue())
    except RuntimeError as error:
        lines = [line for line in str(error).splitlines() if line and not line.startswith("Exception from ")]
        raise SystemExit(" ".join(lines)) from None


def _absent(device: str, available: Sequence[str]) -> str | None:
    """Return the first device named in a list such as `AUTO:GPU,CPU` that this machine lacks; None if it has all."""
    names = device.removeprefix("AUTO").removeprefix(":").split(",")
    return next(
        (name for name in names if name and not any(f"{device}.".startswith(f"{name}.") for device in available)), None
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
