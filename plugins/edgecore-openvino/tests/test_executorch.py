"""Files of executorch's OpenVINO backend run here, and files of ours with `payload="executorch"` run there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import edgecore
from edgecore.errors import ExecutionError

pytest.importorskip("executorch.runtime", reason="executorch, the peer, is not installed")

MODEL = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(512, 10)
).eval()
x = torch.randn(1, 3, 8, 8)
"""

THEIRS = """
# executorch imports nncf, of which lowering without quantization uses nothing: a package whose names are empty classes.
import sys, types
from importlib.machinery import ModuleSpec

class Name(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(name, (), {})
    def __call__(cls, *args, **kwargs):
        return args[0] if args and callable(args[0]) else Name(cls.__name__, (), {})
    __or__ = __ror__ = __getitem__ = lambda cls, other: cls

class Finder:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "nncf" else None
    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: getattr(Name("nncf", (), {}), name)
        return module
    def exec_module(self, module):
        pass

sys.meta_path.append(Finder())
from executorch.backends.openvino.partitioner import OpenvinoPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend.backend_details import CompileSpec
partitioner = OpenvinoPartitioner([CompileSpec("device", b"CPU")])
program = to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=[partitioner]).to_executorch()
open(sys.argv[1], "wb").write(program.buffer)
"""

OURS = """
import sys
import edgecore
backend = edgecore.Backend("openvino", required=True, payload="executorch")
edgecore.compile(model, (x,), backends=[backend]).save(sys.argv[1])
"""

RUN_THERE = """
import glob, os, sys
import openvino
(os.environ["OPENVINO_LIB_PATH"],) = glob.glob(os.path.dirname(openvino.__file__) + "/libs/libopenvino_c.so*")
from executorch.runtime import Runtime
(result,) = Runtime.get().load_program(sys.argv[1]).load_method("forward").execute([x])
# OpenVINO computes in bfloat16 where the processor has it, unless a file's reader says otherwise: executorch does not.
torch.testing.assert_close(result, model(x), atol=0.01, rtol=0.02)
"""


def run(code: str, file: Path, openvino: str | None = None) -> None:
    """Run code after that of the model in a process of its own, with the OpenVINO of a folder."""
    environment = {**os.environ, **({"PYTHONPATH": openvino} if openvino else {})}
    command = [sys.executable, "-c", MODEL + code, str(file)]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr[-3000:]


@pytest.mark.slow
def test_a_file_of_executorch_runs_here_if_the_caller_trusts_it(tmp_path):
    run(THEIRS, tmp_path / "theirs.pte")
    with pytest.raises(ExecutionError, match="load with trust only files that you trust"):
        edgecore.load(tmp_path / "theirs.pte")
    scope: dict[str, torch.Tensor] = {}
    exec(MODEL, scope)
    result = edgecore.load(tmp_path / "theirs.pte", trust=True).forward(scope["x"])
    torch.testing.assert_close(torch.as_tensor(result), scope["model"](scope["x"]), atol=1e-5, rtol=1e-4)


@pytest.mark.slow
def test_a_file_of_ours_runs_in_executorch(tmp_path):
    folder = os.environ.get("EDGECORE_OPENVINO_2025")
    if not folder or not (Path(folder) / "openvino").is_dir():
        pytest.skip("EDGECORE_OPENVINO_2025 names no folder with OpenVINO 2025, which executorch 1.5.1 needs")
    run(OURS, tmp_path / "ours.pte", folder)
    run(RUN_THERE, tmp_path / "ours.pte", folder)
