"""The graph of a file as data, JSON and text: its operators with their modules and backends."""

from edgecore.devtools.graph.builder import graph_of, kernel_name, stored_graph
from edgecore.devtools.graph.model import Graph, MethodGraph, Node
from edgecore.devtools.graph.operators import Operator, operators_of

__all__ = ["Graph", "MethodGraph", "Node", "Operator", "graph_of", "kernel_name", "operators_of", "stored_graph"]
