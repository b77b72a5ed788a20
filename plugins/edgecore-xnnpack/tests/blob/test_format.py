"""The blob of a delegate: its header, and graphs that are read as they were written or refused."""

from __future__ import annotations

import pytest
import torch
from lowered import compiled
from torch import nn

from edgecore.errors import FormatError
from edgecore_xnnpack.blob.format import read_graph, write_graph


@pytest.fixture(scope="module")
def blob() -> bytes:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    return bytes(compiled(net, torch.randn(2, 3)).pte.delegate_blobs[0])


def test_a_graph_is_read_as_it_was_written(blob: bytes) -> None:
    graph = read_graph(blob)
    assert graph.nodes and graph.constant_data
    assert write_graph(graph) == blob
    assert read_graph(blob[32:]) == graph  # without the header


def test_the_flatbuffer_lies_behind_a_header_of_32_bytes(blob: bytes) -> None:
    assert blob[4:8] == b"XH00" and len(blob) % 16 == 0
    offset, size = (int.from_bytes(blob[start : start + 4], "little") for start in (10, 14))
    assert (offset, offset + size) == (32, len(blob))


def test_every_truncation_of_a_blob_is_refused(blob: bytes) -> None:
    for length in range(0, len(blob) - 16, 5):  # the end may be padding
        with pytest.raises(FormatError):
            read_graph(blob[:length])
