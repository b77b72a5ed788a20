"""Reading and writing `.bpte` files: one flatbuffer that holds a `.pte` and, for its methods, inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from edgecore.errors import FormatError

from .dtypes import SCALAR_TYPE_SIZES, ScalarType
from .flat import Buffer, data, pack, scalar, string, tables, union, unpack, vector
from .program import Bool, Double, Int

BPTE_IDENTIFIER = b"BP08"
_VERSION = 2
_LARGEST = (1 << 31) - 1  # a flatbuffer's offsets are 32 bits


@dataclass(slots=True)
class BundledTensor:
    """`data` is dense, its dimensions in `dim_order`; the schema's name is Tensor."""

    scalar_type: ScalarType = scalar(0, "i8", enum=ScalarType)
    sizes: list[int] = vector(1, "i32")
    data: Buffer = data(2, align=16)
    dim_order: list[int] = vector(3, "u8")

    @property
    def nbytes(self) -> int:
        """Bytes of a tensor of these sizes."""
        return prod(self.sizes) * SCALAR_TYPE_SIZES[self.scalar_type]


BundledValue = BundledTensor | Int | Bool | Double


@dataclass(slots=True)
class Value:
    val: BundledValue | None = union(0, {1: BundledTensor, 2: Int, 3: Bool, 4: Double})


@dataclass(slots=True)
class BundledMethodTestCase:
    """No expected outputs: the case only gives inputs."""

    inputs: list[Value] = tables(0, Value)
    expected_outputs: list[Value] = tables(1, Value)


@dataclass(slots=True)
class BundledMethodTestSuite:
    method_name: str = string(0)
    test_cases: list[BundledMethodTestCase] = tables(1, BundledMethodTestCase)


@dataclass(slots=True)
class BpteFile:
    """The root table, in the schema BundledProgram; `program` is a whole `.pte`."""

    version: int = scalar(0, "u32")
    method_test_suites: list[BundledMethodTestSuite] = tables(1, BundledMethodTestSuite)
    program: Buffer = data(2, align=32)


def write_bpte(bpte: BpteFile) -> bytes:
    """The file as bytes; FormatError if it would exceed the 2 GiB of a flatbuffer."""
    size = memoryview(bpte.program).nbytes + sum(tensor.nbytes for _, tensor in _tensors(bpte))
    if size > _LARGEST - (1 << 20):
        raise FormatError(
            f"a .bpte holds at most 2 GiB, program and test cases together have {size} bytes; "
            "keep the weights in a .ptd file (external_constants)"
        )
    bpte.version = _VERSION
    return bytes(pack(bpte, BPTE_IDENTIFIER))


def read_bpte(buffer: Buffer) -> BpteFile:
    """The file in `buffer`; data are views into it. FormatError if it is no `.bpte` or damaged."""
    view = memoryview(buffer).cast("B")
    if len(view) < 8 or bytes(view[4:8]) != BPTE_IDENTIFIER:
        raise FormatError("not a .bpte file: no identifier 'BP08' at byte 4")
    bpte = unpack(BpteFile, view, BPTE_IDENTIFIER)
    for where, tensor in _tensors(bpte):
        rank = len(tensor.sizes)
        if min(tensor.sizes, default=0) < 0 or sorted(tensor.dim_order) != list(range(rank)):
            raise FormatError(f"{where}: sizes {tensor.sizes} and dim order {tensor.dim_order} are no tensor's")
        if tensor.nbytes != memoryview(tensor.data).nbytes:
            have = memoryview(tensor.data).nbytes
            raise FormatError(f"{where}: it has {have} bytes, sizes {tensor.sizes} need {tensor.nbytes}")
    return bpte


def _tensors(bpte: BpteFile) -> list[tuple[str, BundledTensor]]:
    return [
        (f"method '{suite.method_name}', case {number}, {kind} {index}", value.val)
        for suite in bpte.method_test_suites
        for number, case in enumerate(suite.test_cases)
        for kind, values in (("input", case.inputs), ("expected output", case.expected_outputs))
        for index, value in enumerate(values)
        if isinstance(value.val, BundledTensor)
    ]
