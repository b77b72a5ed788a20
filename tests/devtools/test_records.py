"""Interchange with executorch 1.5.1: its Inspector reads edgecore's program, trace, values and record, and ours its."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import zoo

import edgecore
from edgecore.devtools import Inspector

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")

FRAMEWORK = ("Method::execute", "OPERATOR_CALL", "Program::load_method", "Method::init")


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.block = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(torch.relu(self.first(x))) + x


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        return torch.cond(y.sum() > 0, lambda y: torch.sin(y) + 1, lambda y: torch.cos(y) - 1, (y,))


@dataclass
class Case:
    """A model, and how it is compiled. `operators` are those that a trace must name, in executorch's words."""

    model: torch.nn.Module
    inputs: tuple[torch.Tensor, ...]
    operators: frozenset[str]
    options: dict[str, Any]


def layers() -> Case:
    x = torch.randn(2, 8)
    return Case(Layers().eval(), (x,), frozenset(("linear.default", "relu.default", "gelu.default", "add.Tensor")), {})


def symbolic_sizes() -> Case:
    case = layers()
    case.options = {"dynamic_shapes": ({0: torch.export.Dim("rows", min=1, max=8)},)}
    return case


def control_flow() -> Case:
    return Case(Branches().eval(), (torch.randn(2, 8),), frozenset(("linear.default", "sum.dim_IntList")), {})


def zoo_case(name: str, operators: tuple[str, ...], recipe: str | None = None) -> Case:
    model, inputs = zoo.ALL[name]()
    options = {"quantize": recipe, "calibration": [inputs]} if recipe else {}
    return Case(zoo.calibrate(model, inputs), inputs, frozenset(operators), options)


def mobilenet_int8() -> Case:
    return zoo_case("mobilenet_v2", ("convolution.default", "linear.default"), "int8")


def bert_mini() -> Case:
    return zoo_case("bert_mini", ("linear.default", "embedding.default"))


CASES = [
    layers,
    symbolic_sizes,
    control_flow,
    pytest.param(mobilenet_int8, marks=pytest.mark.full),
    pytest.param(bert_mini, marks=pytest.mark.full),
]


def our_files(case: Case, folder: Path, backends: list[str]) -> dict[str, str]:
    """Compile and run a case with edgecore; returns the arguments of an Inspector."""
    program = edgecore.compile(case.model, case.inputs, backends=backends, generate_etrecord=True, **case.options)
    program.save(folder / "model.pte")
    record = program.get_etrecord()
    record.update_representative_inputs(list(case.inputs))
    record.save(folder / "model.etrecord")
    loaded = edgecore.load(folder / "model.pte", debug="values", threads=1)
    for _ in range(3):
        loaded.forward(*case.inputs)
    loaded.write_trace(folder / "runs.etdp", values=folder / "values.bin")
    return {"etdump_path": str(folder / "runs.etdp"), "etrecord": str(folder / "model.etrecord"),
            "debug_buffer_path": str(folder / "values.bin")}  # fmt: skip


def gaps(inspector: Any, distance: str, **options: Any) -> dict[tuple[int, ...], float]:
    frame = inspector.calculate_numeric_gap(distance, **options)
    return {handles: gap[0] for handles, gap in zip(frame["runtime_debug_handle"], frame["gap"], strict=True)}


def compare_events(ours: Inspector, peer: Any) -> set[str]:
    """Compare all events of the two; returns the names of operators that executorch's knows."""
    names = set()
    assert [(block.name, len(block.events)) for block in ours.event_blocks] == [
        (block.name, len(block.events)) for block in peer.event_blocks
    ]
    for block, theirs in zip(ours.event_blocks, peer.event_blocks, strict=True):
        for event, expected in zip(block.events, theirs.events, strict=True):
            assert event.name == expected.name
            if expected.op_types or expected.debug_handles is None:
                assert event.op_types == expected.op_types
                assert event.stack_traces == expected.stack_traces
                assert event.module_hierarchy == expected.module_hierarchy
            else:  # inside of a branch, which executorch's Inspector does not look into
                assert event.op_types[0] in ("sin.default", "add.Scalar", "cos.default", "sub.Scalar")
            assert event.delegate_backend_name == expected.delegate_backend_name
            assert len(event.debug_data) == len(expected.debug_data)
            for value, other in zip(event.debug_data, expected.debug_data, strict=True):
                torch.testing.assert_close(value, other, equal_nan=True)
            if event.perf_data is not None:
                assert event.perf_data.avg == pytest.approx(expected.perf_data.avg, abs=1e-6)
            if event.name not in ("DELEGATE_CALL", *FRAMEWORK):
                names.update(expected.op_types)
    return names


@pytest.mark.parametrize("backends", [[], ["xnnpack"]], ids=["kernels", "xnnpack"])
@pytest.mark.parametrize("make", CASES)
def test_executorch_reads_our_three_files_completely(make: Any, backends: list[str], tmp_path: Path) -> None:
    if backends:
        pytest.importorskip("edgecore_xnnpack")
    torch.manual_seed(0)
    case = make()
    files = our_files(case, tmp_path, backends)
    ours = Inspector(**files)
    peer = pytest.importorskip("executorch.devtools").Inspector(**files)
    names = compare_events(ours, peer)
    assert case.operators <= {name.removeprefix("aten.") for name in names}
    for block in peer.event_blocks:
        for event in block.events:
            if event.op_types and event.name not in FRAMEWORK:
                assert event.debug_data or make is control_flow, event.name  # a branch that did not run has none
                assert any(event.stack_traces.values())
    (execute,) = (block for block in peer.event_blocks if block.name == "Execute")
    expected = case.model(*case.inputs)
    if not case.options.get("quantize"):
        torch.testing.assert_close(execute.run_output[0], expected, rtol=1e-3, atol=1e-3)
    if make is control_flow:
        return  # executorch's gap does not run branches
    for distance in ("SNR", "MSE"):
        found = gaps(ours, distance)
        theirs = gaps(peer, distance, reference_graph="edge_dialect_exported_program")
        assert found.keys() == theirs.keys()
        for handles, gap in found.items():
            assert not math.isnan(gap)
            assert gap == pytest.approx(theirs[handles], rel=1e-4), handles
    assert len(found) >= len(case.operators)
    if not case.options.get("quantize"):
        assert min(gaps(ours, "SNR").values()) > 60
