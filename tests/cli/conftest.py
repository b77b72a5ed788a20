from __future__ import annotations

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
def pte(tmp_path) -> Path:
    """A file with one method: relu on our kernels, then a delegate of a backend that is not installed."""
    tensors = [
        fmt.Tensor(
            fmt.ScalarType.FLOAT,
            sizes=[2, 3],
            dim_order=[0, 1],
            allocation_info=fmt.AllocationDetails.at(1, index * 32),
        )
        for index in range(3)
    ]
    plan = fmt.ExecutionPlan(
        name="forward",
        values=[fmt.EValue(tensor) for tensor in tensors],
        inputs=[0],
        outputs=[2],
        chains=[
            fmt.Chain(
                inputs=[],
                outputs=[],
                instructions=[
                    fmt.Instruction(fmt.KernelCall(0, [0, 1, 1])),
                    fmt.Instruction(fmt.DelegateCall(0, [1, 2])),
                ],
            )
        ],
        operators=[fmt.Operator("aten::relu", "out")],
        delegates=[fmt.BackendDelegate("QnnBackend", fmt.BackendDelegateDataReference(index=0))],
        non_const_buffer_sizes=[0, 96],
    )
    path = tmp_path / "model.pte"
    program = fmt.Program(execution_plan=[plan])
    path.write_bytes(fmt.write_pte(fmt.PteFile(program, delegate_blobs=[b"blob of 16 bytes"])))
    return path
