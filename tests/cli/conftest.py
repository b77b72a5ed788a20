from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgecore import format as fmt
from edgecore.cli import main


@dataclass
class Result:
    status: int
    out: str
    err: str


@pytest.fixture
def edgecore(monkeypatch, capsys) -> Callable[..., Result]:
    """edgecore("inspect", path) runs the command line in this process."""

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["edgecore", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        try:
            main()
            status = 0
        except SystemExit as stop:
            status = int(stop.code or 0)
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return run


@pytest.fixture
def module(tmp_path, monkeypatch):
    """module(source) writes my_model_file.py where `edgecore compile my_model_file:...` finds it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def write(source: str) -> None:
        sys.modules.pop("my_model_file", None)
        importlib.invalidate_caches()
        # Each version with its own size or time would be luck: no bytecode, no stale cache.
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        (tmp_path / "my_model_file.py").write_text(source)

    yield write
    sys.modules.pop("my_model_file", None)


def program(*, with_delegate: bool) -> fmt.PteFile:
    """float32 [2, 3]: relu on our kernels, then, if asked for, a delegate of a backend that is not installed."""
    tensors = [
        fmt.Tensor(
            fmt.ScalarType.FLOAT,
            sizes=[2, 3],
            dim_order=[0, 1],
            allocation_info=fmt.AllocationDetails.at(1, index * 32),
        )
        for index in range(3)
    ]
    instructions = [fmt.Instruction(fmt.KernelCall(0, [0, 1, 1]))]
    if with_delegate:
        instructions.append(fmt.Instruction(fmt.DelegateCall(0, [1, 2])))
    plan = fmt.ExecutionPlan(
        name="forward",
        values=[fmt.EValue(tensor) for tensor in tensors],
        inputs=[0],
        outputs=[2 if with_delegate else 1],
        chains=[fmt.Chain(inputs=[], outputs=[], instructions=instructions)],
        operators=[fmt.Operator("aten::relu", "out")],
        delegates=[fmt.BackendDelegate("FooBackend", fmt.BackendDelegateDataReference(index=0))] * with_delegate,
        non_const_buffer_sizes=[0, 96],
    )
    return fmt.PteFile(fmt.Program(execution_plan=[plan]), delegate_blobs=[b"blob of 16 bytes"] * with_delegate)


@pytest.fixture
def pte(tmp_path) -> Path:
    """A file that needs a backend that is not installed."""
    path = tmp_path / "model.pte"
    path.write_bytes(fmt.write_pte(program(with_delegate=True)))
    return path


@pytest.fixture
def relu(tmp_path) -> Path:
    """A file that runs on our kernels alone."""
    path = tmp_path / "relu.pte"
    path.write_bytes(fmt.write_pte(program(with_delegate=False)))
    return path


@pytest.fixture
def number(tmp_path) -> Path:
    """As `relu`, with a second input that was 3 when the model was exported."""
    pte = program(with_delegate=False)
    plan = pte.program.execution_plan[0]
    plan.values.append(fmt.EValue(fmt.Int(3)))
    plan.inputs.append(len(plan.values) - 1)
    path = tmp_path / "number.pte"
    path.write_bytes(fmt.write_pte(pte))
    return path


@pytest.fixture
def ptd(tmp_path):
    path = tmp_path / "weights.ptd"
    layout = fmt.TensorLayout(fmt.ScalarType.FLOAT, [2, 1], [0, 1])
    entries = {"layer.weight": fmt.ExternalData(b"12345678", layout, 16), "packed": fmt.ExternalData(b"abc")}
    path.write_bytes(fmt.write_ptd(fmt.PtdFile(entries)))
    return path
