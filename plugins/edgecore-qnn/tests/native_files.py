"""Write the files for the C++ tests of the delegate: `python native_files.py FOLDER`.

`blob.bin` is a blob that computes relu of float32 [1, 4, 4, 8], and `libraries.txt` has the paths of ONNX Runtime and
of the QNN provider.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import edgecore
from edgecore.format import read_pte
from edgecore_qnn import backend


def write(folder: Path) -> None:
    """Compile the model and write the files into a folder, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    program = edgecore.compile(torch.nn.ReLU().eval(), (torch.zeros(1, 4, 4, 8),), backends=["qnn"])
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    (folder / "blob.bin").write_bytes(blob)
    options = backend.load_options()
    (folder / "libraries.txt").write_text(f"{options['onnxruntime']}\n{options['provider']}\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
