"""Interchange with executorch 1.5.1: its Inspector reads edgecore's program, trace, values and record, and ours its."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import zoo
from interop.peer import quantized_by_executorch
from small_models import Layers

import edgecore
from edgecore.devtools import Inspector

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")

REFERENCE = "edge_dialect_exported_program"
FRAMEWORK = ("Method::execute", "OPERATOR_CALL", "Program::load_method", "Method::init")


class Shared(torch.nn.Module):
    """Calls attention, all of whose parts have one debug handle in executorch, and in several calls of a delegate."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.first(x).view(1, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2) + 1


class TwoOutputs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.first(x))
        return y, torch.sigmoid(torch.tanh(y))


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        return torch.cond(y.sum() > 0, lambda y: torch.sin(y) + 1, lambda y: torch.cos(y) - 1, (y,))


class Attention(torch.nn.Module):
    """Calls an operator that neither torch nor edgecore has: of executorch's library for language models."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.nn.Parameter(torch.randn(8))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.ops.llama.custom_sdpa(q + self.shift, k, v, 0, None, 0.0, True))


class Head(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.last(torch.tanh(x)))


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


def shared_handles() -> Case:
    return Case(Shared().eval(), (torch.randn(1, 5, 8),), frozenset(("add.Tensor",)), {})


def control_flow() -> Case:
    return Case(Branches().eval(), (torch.randn(2, 8),), frozenset(("linear.default", "sum.dim_IntList")), {})


def custom_operator() -> Case:
    pytest.importorskip("edgecore_llm")  # has the kernel
    pytest.importorskip("executorch.extension.llm.custom_ops.custom_ops")
    operators = frozenset(("add.Tensor", "custom_sdpa.default", "relu.default"))
    return Case(Attention().eval(), tuple(torch.randn(1, 5, heads, 8) for heads in (4, 2, 2)), operators, {})


def zoo_case(name: str, operators: tuple[str, ...], recipe: str | None = None) -> Case:
    model, inputs = zoo.ALL[name]()
    options = {"quantize": recipe, "calibration": [inputs]} if recipe else {}
    return Case(zoo.calibrate(model, inputs), inputs, frozenset(operators), options)


def mobilenet_int8() -> Case:
    return zoo_case("mobilenet_v2", ("convolution.default", "linear.default"), "int8")


def bert_mini() -> Case:
    return zoo_case("bert_mini", ("linear.default", "embedding.default"))


BOTH: tuple[list[str], ...] = ([], ["xnnpack"])


def our_files(
    models: Mapping[str, torch.nn.Module], inputs: tuple[torch.Tensor, ...], folder: Path, backends: list[str],
    **options: Any,
) -> dict[str, str]:  # fmt: skip
    """Compile methods with edgecore, and run them; returns the arguments of an Inspector."""
    program = edgecore.compile(
        models if len(models) > 1 else models["forward"], dict.fromkeys(models, inputs) if len(models) > 1 else inputs,
        backends=backends, generate_etrecord=True, **options,
    )  # fmt: skip
    program.save(folder / "model.pte")
    record = program.get_etrecord()
    record.update_representative_inputs(list(inputs))
    record.save(folder / "model.etrecord")
    loaded = edgecore.load(folder / "model.pte", debug="values", threads=1)
    for _ in range(3):
        for name in models:
            loaded[name](*inputs)
    loaded.write_trace(folder / "runs.etdp", values=folder / "values.bin")
    return files_in(folder)


def their_files(
    models: Mapping[str, torch.nn.Module], inputs: tuple[torch.Tensor, ...], folder: Path, backends: list[str],
    *, dynamic_shapes: Any = None, quantize: str | None = None, **_: Any,
) -> dict[str, str]:  # fmt: skip
    """Compile methods with executorch, and run them; returns the arguments of an Inspector."""
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    exported = {
        name: quantized_by_executorch(model, [inputs]) if quantize
        else torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes)
        for name, model in models.items()
    }  # fmt: skip
    partitioner: list[Any] = []
    if backends:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        partitioner = [XnnpackPartitioner()]
    branches = any(isinstance(model, Branches) for model in models.values())  # executorch cannot write a record of them
    lowered = to_edge_transform_and_lower(exported, partitioner=partitioner, generate_etrecord=not branches)
    manager = lowered.to_executorch()
    manager.save(str(folder / "model.pte"))
    if not branches:
        record = manager.get_etrecord()
        record.update_representative_inputs(list(inputs))
        record.save(folder / "model.etrecord")
    program = Runtime.get().load_program(folder / "model.pte", enable_etdump=True, debug_buffer_size=1 << 28)
    methods = [program.load_method(name) for name in models]
    for _ in range(3):
        for method in methods:
            method.execute(list(inputs))
    program.write_etdump_result_to_file(str(folder / "runs.etdp"), str(folder / "values.bin"))
    return files_in(folder)


def files_in(folder: Path) -> dict[str, str]:
    files = {"etdump_path": str(folder / "runs.etdp"), "debug_buffer_path": str(folder / "values.bin")}
    record = folder / "model.etrecord"
    return files | ({"etrecord": str(record)} if record.exists() else {})


def short(operators: set[str]) -> set[str]:
    """Names of operators without their namespaces, which executorch writes in records and edgecore in part."""
    return {".".join(name.split(".")[-2:]) for name in operators}


def gaps(inspector: Any, distance: str) -> dict[tuple[int, ...], float]:
    frame = inspector.calculate_numeric_gap(distance)
    return {handles: gap[0] for handles, gap in zip(frame["runtime_debug_handle"], frame["gap"], strict=True)}


def compare_gaps(ours: Inspector, peer: Any) -> None:
    """Compare the numeric gap of all operators with executorch's. Two kinds of rows differ.

    executorch leaves out operators with several outputs, here layer normalization. And of an operator whose values are
    all zero on both sides its SNR is 0/0, NaN, while that of other equal values is infinite; ours is infinite for both.
    """
    for distance in ("SNR", "MSE", "L1"):
        # executorch's order of handles within a set depends on that of equal sets; the last is the one that counts.
        found, expected = (
            {(frozenset(row.runtime_debug_handle), row.runtime_debug_handle[-1]): row for row in frame.itertuples()}
            for frame in (
                ours.calculate_numeric_gap(distance), peer.calculate_numeric_gap(distance, reference_graph=REFERENCE)
            )
        )  # fmt: skip
        several = {key for key, row in found.items() if "native_layer_norm" in row.aot_ops[-1]}
        assert found.keys() - several == expected.keys()
        assert expected
        for key, row in found.items():
            assert not any(map(math.isnan, row.gap)), key
            if key in several:
                continue
            theirs = expected[key]
            assert sorted(row.aot_ops) == sorted(theirs.aot_ops)
            assert sorted(row.runtime_ops) == sorted(theirs.runtime_ops)
            zeros = not row.aot_intermediate_output.any() and not row.runtime_intermediate_output.any()
            if distance == "SNR" and zeros:
                assert row.gap == [math.inf]
                assert math.isnan(*theirs.gap)
            else:
                assert row.gap == pytest.approx(theirs.gap, rel=1e-6), key


def compare_events(ours: Inspector, peer: Any, only: int | None = None) -> set[str]:
    """Compare all events of the two, or of one block; returns the names of operators that executorch's knows."""
    names = set()
    assert [(block.name, len(block.events)) for block in ours.event_blocks] == [
        (block.name, len(block.events)) for block in peer.event_blocks
    ]
    for index, (block, theirs) in enumerate(zip(ours.event_blocks, peer.event_blocks, strict=True)):
        if only not in (None, index):
            continue
        for event, expected in zip(block.events, theirs.events, strict=True):
            assert event.name == expected.name
            if expected.op_types or expected.debug_handles is None or expected.name in FRAMEWORK:
                assert event.op_types == expected.op_types
                assert event.stack_traces == expected.stack_traces
                assert event.module_hierarchy == expected.module_hierarchy
            else:  # inside of a branch, which executorch's Inspector does not look into
                assert event.op_types[0] in ("sin.default", "add.Scalar", "cos.default", "sub.Scalar")
            assert event.delegate_backend_name == expected.delegate_backend_name
            assert event.num_outputs == expected.num_outputs
            assert len(event.debug_data) == len(expected.debug_data)
            for value, other in zip(event.debug_data, expected.debug_data, strict=True):
                torch.testing.assert_close(value, other, equal_nan=True)
            if event.perf_data is not None:
                assert event.perf_data.avg == pytest.approx(expected.perf_data.avg, abs=1e-6)
            if event.name not in ("DELEGATE_CALL", *FRAMEWORK):
                names.update(expected.op_types)
    return names


