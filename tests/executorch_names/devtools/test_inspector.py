"""The Inspector beside executorch's own on the same files, column by column."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import zoo
from small_models import Layers

import edgecore
from edgecore.devtools import Inspector, L1Comparator, TimeScale
from edgecore.errors import FormatError
from edgecore.format.etdump import (
    DebugEvent,
    Double,
    ETDump,
    Event,
    ProfileEvent,
    RunData,
    Tensor,
    Value,
    ValueType,
    write_etdump,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")


def equal(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, torch.Tensor):
        return torch.equal(ours, theirs)
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(equal, ours, theirs))
    if isinstance(theirs, float):
        missing = ours is None or math.isnan(ours)
        return missing if math.isnan(theirs) else math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-6)
    return bool(ours == theirs)


def compare(modules: tuple[str, ...], **files: Any) -> Inspector:
    """Compare all columns of all events; returns ours."""
    peer = pytest.importorskip("executorch.devtools").Inspector(**files)
    ours = Inspector(**files)
    expected, found = peer.to_dataframe(), ours.to_dataframe()
    assert list(found.columns) == list(expected.columns)
    assert len(found) == len(expected) > 0
    for column in expected.columns:
        wrong = [row for row in range(len(found)) if not equal(found[column][row], expected[column][row])]
        assert not wrong, f"{column}, row {wrong[0]}: {found[column][wrong[0]]} != {expected[column][wrong[0]]}"
    for name in modules:
        assert ours.find_total_for_module(name) == pytest.approx(peer.find_total_for_module(name))
    for block, theirs in zip(ours.event_blocks, peer.event_blocks, strict=True):
        assert equal(block.run_output, theirs.run_output)
        for event, expected in zip(block.events, theirs.events, strict=True):
            assert (event.debug_handles, event.num_outputs) == (expected.debug_handles, expected.num_outputs)
    return ours


def compare_gaps(files: dict[str, str], rows: int) -> None:
    """Compare the numeric gap of all operators with executorch's, by their debug handles."""
    peer = pytest.importorskip("executorch.devtools").Inspector(**files)
    ours = Inspector(**files)
    for distance in ("MSE", "L1", "SNR"):
        found = ours.calculate_numeric_gap(distance)
        expected = peer.calculate_numeric_gap(distance, reference_graph="edge_dialect_exported_program")
        assert list(found.columns)[:4] == ["aot_debug_handle", "aot_ops", "aot_intermediate_output", "runtime_ops"]
        assert set(found.columns) == set(expected.columns)
        assert len(found) == len(expected) == rows
        theirs = dict(zip(expected["runtime_debug_handle"], expected["gap"], strict=True))
        for handles, gap in zip(found["runtime_debug_handle"], found["gap"], strict=True):
            assert gap == pytest.approx(theirs[handles])
    theirs = pytest.importorskip("executorch.devtools.inspector.numerical_comparator").L1Comparator
    gaps = [
        inspector.calculate_numeric_gap(without_reference(kind, inspector))["gap"]
        for inspector, kind in ((ours, L1Comparator), (peer, theirs))
    ]
    assert len(gaps[0]) == rows
    assert sorted(gap[0] for gap in gaps[0]) == pytest.approx(sorted(gap[0] for gap in gaps[1]))


def without_reference(base: Any, inspector: Any) -> Any:
    """Return a comparator of a script that takes zeros as what to expect."""

    class WithoutReference(base):
        def preprocessing(self, mapping: dict[Any, Any]) -> dict[Any, Any]:
            assert self.inspector is inspector
            return {(handles, torch.zeros_like(value)): recorded for (handles, value), recorded in mapping.items()}

    return WithoutReference(inspector=inspector)


