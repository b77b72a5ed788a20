"""`python -m edgecore_openvino.compile_blob FOLDER DEVICE [KEY=VALUE ...]`: compile FOLDER/model.xml to FOLDER/model.blob.

Each model is compiled in a process of its own. OpenVINO numbers the nodes that it creates from the start of the
process, and the blob contains these numbers: in one process, equal models would give different blobs.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(folder: str, device: str, *properties: str) -> None:
    """Compile the model and write the compiled model; if OpenVINO fails, exit with OpenVINO's message."""
    import openvino as ov

    core = ov.Core()
    try:
        model = core.read_model(Path(folder, "model.xml"))
        compiled = core.compile_model(model, device, dict(text.split("=", 1) for text in properties))
        Path(folder, "model.blob").write_bytes(compiled.export_model().getvalue())
    except RuntimeError as error:
        lines = [line for line in str(error).splitlines() if line and not line.startswith("Exception from ")]
        raise SystemExit(" ".join(lines)) from None


if __name__ == "__main__":
    main(*sys.argv[1:])