@pytest.mark.parametrize(
    ("make", "backends"),
    [
        *((make, backends) for make in (layers, symbolic_sizes, control_flow, custom_operator) for backends in BOTH),
        pytest.param(mobilenet_int8, ["xnnpack"], marks=pytest.mark.full),  # int8 needs a backend
        *(pytest.param(bert_mini, backends, marks=pytest.mark.full) for backends in BOTH),
    ],
)
def test_executorch_reads_our_three_files_completely(make: Any, backends: list[str], tmp_path: Path) -> None:
    if backends:
        pytest.importorskip("edgecore_xnnpack")
    torch.manual_seed(0)
    case = make()
    files = our_files({"forward": case.model}, case.inputs, tmp_path, backends, **case.options)
    ours = Inspector(**files)
    peer = pytest.importorskip("executorch.devtools").Inspector(**files)
    names = compare_events(ours, peer)
    assert case.operators <= short(names)
    for block in peer.event_blocks:
        for event in block.events:
            if event.op_types and event.name not in FRAMEWORK:
                assert event.debug_data or make is control_flow, event.name  # a branch that did not run has none
                # What quantization has inserted is in no line of the model.
                assert any(event.stack_traces.values()) or all("quantize" in name for name in event.op_types)
    (execute,) = (block for block in peer.event_blocks if block.name == "Execute")
    expected = case.model(*case.inputs)
    if not case.options.get("quantize"):
        torch.testing.assert_close(execute.run_output[0], expected, rtol=1e-3, atol=1e-3)
    if make is control_flow:  # executorch's gap does not run branches
        return
    compare_gaps(ours, peer)
    found = gaps(ours, "SNR")
    assert len(found) >= len(case.operators)
    if not case.options.get("quantize"):
        assert min(found.values()) > 60


