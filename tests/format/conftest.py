"""A small program with every kind of value, a kernel call, a delegate and data of every kind."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path

import pytest

from edgecore import format as fmt


def sample() -> fmt.PteFile:
    tensor = fmt.Tensor(fmt.ScalarType.FLOAT, sizes=[2, 3], dim_order=[0, 1])
    planned = fmt.Tensor(
        fmt.ScalarType.FLOAT,
        sizes=[2, 3],
        dim_order=[1, 0],
        allocation_info=fmt.AllocationDetails.at(1, 16),
        shape_dynamism=fmt.TensorShapeDynamism.DYNAMIC_BOUND,
    )
    constant = fmt.Tensor(fmt.ScalarType.FLOAT, sizes=[2], dim_order=[0], data_buffer_idx=1)
    info = fmt.ExtraTensorInfo(fully_qualified_name="état", location=fmt.TensorDataLocation.SEGMENT)
    state = fmt.Tensor(
        fmt.ScalarType.LONG,
        sizes=[1],
        dim_order=[0],
        data_buffer_idx=1,
        allocation_info=fmt.AllocationDetails.at(1, 40),
        extra_tensor_info=info,
    )
    values = [tensor, planned, constant, state, fmt.Int(-(2**63)), fmt.Bool(True), fmt.Double(-0.5), fmt.String("sum")]
    values += [fmt.IntList([4, 4]), fmt.DoubleList([1.5, float("inf")]), fmt.BoolList([True, False]), fmt.Null()]
    values += [fmt.TensorList([0, 1]), fmt.OptionalTensorList([2, -1])]
    calls = [
        fmt.KernelCall(0, [0, 2, 4, 1, 1]),
        fmt.DelegateCall(0, [1, 0]),
        fmt.MoveCall(0, 1),
        fmt.JumpFalseCall(5, 0),
        fmt.FreeCall(1),
    ]
    plan = fmt.ExecutionPlan(
        name="forward",
        container_meta_type=fmt.ContainerMetadata("in", "out"),
        values=[fmt.EValue(value) for value in values],
        inputs=[0],
        outputs=[1],
        chains=[fmt.Chain(instructions=[fmt.Instruction(call) for call in calls])],
        operators=[fmt.Operator("aten::add", "out")],
        delegates=[
            fmt.BackendDelegate("DemoBackend", fmt.BackendDelegateDataReference(index=0), [fmt.CompileSpec("k", b"v")]),
            fmt.BackendDelegate("DemoBackend", fmt.BackendDelegateDataReference(index=1)),
        ],
        non_const_buffer_sizes=[0, 48],
    )
    return fmt.PteFile(
        fmt.Program(execution_plan=[plan]),
        constants=[b"", b"\1" * 8, b"\2" * 33],
        mutable=[b"", b"\3" * 8],
        delegate_blobs=[b"first blob", b"second blob"],
        named_data={"weight": fmt.NamedBlob(b"\4" * 100, 16), "bias": fmt.NamedBlob(b"\5" * 7, 4096)},
    )


@pytest.fixture
def pte() -> fmt.PteFile:
    return sample()


@pytest.fixture
def huge(tmp_path: Path) -> Callable[[int], memoryview]:
    """huge(size): so many zero bytes, mapped from a file that takes no room on the disk."""

    def make(size: int) -> memoryview:
        path = tmp_path / "zeros"
        with path.open("wb") as file:
            file.truncate(size)
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))

    return make
