"""Read and write `.bpte` files: one flatbuffer with a `.pte`, and inputs and expected outputs for its methods."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from edgecore.errors import FormatError

from .dtypes import SCALAR_TYPE_SIZES, ScalarType
from .flat import Buffer, data, pack, scalar, string, tables, union, unpack, vector
from .program import Bool, Double, Int

BPTE_IDENTIFIER = b"BP08"
_VERSION = 2
_MAX_BYTES = (1 << 31) - 1  # limit of a flatbuffer: its offsets have 32 bits, and some of them are signed


@dataclass(slots=True)
class BundledTensor:
    """A tensor in a test case (`Tensor` in the schema). `dim_order` lists the dims of `data`, outermost first."""

    scalar_type: ScalarType = scalar(0, "i8", enum=ScalarType)
    sizes: list[int] = vector(1, "i32")
    data: Buffer = data(2, align=16)
    dim_order: list[int] = vector(3, "u8")

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.sizes) * SCALAR_TYPE_SIZES[self.scalar_type]


BundledValue = BundledTensor | Int | Bool | Double


@dataclass(slots=True)
class Value:
    val: BundledValue | None = union(0, {1: BundledTensor, 2: Int, 3: Bool, 4: Double})


@dataclass(slots=True)
class BundledMethodTestCase:
    """The inputs of one run, and its expected outputs; without expected outputs the case only supplies inputs."""

    inputs: list[Value] = tables(0, Value)
    expected_outputs: list[Value] = tables(1, Value)


@dataclass(slots=True)
class BundledMethodTestSuite:
    method_name: str = string(0)
    test_cases: list[BundledMethodTestCase] = tables(1, BundledMethodTestCase)


@dataclass(slots=True)
class BpteFile:
    """The root table of a `.bpte` file (`BundledProgram` in the schema); `program` is a complete `.pte` file."""

    version: int = scalar(0, "u32")
    method_test_suites: list[BundledMethodTestSuite] = tables(1, BundledMethodTestSuite)
    program: Buffer = data(2, align=32)


def write_bpte(bpte: BpteFile) -> bytes:
    """Return the file as bytes.

    Raises:
        FormatError: The file would be larger than 2 GiB, the limit of a flatbuffer.
    """
    size = memoryview(bpte.program).nbytes + sum(tensor.nbytes for _, tensor in _tensors(bpte))
    if size > _MAX_BYTES - (1 << 20):  # 1 MiB of the 2 GiB is left for the tables
        raise FormatError(
            f"a .bpte file holds at most 2 GiB, but program and test cases together have {size} bytes; "
            "store the weights in a .ptd file (external_constants)"
        )
    bpte.version = _VERSION
    return bytes(pack(bpte, BPTE_IDENTIFIER))


def read_bpte(buffer: Buffer) -> BpteFile:
    """Read a `.bpte` file from `buffer`; the data of its tensors are views into the buffer, not copies.

    Raises:
        FormatError: The buffer is not a `.bpte` file, or damaged.
    """
    view = memoryview(buffer).cast("B")
    if len(view) < 8 or bytes(view[4:8]) != BPTE_IDENTIFIER:
        raise FormatError("not a .bpte file: no identifier 'BP08' at byte 4")
    bpte = unpack(BpteFile, view, BPTE_IDENTIFIER)
    for where, tensor in _tensors(bpte):
        rank = len(tensor.sizes)
        if min(tensor.sizes, default=0) < 0 or sorted(tensor.dim_order) != list(range(rank)):
            raise FormatError(
                f"{where}: sizes {tensor.sizes} and dim order {tensor.dim_order} describe no valid tensor; the file is "
                "damaged"
            )
        size = memoryview(tensor.data).nbytes
        if tensor.nbytes != size:
            raise FormatError(f"{where}: it has {size} bytes, but sizes {tensor.sizes} need {tensor.nbytes}")
    return bpte


def embedded_pte(content: Buffer) -> Buffer:
    """Return the `.pte` inside a `.bpte`; return the content of any other file unchanged.

    Raises:
        FormatError: The content is a damaged `.bpte`.
    """
    return read_bpte(content).program if bytes(memoryview(content)[4:8]) == BPTE_IDENTIFIER else content


def _tensors(bpte: BpteFile) -> list[tuple[str, BundledTensor]]:
    """Return (description, tensor) of each tensor of the test cases: ("method 'forward', case 0, input 0", tensor)."""
    return [
        (f"method '{suite.method_name}', case {number}, {kind} {index}", value.val)
        for suite in bpte.method_test_suites
        for number, case in enumerate(suite.test_cases)
        for kind, values in (("input", case.inputs), ("expected output", case.expected_outputs))
        for index, value in enumerate(values)
        if isinstance(value.val, BundledTensor)
    ]
