"""Relate Vela's estimates for the operators of a TOSA graph to the nodes of the PyTorch model."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgecore.sdk import describe
from edgecore_tosa.graph import Graph

Tables = Mapping[str, tuple[Sequence[str], Iterable[Sequence[str]]]]
"""Vela's debug database: the header and the rows of each table."""

_MOST = 5


@dataclass(frozen=True)
class OperatorEstimate:
    """Vela's estimates for one operator.

    Attributes:
        cycles: Cycles of the operator, including waiting for memory. All operators together take
            `VelaReport.total_cycles`.
        npu_cycles: Cycles in which the NPU computes.
        multiplications: Number of multiply-accumulate operations.
    """

    cycles: int
    npu_cycles: int
    multiplications: int


@dataclass(frozen=True)
class Layer:
    """An operator of a TOSA graph with its estimates.

    Attributes:
        operator: Key of the operator in the delegate's debug handles, such as `CONV2D t37`.
        node: The node of the model from which the operator was made, and the node's line in the model's source.
        estimate: Vela's estimates, including those for operators that Vela fuses into this operator.
    """

    operator: str
    node: str
    estimate: OperatorEstimate


def operator_estimates(tables: Tables) -> dict[int, OperatorEstimate]:
    """Return Vela's estimates by the operators' numbers in the TOSA graph; {} if the tables have an unknown layout.

    Each row of the table `perf` is an operation of the NPU. Its `source_id` refers to a row of `source`, whose
    `ext_key` is the number of the operator in the TOSA graph.
    """
    if not {"perf", "source"} <= tables.keys():
        return {}
    (perf, operations), (source, origins) = tables["perf"], tables["source"]
    columns = ("source_id", "op_cycles", "npu_cycles", "mac_count")
    if not {*columns} <= {*perf} or not {"id", "ext_key"} <= {*source}:
        return {}
    number_of = {row[source.index("id")]: int(row[source.index("ext_key")]) for row in origins}
    sums: dict[int, list[int]] = {}
    for row in operations:
        origin, *numbers = (row[perf.index(column)] for column in columns)
        so_far = sums.setdefault(number_of[origin], [0] * len(numbers))
        sums[number_of[origin]] = [old + int(new) for old, new in zip(so_far, numbers, strict=True)]
    return {number: OperatorEstimate(*numbers) for number, numbers in sums.items() if any(numbers)}


def layers_of(graph: Graph, estimates: Mapping[int, OperatorEstimate]) -> tuple[Layer, ...]:
    """Return the operators for which Vela gives estimates, in the order of the TOSA graph."""
    return tuple(
        Layer(operator.name, describe(operator.source), estimates[number])
        for number, operator in graph.numbered().items()
        if number in estimates
    )


def write_layers(layers: Sequence[Layer], path: Path) -> None:
    """Write the estimates of all operators into a CSV file, a row per operator."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["operator", "cycles", "npu cycles", "multiplications", "node"])
        for layer in layers:
            estimate = layer.estimate
            writer.writerow(
                [layer.operator, estimate.cycles, estimate.npu_cycles, estimate.multiplications, layer.node]
            )


def most_expensive(layers: Sequence[Layer]) -> list[str]:
    """Return lines that name the nodes with the most estimated cycles, and their share of all cycles."""
    cycles: Counter[str] = Counter()
    for layer in layers:
        cycles[layer.node] += layer.estimate.cycles
    total = cycles.total()
    return [f"{count / total:.0%} of the cycles in {node}" for node, count in cycles.most_common(_MOST) if count]