@pytest.mark.parametrize(
    ("make", "backends"),
    [
        (custom_operator, []),  # test_inspector.py has other quick cases
        pytest.param(shared_handles, ["xnnpack"], marks=pytest.mark.full),  # test_numeric_gap.py has a quick form
        *(
            pytest.param(make, backends, marks=pytest.mark.full)
            for make in (layers, symbolic_sizes, control_flow, custom_operator, mobilenet_int8, bert_mini)
            for backends in BOTH
            if backends or make not in (custom_operator, mobilenet_int8)  # without a backend: above, and not possible
        ),
    ],
)
def test_the_three_files_of_executorch_are_read_completely(make: Any, backends: list[str], tmp_path: Path) -> None:
    pytest.importorskip("executorch.runtime")
    torch.manual_seed(0)
    case = make()
    files = their_files({"forward": case.model}, case.inputs, tmp_path, backends, **case.options)
    ours = Inspector(**files)
    peer = pytest.importorskip("executorch.devtools").Inspector(**files)
    names = compare_events(ours, peer)
    (execute,) = (block for block in ours.event_blocks if block.name == "Execute")
    expected = case.model(*case.inputs)
    if not case.options.get("quantize"):
        torch.testing.assert_close(execute.run_output[0], expected, rtol=1e-3, atol=1e-3)
    if "etrecord" not in files:
        return
    if not backends and not case.options.get("quantize"):
        assert case.operators - {"linear.default"} <= short(names)  # its kernels have addmm instead
    compare_gaps(ours, peer)