def titles(inspector: Any, **options: bool) -> list[str]:
    """Return the titles of the columns that are written."""
    text = io.StringIO()
    inspector.save_data_to_tsv(file=text, **options)
    return text.getvalue().splitlines()[0].split("\t")


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
def test_a_trace_and_a_record_of_executorch_give_the_same_columns(tmp_path: Path, backend: str) -> None:
    pytest.importorskip("executorch.runtime")
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    torch.manual_seed(0)
    x = torch.randn(2, 8)
    model = Layers().eval()
    exported = torch.export.export(model, (x,))
    partitioner = [XnnpackPartitioner()] if backend == "xnnpack" else []
    lowered = to_edge_transform_and_lower(exported, partitioner=partitioner, generate_etrecord=True)
    manager = lowered.to_executorch()
    manager.save(str(tmp_path / "model.pte"))
    record = manager.get_etrecord()
    record.update_representative_inputs([x])
    record.save(tmp_path / "model.etrecord")
    program = Runtime.get().load_program(tmp_path / "model.pte", enable_etdump=True, debug_buffer_size=1 << 20)
    method = program.load_method("forward")
    for _ in range(3):
        method.execute([x])
    program.write_etdump_result_to_file(str(tmp_path / "runs.etdp"), str(tmp_path / "values.bin"))
    files = {"etdump_path": str(tmp_path / "runs.etdp"), "etrecord": str(tmp_path / "model.etrecord")}
    ours = compare(("first", "block", "block.0"), **files, debug_buffer_path=str(tmp_path / "values.bin"))
    peer = pytest.importorskip("executorch.devtools").Inspector(**files)
    for units in (True, False):
        for metadata in (True, False):
            options = {"include_units": units, "include_delegate_debug_data": metadata}
            assert titles(ours, **options) == titles(peer, **options)
            text = io.StringIO()
            ours.print_data_tabular(text, **options)
            assert ("avg (ms)" in text.getvalue()) == units
    assert {block.name for block in ours.event_blocks} == {"Default", "Execute"}
    compare_gaps(files | {"debug_buffer_path": str(tmp_path / "values.bin")}, rows=5 if backend == "portable" else 1)
    torch.testing.assert_close(ours.get_exported_program().module()(x), model(x))
    assert ours.get_exported_program(graph="nothing") is peer.get_exported_program(graph="nothing") is None
    text = io.StringIO()
    ours.print_data_tabular(text)
    assert "Method::execute" in text.getvalue()
    assert "OPERATOR_CALL" not in text.getvalue()
    microseconds = Inspector(**files, target_time_scale=TimeScale.US)
    assert microseconds.rows()[0]["avg (us)"] == pytest.approx(1000 * ours.rows()[0]["avg (ms)"])


def edgecore_trace(
    tmp_path: Path, model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], **options: Any
) -> dict[str, str]:
    edgecore.compile(model, inputs, backends=["xnnpack"], **options).save(tmp_path / "model.pte")
    program = edgecore.load(tmp_path / "model.pte", trace=True)
    for _ in range(3):
        program.forward(*inputs)
    program.write_trace(tmp_path / "runs.etdp")
    return {"etdump_path": str(tmp_path / "runs.etdp")}


def test_a_trace_of_edgecore_gives_the_same_columns(tmp_path: Path) -> None:
    pytest.importorskip("edgecore_xnnpack")
    torch.manual_seed(0)
    files = edgecore_trace(tmp_path, Layers().eval(), (torch.randn(2, 8),))
    compare((), **files)
    ours = Inspector(**files, program=tmp_path / "model.pte")
    operators = {operator for block in ours.event_blocks for event in block.events for operator in event.op_types}
    assert operators == {"aten.linear.default", "aten.relu.default", "aten.gelu.default", "aten.add.Tensor"}
    inside = [event for block in ours.event_blocks for event in block.events if event.is_delegated_op]
    times = [event.perf_data.avg for event in inside if "aten.gelu.default" in event.op_types and event.perf_data]
    assert ours.find_total_for_module("block.1") == pytest.approx(sum(times))
    text = io.StringIO()
    ours.save_data_to_tsv(text)
    lines = text.getvalue().splitlines()
    assert lines[0].split("\t")[:2] == ["", "event_block_name"]
    assert len(lines) == 1 + len(ours.rows())


class Other(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = Layers()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x)


@pytest.mark.parametrize("source", ["program", "etrecord"])
def test_equal_operators_of_two_methods_get_the_modules_of_their_own(tmp_path: Path, source: str) -> None:
    x = torch.ones(2, 8)
    methods = {
        name: torch.export.export(model.eval(), (x,)) for name, model in (("decode", Layers()), ("prefill", Other()))
    }
    manager = edgecore.to_edge(methods, generate_etrecord=True).to_executorch()
    manager.save(tmp_path / "model.pte")
    manager.get_etrecord().save(tmp_path / "model.etrecord")
    program = edgecore.load(tmp_path / "model.pte", trace=True)
    for name in ("prefill", "decode"):
        program[name](x)
    program.write_trace(tmp_path / "runs.etdp")
    given = {"program": tmp_path / "model.pte"} if source == "program" else {"etrecord": tmp_path / "model.etrecord"}
    inspector = Inspector(etdump_path=str(tmp_path / "runs.etdp"), **given)
    paths = {
        block.name: {
            path
            for event in block.events
            for hierarchy in event.module_hierarchy.values()
            for path, _ in (hierarchy or {}).values()
            if path
        }
        for block in inspector.event_blocks
        if block.name.startswith("Execute")
    }
    own = {"first", "block.0", "block.1"}
    assert own <= paths["Execute decode"]
    assert {f"last.{name}" for name in own} <= paths["Execute prefill"]
    assert not any(path.startswith("last") for path in paths["Execute decode"])
    assert all(path.startswith("last") for path in paths["Execute prefill"])


