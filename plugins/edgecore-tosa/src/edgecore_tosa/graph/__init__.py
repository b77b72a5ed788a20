"""Represent TOSA graphs in memory and serialized, with the origins of operators; convert graphs for tools."""

from edgecore_tosa.graph.graph import NUMPY, Array, Graph, Operator, Tensor, decode, encode

__all__ = ["NUMPY", "Array", "Graph", "Operator", "Tensor", "decode", "encode"]