@pytest.mark.parametrize("write", [our_files, pytest.param(their_files, marks=pytest.mark.full)])
def test_each_of_several_methods_is_read_completely(write: Any, tmp_path: Path) -> None:
    pytest.importorskip("executorch.runtime")
    from executorch.devtools.etrecord import parse_etrecord

    torch.manual_seed(0)
    x = torch.randn(2, 8)
    models = {"forward": Layers().eval(), "head": Head().eval()}
    files = write(models, (x,), tmp_path, [])
    ours = Inspector(**files)
    names = {}
    for method, model in models.items():
        # executorch's Inspector fails with a record of several methods, also of executorch. It reads one of them at a time.
        record = parse_etrecord(files["etrecord"])
        record.edge_dialect_program = record.edge_dialect_program[method]
        for maps in (record._debug_handle_map, record._delegate_map, record._instruction_id_to_num_outs_map):
            maps["forward"] = maps.get(method, {})
        peer = pytest.importorskip("executorch.devtools").Inspector(**files | {"etrecord": record})
        (index,) = (
            index
            for index, block in enumerate(ours.event_blocks)
            if ours._methods[index] == method and block.name.startswith("Execute")
        )
        names[method] = compare_events(ours, peer, index)
        block = ours.event_blocks[index]
        torch.testing.assert_close(block.run_output[0], model(x))
        assert all(event.debug_data for event in block.events if event.op_types and event.name not in FRAMEWORK)
        assert min(gaps(Inspector(**files, method=method), "SNR").values()) > 60
    operators = {method: short(found) for method, found in names.items()}
    assert {"gelu.default", "add.Tensor"} <= operators["forward"]
    assert {"tanh.default", "sigmoid.default"} <= operators["head"]
    assert "tanh.default" not in operators["forward"]


@pytest.mark.parametrize("backends", [[], ["xnnpack"]], ids=["kernels", "xnnpack"])
def test_the_gap_of_an_operator_with_several_outputs_is_that_of_its_result(backends: list[str], tmp_path: Path) -> None:
    if backends:
        pytest.importorskip("edgecore_xnnpack")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.ReLU())
    for norm in (model[0], model[2]):
        torch.nn.init.normal_(norm.bias)  # only what the last of its operations computes is the result
    files = our_files({"forward": model.eval()}, (torch.randn(2, 8),), tmp_path, backends)
    inspector = Inspector(**files)
    compare_gaps(inspector, pytest.importorskip("executorch.devtools").Inspector(**files))
    found = gaps(inspector, "SNR")
    assert len(found) == (3 if backends else 4)  # XNNPACK computes the last two at once
    assert min(found.values()) > 60


@pytest.mark.slow
def test_the_gap_of_a_delegate_with_several_outputs_is_that_of_the_last_one(tmp_path: Path) -> None:
    pytest.importorskip("edgecore_xnnpack")
    pytest.importorskip("executorch.runtime")
    devtools = pytest.importorskip("executorch.devtools")
    torch.manual_seed(0)
    models, inputs = {"forward": TwoOutputs().eval()}, (torch.randn(2, 8),)
    files = our_files(models, inputs, tmp_path, ["xnnpack"])
    compare_gaps(Inspector(**files), devtools.Inspector(**files))
    assert len(gaps(Inspector(**files), "SNR")) == 3
    # Without values from inside executorch also compares the first output, with the operator before the last, tanh,
    # although the operator is relu. Ours has no row for it.
    files = their_files(models, inputs, tmp_path, ["xnnpack"])
    (ours,) = Inspector(**files).calculate_numeric_gap("SNR").itertuples()
    last, first = devtools.Inspector(**files).calculate_numeric_gap("SNR", reference_graph=REFERENCE).itertuples()
    assert ours.runtime_debug_handle == last.runtime_debug_handle == first.runtime_debug_handle
    assert ours.gap == pytest.approx(last.gap)
    assert first.gap[0] < 20
    assert ours.gap[0] > 60
