"""TOSA graphs: in memory and serialized (`graph`), origins of operators (`origins`), conversion for tools."""

from edgecore_tosa.graph.graph import NUMPY, Array, Graph, Operator, Tensor, decode, encode

__all__ = ["NUMPY", "Array", "Graph", "Operator", "Tensor", "decode", "encode"]
