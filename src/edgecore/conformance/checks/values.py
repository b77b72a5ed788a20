"""Check the intermediate values that delegates report for debugging (by `host->event_value`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.checks.partitioner import lowered
from edgecore.conformance.programs import difference, load, network_model, outputs
from edgecore.conformance.samples.network_models import NETWORKS
from edgecore.numerics.evaluate import first, run_through_delegates
from edgecore.pipeline.lowering import LoweredProgram
from edgecore.runtime.values import OperationValue


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield the checks of the group `values`."""
    listening = "edgecore-run does not listen to the values of operations"
    yield Check("values/equal to eager", equal_to_eager, needs_run=True, in_process=listening)


def equal_to_eager(subject: BackendUnderTest) -> str:
    """Check that reported values equal the values of eager PyTorch, and that reporting changes no output."""
    compared = 0
    for name in NETWORKS:
        subject.trying(name)
        _, inputs = network_model(subject, name)
        lowered_program = lowered(subject, name)
        file = lowered_program.finish().buffer
        silent, listening = load(subject, file), load(subject, file, values=True)
        want, got = outputs(silent.forward(*inputs)), outputs(listening.forward(*inputs))
        if not all(torch.equal(actual, expected) for actual, expected in zip(got, want, strict=True)):
            raise Failed(f"{name}: the outputs differ while values are reported; they must have the same bits")
        if silent.take_values():
            raise Failed(f"{name}: it reports values without EDGECORE_INSTANCE_VALUES")
        compared += _compare(subject, name, listening.take_values(), _values_of_nodes(lowered_program, inputs))
    if not compared:
        raise Skipped("it reports no values of operations (host->event_value); devtools then compare outputs only")
    return f"{compared} values of operations are equal to eager's"


def _compare(
    subject: BackendUnderTest, network: str, values: list[OperationValue], expected: dict[int, torch.Tensor]
) -> int:
    """Compare values that delegates reported with eager's values of the nodes; return the number of compared values."""
    last: dict[int, OperationValue] = {}
    for row in values:
        if not row.handles:
            raise Failed(
                f"{network}: delegate {row.delegate} reports a value of {row.operation!r}, which debug_handle_map lacks"
            )
        last.update(dict.fromkeys(row.handles, row))  # several operations may compute a node: compare the last value
    count = 0
    for handle, row in last.items():
        want, got = expected.get(handle), torch.utils.dlpack.from_dlpack(row.value)
        if handle != row.handles[-1] or want is None or want.shape != got.shape or want.dtype != got.dtype:
            continue
        if problem := difference(subject, got, want):
            raise Failed(f"{network}: the value of {row.operation!r} in delegate {row.delegate}: {problem}")
        count += 1
    if values and not count:
        raise Failed(
            f"{network}: none of the {len(values)} values has the shape and dtype of the node that its last debug "
            "handle names; value_dim_orders may be missing"
        )
    return count


def _values_of_nodes(lowered_program: LoweredProgram, inputs: Any) -> dict[int, torch.Tensor]:
    """Run a program in eager; return the first result of each node inside of a delegate, by the node's debug handle."""
    values: dict[int, torch.Tensor] = {}

    def record(node: Node, result: Any, is_inside: bool) -> None:
        value = first(result)
        if is_inside and isinstance(value, torch.Tensor) and "debug_handle" in node.meta:
            values[node.meta["debug_handle"]] = value

    run_through_delegates(lowered_program.programs["forward"], inputs, record)
    return values