def test_a_method_or_graph_that_a_record_lacks_is_an_error() -> None:
    exported = torch.export.export(Layers().eval(), (torch.ones(2, 8),))
    record = edgecore.to_edge({"decode": exported}, generate_etrecord=True).to_executorch().get_etrecord()
    dump = write_etdump(ETDump(0, [RunData("Execute", events=[Event(ProfileEvent("Method::execute", 0, -1))])]))
    assert Inspector(etdump_data=dump, etrecord=record).get_exported_program() is not None
    with pytest.raises(ValueError, match="the ETRecord has no method 'typo'; it has decode"):
        Inspector(etdump_data=dump, etrecord=record, method="typo")
    with pytest.raises(
        ValueError, match="the ETRecord has no graph 'typo'; it has edge_dialect_exported_program/decode"
    ):
        Inspector(etdump_data=dump, etrecord=record, reference_graph_name="typo")


@pytest.mark.parametrize(("cases", "expected"), [(1, [0.0, None, 0.0]), (2, [0.0, 1.0, None])])
def test_a_run_without_a_test_case_has_the_reference_of_the_only_one(cases: int, expected: list[float | None]) -> None:
    exported = torch.export.export(Layers().eval(), (torch.ones(2, 8),))
    record = edgecore.to_edge(exported, generate_etrecord=True).to_executorch().get_etrecord()
    record.update_reference_outputs([[torch.tensor(float(case))] for case in range(cases)])
    runs = [RunData("Execute", index, events=[Event(ProfileEvent("Method::execute", 0, -1))]) for index in (0, 1, -1)]
    inspector = Inspector(etdump_data=write_etdump(ETDump(0, runs)), etrecord=record)
    found = [block.reference_output for block in inspector.event_blocks]
    assert [values and values[0].item() for values in found] == expected


def test_inputs_and_outputs_of_another_form_than_the_graph_has_are_errors() -> None:
    exported = torch.export.export(Layers().eval(), (torch.ones(2, 8),))
    record = edgecore.to_edge(exported, generate_etrecord=True).to_executorch().get_etrecord()
    dump = write_etdump(ETDump(0, [RunData("Execute", events=[Event(ProfileEvent("Method::execute", 0, -1))])]))
    for inputs in ([torch.ones(2, 7)], [], 3):
        record.update_representative_inputs(inputs)  # type: ignore[arg-type]
        inspector = Inspector(etdump_data=dump, etrecord=record)
        with pytest.raises(ValueError, match="the graph cannot be run with the inputs of the ETRecord: "):
            inspector.calculate_numeric_gap("MSE")
    record.update_reference_outputs({"forward": 3})
    with pytest.raises(FormatError, match="the reference outputs of the ETRecord are no lists by method"):
        Inspector(etdump_data=dump, etrecord=record)


@pytest.mark.full
@pytest.mark.parametrize(("name", "recipe"), [("mobilenet_v2", "int8"), ("bert_mini", None)])
def test_traces_of_networks_give_the_same_columns(tmp_path: Path, name: str, recipe: str | None) -> None:
    torch.manual_seed(0)
    model, inputs = zoo.ALL[name]()
    options = {"quantize": recipe, "calibration": [inputs]} if recipe else {}
    files = edgecore_trace(tmp_path, zoo.calibrate(model, inputs), inputs, **options)
    compare((), **files)
    ours = Inspector(**files, program=tmp_path / "model.pte")
    named = [event for block in ours.event_blocks for event in block.events if event.op_types]
    assert len(named) > 30


