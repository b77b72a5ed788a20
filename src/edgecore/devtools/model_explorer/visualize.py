"""Open a program in Model Explorer, with its operators clustered by the partition that computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgecore.errors import EdgecoreError

if TYPE_CHECKING:
    from edgecore.pipeline.report import DelegationReport


def visualize(program: Any, **server: Any) -> None:
    """Open the operators of a program in Model Explorer: a graph per method, and in it a cluster per partition.

    Args:
        program: The result of `edgecore.compile` or of `to_edge...`, or an `ExportedProgram`.
        server: Arguments of `model_explorer.visualize_from_config`, such as `port` and `no_open_in_browser`.

    Raises:
        EdgecoreError: The package `ai-edge-model-explorer` is not installed.

    Example:
        >>> visualize(program)
    """
    try:
        import model_explorer
    except ModuleNotFoundError as error:
        raise EdgecoreError(
            "Model Explorer is not installed, and visualize opens it: pip install ai-edge-model-explorer"
        ) from error
    config = model_explorer.config()
    config.graphs_list.append({"graphs": _graphs(_report_of(program))})
    config.model_sources.append({"url": "graphs://program/0"})
    model_explorer.visualize_from_config(config, **server)


def _report_of(program: Any) -> DelegationReport:
    """Return the delegation report of a compiled, lowered or exported program."""
    from torch.export import ExportedProgram

    from edgecore.pipeline.report import DelegationReport

    if isinstance(program, ExportedProgram):
        return DelegationReport.of({"forward": program}, {})
    report: DelegationReport = program.report()
    return report


def _graphs(report: DelegationReport) -> list[Any]:
    """Return the graph of each method: a node per operator, in the namespace of its partition and modules."""
    from model_explorer import graph_builder as build

    from edgecore.pipeline.report.delegation import join_reasons

    found = []
    for method in dict.fromkeys(row.method for row in report.rows):
        rows = [row for row in report.rows if row.method == method]
        known = {row.node for row in rows}
        inputs = dict.fromkeys(name for row in rows for name in row.inputs if name not in known)
        nodes = [build.GraphNode(name, name) for name in inputs]
        for row in rows:
            place = "edgecore" if row.partition is None else f"{row.where} {row.partition}"
            why = join_reasons(row.reasons)
            facts = {"operator": row.operator, "runs on": row.where, "source": row.source, "not delegated because": why}
            outputs = [build.MetadataItem("0", [build.KeyValue("shape", row.shape)])] if row.shape else []
            nodes.append(
                build.GraphNode(
                    row.node,
                    row.operator.removeprefix("aten."),
                    namespace="/".join([place, *(row.module.split(".") if row.module else [])]),
                    attrs=[build.KeyValue(key, value) for key, value in facts.items() if value],
                    incomingEdges=[
                        build.IncomingEdge(name, targetNodeInputId=str(index)) for index, name in enumerate(row.inputs)
                    ],
                    outputsMetadata=outputs,
                )
            )
        found.append(build.Graph(method, nodes))
    return found
