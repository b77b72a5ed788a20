"""The classes of the Model Explorer extension: an adapter for `.pte` files, and providers of times."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, ClassVar

from model_explorer import (
    Adapter,
    AdapterMetadata,
    GetConfigEditorsResult,
    ModelExplorerGraphs,
    NodeDataProvider,
    NodeDataProviderFilter,
    NodeDataProviderMetadata,
    NodeDataProviderResult,
    config_editor,
    graph_builder,
    node_data_builder,
)

from edgecore.devtools.graph import MethodGraph, Node, graph_of
from edgecore.devtools.pages import node_of
from edgecore.devtools.profiling import Trace, middle, profile
from edgecore.devtools.random_inputs import random_arguments
from edgecore.errors import EdgecoreError

ADAPTER = "edgecore"
PROFILE, TRACE = "edgecore_profile", "edgecore_trace"
_COLD, _HOT = "#fff3e8", "#f5772a"


class PteAdapter(Adapter):  # type: ignore[misc]
    """Opens a `.pte` or `.bpte` as a graph per method, with the operations of delegates of installed backends."""

    metadata = AdapterMetadata(
        id=ADAPTER, name="edgecore", description="Programs of edgecore and ExecuTorch", fileExts=["pte", "bpte"]
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> ModelExplorerGraphs:
        """Return the graphs of a file. The adapter has no settings."""
        return {"graphs": [_graph(method) for method in graph_of(model_path, blobs=True).methods]}


class Times(NodeDataProvider):  # type: ignore[misc]
    """Colours nodes by their time, either measured on this machine or read from an ETDump."""

    metadata: ClassVar = [
        NodeDataProviderMetadata(
            id=identity, name=name, description=text, icon="timer", filter=NodeDataProviderFilter(adapterIds=[ADAPTER])
        )
        for identity, name, text in (
            (PROFILE, "edgecore: profile here", "Runs the method on this machine with random inputs"),
            (TRACE, "edgecore: times of a trace", "Reads the runs of an .etdp file"),
        )
    ]

    def get_config_editors(self, provider_id: str) -> GetConfigEditorsResult:
        """Return the fields of the dialog: runs and threads, or the ETDump's path."""
        field = config_editor.TextInputConfigEditor
        if provider_id == TRACE:
            return GetConfigEditorsResult([field(id="file", label="ETDump", required=True)])
        runs = field(id="runs", label="Runs", number=True, defaultValue=20)
        return GetConfigEditorsResult([runs, field(id="threads", label="Threads", number=True, defaultValue=1)])

    def run(
        self, provider_id: str, model_path: str, graph_id: str, config_values: dict[str, Any], graph: Any
    ) -> NodeDataProviderResult:
        """Return the milliseconds of each node of a method, or an error message."""

        def make_inputs(method: Any) -> list[Any]:
            return random_arguments(model_path, graph_id, method.inputs)

        try:
            if provider_id == TRACE:
                trace = Trace.read(Path(str(config_values.get("file", ""))).expanduser(), program=model_path)
                trace = trace.select(graph_id)
            else:
                runs, threads = (int(config_values.get(key) or value) for key, value in (("runs", 20), ("threads", 1)))
                trace = profile(model_path, method=graph_id, runs=runs, threads=threads, arguments=make_inputs).trace
        except (EdgecoreError, OSError, ValueError) as error:
            return NodeDataProviderResult(error=str(error))
        times = node_times(trace)
        if not times:
            return NodeDataProviderResult(error=f"the trace has no run of {graph_id} with operators")
        results = {node: node_data_builder.NodeDataResult(ns / 1e6) for node, ns in times.items()}
        gradient = [node_data_builder.GradientItem(stop, bgColor=colour) for stop, colour in ((0, _COLD), (1, _HOT))]
        return NodeDataProviderResult(node_data_builder.GraphNodeData(results, name="ms", gradient=gradient))


def node_times(trace: Trace) -> dict[str, float]:
    """Return the mean nanoseconds of each node, by the node ids of `graph_of(..., blobs=True)`."""
    runs = middle(trace.runs)
    times: dict[str, list[int]] = {}
    for index, run in enumerate(runs):
        for event in run.events:
            node = node_of(run, event)
            if node:
                times.setdefault(node, [0] * len(runs))[index] += event.duration
    return {node: statistics.fmean(values) for node, values in times.items()}


def _graph(method: MethodGraph) -> graph_builder.Graph:
    opened = {node.parent for node in method.nodes if node.parent}
    sources = method.sources
    nodes = [
        _node(node, sources.get(node.id, [])) for node in method.nodes if node.id not in opened or node.id in sources
    ]
    return graph_builder.Graph(method.name, nodes)


def _node(node: Node, sources: list[str]) -> graph_builder.GraphNode:
    size = f"{node.bytes:,}" if node.bytes else ""
    facts = {"operator": node.operator, "backend": node.backend, "source": node.source, "bytes": size}
    outputs = [
        graph_builder.MetadataItem(str(index), [graph_builder.KeyValue("shape", text)])
        for index, text in enumerate(node.outputs)
    ]
    return graph_builder.GraphNode(
        node.id,
        node.name,
        namespace=node.module.replace(".", "/"),
        attrs=[graph_builder.KeyValue(key, value) for key, value in facts.items() if value],
        incomingEdges=[graph_builder.IncomingEdge(name, targetNodeInputId=str(i)) for i, name in enumerate(sources)],
        outputsMetadata=outputs,
    )
