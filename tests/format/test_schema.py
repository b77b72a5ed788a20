"""The schema files say the same as the dataclasses: what we pack, flatc reads, and the other way round."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from dataclasses import fields, is_dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

import edgecore.format as fmt

SCHEMAS = Path(fmt.__file__).parent / "schema"
FLATC = shutil.which("flatc")
pytestmark = pytest.mark.skipif(FLATC is None, reason="needs flatc (Debian package flatbuffers-compiler)")

DETAILS = fmt.DelegateDetails(
    [fmt.GraphNode(7, "", "Conv", [0], [1]), fmt.GraphNode(0, "layer_1", "Add", [0, 1], [2])],
    [0],
    [2],
    [fmt.GraphValue(2, "int8 [1, 4]")],
    [fmt.CycleEstimate(0, "layer_1", 2**40)],
)

META = fmt.Meta(
    "executorch-1.5",
    "edgecore",
    "0.1",
    [
        fmt.MethodMeta(
            "forward",
            [
                fmt.DelegateMeta(
                    bytes(range(32)),
                    "xnnpack 1",
                    "edgecore-xnnpack",
                    "0.1.0",
                    [fmt.MemoryNeed(fmt.MemoryKind.PERSISTENT, 3, 2**40, 64, "weights")],
                    [1, 2],
                    [
                        fmt.DelegateOperation(7, "", [1, 2]),
                        fmt.DelegateOperation(name="layer_1", handles=[2]),
                    ],
                    bytes(fmt.pack(DETAILS)),
                )
            ],
            [fmt.InstructionHandles([3])],
            [fmt.DebugHandle(1, "model.py:3", "aten.add.Tensor", "block.0")],
            [fmt.ArgumentMeta("past[0].key", [fmt.DimMeta("8*s - 3", 5, 2, 8, -3), fmt.DimMeta("", 6)])],
            [fmt.ArgumentMeta("logits")],
        )
    ],
    ["cache.keys"],
    bytes(range(1, 33)),
    bytes(range(2, 34)),
    [fmt.DataDigest("packed", bytes(range(3, 35)))],
)


PTD = fmt.FlatTensor(
    0,
    [fmt.DataSegment(128, 2**40)],
    [fmt.NamedTensor("weight", 1, fmt.TensorLayout(fmt.ScalarType.BFLOAT16, [2, 3], [1, 0])), fmt.NamedTensor("blob")],
)

BPTE = fmt.BpteFile(
    2,
    [
        fmt.BundledMethodTestSuite(
            "forward",
            [
                fmt.BundledMethodTestCase(
                    [fmt.Value(fmt.Int(-3)), fmt.Value(fmt.Bool(True)), fmt.Value(fmt.Double(0.5))],
                    [fmt.Value(fmt.BundledTensor(fmt.ScalarType.LONG, [1], b"12345678", [0]))],
                )
            ],
        )
    ],
    b"program",
)


def as_json(value: Any) -> Any:
    """`value` in flatc's JSON: enums by name, a union as two members, bytes as a list of numbers."""
    if is_dataclass(value):
        result: dict[str, Any] = {}
        for f in fields(value):
            item = getattr(value, f.name)
            if item is None:
                continue
            if f.metadata["flat"].kind == "union":
                result[f.name + "_type"] = type(item).__name__.removeprefix("Bundled")
            result[f.name] = as_json(item)
        return result
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, (bytes, memoryview)):
        return list(value)
    return [as_json(item) for item in value] if isinstance(value, list) else value


def flatc(*arguments: str | Path) -> None:
    subprocess.run([str(FLATC), *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(params=["program", "meta", "flat_tensor", "bundled_program"])
def root(request: pytest.FixtureRequest, pte: fmt.PteFile) -> tuple[str, Any, bytes]:
    """(schema name, root table, identifier) with every field of the schema in use."""
    if request.param == "meta":
        return "meta", META, b"ECM1"
    if request.param == "flat_tensor":
        return "flat_tensor", PTD, b"FT01"
    if request.param == "bundled_program":
        return "bundled_program", BPTE, b"BP08"
    plan = pte.program.execution_plan[0]
    plan.values[9] = fmt.EValue(fmt.DoubleList([1.5, -2.25]))  # JSON knows no infinity
    plan.chains[0].stacktrace = [fmt.FrameList([fmt.Frame("a.py", 3, "forward", "x + y")])]
    plan.chains[0].inputs, plan.chains[0].outputs = [0], [1]
    plan.non_const_buffer_device = [fmt.NonConstBufferDevice(1, fmt.DeviceType.CUDA, 2)]
    program = pte.program
    program.constant_buffer = [fmt.ConstantBuffer(b"123")]
    program.backend_delegate_data = [fmt.BackendDelegateInlineData(b"45")]
    program.segments = [fmt.DataSegment(128, 2**40)]
    program.constant_segment = fmt.SubsegmentOffsets(1, [0, 16])
    program.mutable_data_segments = [fmt.SubsegmentOffsets(2, [0, 2**33])]
    program.named_data = [fmt.NamedData("key", 3)]
    return "program", program, b"ET12"


def test_flatc_reads_what_we_pack(root: tuple[str, Any, bytes], tmp_path: Path) -> None:
    name, value, identifier = root
    binary = tmp_path / "file.bin"
    binary.write_bytes(fmt.pack(value, identifier))
    flatc("--json", "--strict-json", "--defaults-json", "-o", tmp_path, SCHEMAS / f"{name}.fbs", "--", binary)
    assert json.loads((tmp_path / "file.json").read_text()) == as_json(value)


def test_we_read_what_flatc_packs(root: tuple[str, Any, bytes], tmp_path: Path) -> None:
    name, value, identifier = root
    (tmp_path / "file.json").write_text(json.dumps(as_json(value)))
    flatc("--binary", "-o", tmp_path, SCHEMAS / f"{name}.fbs", tmp_path / "file.json")
    (written,) = (path for path in tmp_path.iterdir() if path.suffix != ".json")
    assert fmt.unpack(type(value), written.read_bytes(), identifier) == value


def test_flatc_reads_a_whole_pte_file(tmp_path: Path, pte: fmt.PteFile) -> None:
    """The extended header in front of the flatbuffer's tables disturbs no other reader."""
    pte.program.execution_plan[0].values.pop(9)  # JSON knows no infinity
    buffer = fmt.write_pte(pte)
    binary = tmp_path / "file.bin"
    binary.write_bytes(buffer[: struct.unpack_from("<Q", buffer, 16)[0]])
    flatc("--json", "--strict-json", "-o", tmp_path, SCHEMAS / "program.fbs", "--", binary)
    read = json.loads((tmp_path / "file.json").read_text())
    assert [plan["name"] for plan in read["execution_plan"]] == ["forward"]
    assert len(read["segments"]) == 6
