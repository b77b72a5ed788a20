"""The tables of `qnn_header.fbs` as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass

from edgecore.sdk.flat import data, scalar, string, tables, vector

IDENTIFIER = b"EQN1"
VERSION = 1


@dataclass(slots=True)
class Tensor:
    """An input or output of the graph; `scale` is 0 if the tensor is not quantized.

    The delegate clamps the finite numbers of a float32 input to the magnitude `largest`, unless `largest` is 0.
    """

    name: str = string(0)
    dtype: str = string(1)
    dims: list[int] = vector(2, "i64")
    scale: float = scalar(3, "f32")
    zero_point: int = scalar(4, "i32")
    largest: float = scalar(5, "f32")


@dataclass(slots=True)
class Header:
    """The target and the compiler of a context binary, and its inputs and outputs."""

    version: int = scalar(0, "u32", VERSION)
    sdk_build: str = string(1)
    core_api: str = string(2)
    provider: str = string(3)
    soc: str = string(4)
    soc_id: int = scalar(5, "u32")
    htp_arch: int = scalar(6, "u32")
    graph: str = string(7)
    partition_name: str = string(8)
    inputs: list[Tensor] = tables(9, Tensor)
    outputs: list[Tensor] = tables(10, Tensor)
    context_sha256: bytes = data(11)
