"""Declare flatbuffers as dataclasses, for the blob of a backend: see `edgecore.format.flat`. Imports no torch.

Experimental: may change in any release.
"""

from edgecore.format.flat import Buffer, data, pack, scalar, string, strings, table, tables, union, unpack, vector

__all__ = ["Buffer", "data", "pack", "scalar", "string", "strings", "table", "tables", "union", "unpack", "vector"]
