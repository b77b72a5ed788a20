"""TOSA graphs: in memory and as bytes (`graph`), their operators' origins in the model (`origins`), and their views."""

from edgecore_tosa.graph.graph import NUMPY, Array, Graph, Operator, Tensor, decode, encode

__all__ = ["NUMPY", "Array", "Graph", "Operator", "Tensor", "decode", "encode"]