def test_runs_with_other_inputs_and_missing_values_are_no_errors() -> None:
    def run(value: float) -> RunData:
        events = [DebugEvent(0, 0, Value(ValueType.DOUBLE, double_value=Double(value)), name="add"),
                  DebugEvent(0, 0, Value(ValueType.TENSOR, Tensor(6, [2], [1], 1 << 40)), name="add")]  # fmt: skip
        profile = ProfileEvent("native_call_add", 0, 0, start_time=5, end_time=9)
        return RunData("Execute", events=[Event(debug_event=event) for event in events] + [Event(profile)])

    inspector = Inspector(etdump_data=write_etdump(ETDump(0, [run(1.0), run(2.0)])))
    ((event,),) = (block.events for block in inspector.event_blocks)
    assert event.debug_data == [1.0, None]
    assert event.perf_data is not None
    assert event.perf_data.raw == [4e-6, 4e-6]


@pytest.mark.parametrize(("sizes", "strides"), [([2, 1], [1, -1]), ([1, -1], [1, 1]), ([1 << 62, 1 << 62], [])])
def test_sizes_and_strides_that_no_tensor_has_are_missing_values(
    tmp_path: Path, sizes: list[int], strides: list[int]
) -> None:
    (tmp_path / "values.bin").write_bytes(bytes(16))
    tensors = [Tensor(6, sizes, strides), Tensor(6, [0, 3], [3, 1]), Tensor(6, [0, 1 << 62, 1 << 62], [])]
    values = [Value(ValueType.TENSOR, tensor) for tensor in tensors]
    events = [Event(debug_event=DebugEvent(0, 0, value, name="add")) for value in values]
    dump = write_etdump(ETDump(0, [RunData("Execute", events=events)]))
    inspector = Inspector(etdump_data=dump, debug_buffer_path=str(tmp_path / "values.bin"))
    missing, empty, large = inspector.event_blocks[0].events[0].debug_data
    assert missing is None
    assert empty.shape == (0, 3)
    assert large.shape == (0, 1 << 62, 1 << 62)


def test_times_and_values_are_read_as_the_arguments_say(tmp_path: Path) -> None:
    tensor = Tensor(6, [2], [1])
    events = [Event(ProfileEvent("native_call_add", 0, 0, start_time=5, end_time=9)),
              Event(debug_event=DebugEvent(0, 0, Value(ValueType.TENSOR, tensor), name="add"))]  # fmt: skip
    dump = write_etdump(ETDump(0, [RunData("Execute", events=events)]))
    (tmp_path / "values.bin").write_bytes(torch.tensor([1.5, -2.0]).numpy().tobytes())
    for source, average in ((TimeScale.US, 4e-3), (TimeScale.S, 4e3), (TimeScale.NS, 4e-6)):
        inspector = Inspector(etdump_data=dump, source_time_scale=source, buffer_path=str(tmp_path / "values.bin"))
        (event,) = inspector.event_blocks[0].events
        assert inspector.rows()[0]["avg (ms)"] == pytest.approx(average)
        assert event.debug_data[0].tolist() == [1.5, -2.0]
    cycles = Inspector(etdump_data=dump, source_time_scale=TimeScale.CYCLES, target_time_scale=TimeScale.CYCLES)
    assert cycles.rows()[0]["avg (cycles)"] == 4


def test_arguments_that_exclude_each_other_are_errors() -> None:
    with pytest.raises(ValueError, match="exactly one of etdump_path and etdump_data"):
        Inspector()
    with pytest.raises(RuntimeError, match="CYCLES"):
        Inspector(etdump_data=b"", target_time_scale=TimeScale.CYCLES)


def test_a_converter_and_a_parser_apply_to_delegates_only() -> None:
    events = [ProfileEvent("DELEGATE_CALL", 0, 0, start_time=0, end_time=10),
              ProfileEvent(None, 0, 0, 3, None, b"gemm", 2, 4)]  # fmt: skip
    dump = write_etdump(ETDump(0, [RunData("Execute", events=[Event(event) for event in events])]))
    inspector = Inspector(
        etdump_data=dump,
        target_time_scale=TimeScale.NS,
        delegate_time_scale_converter=lambda name, time: time * 100,
        delegate_metadata_parser=lambda metadata: {"kernel": metadata[0].decode()},
    )
    rows = inspector.rows(include_units=False, include_delegate_debug_data=True)
    assert [(row["event_name"], row["avg"], row.get("kernel")) for row in rows] == [
        ("DELEGATE_CALL", 10, None), ("3", 200, "gemm")
    ]  # fmt: skip
