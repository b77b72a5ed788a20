"""The description of our blobs that `edgecore inspect --blobs` prints."""

from __future__ import annotations

import pytest
import torch

import edgecore
from edgecore.errors import FormatError
from edgecore.format import read_pte
from edgecore.plugin import BlobReader
from edgecore_xnnpack.compiler import XnnpackCompiler


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, stride=2)
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        x = torch.relu(self.conv(x)).mean((2, 3))
        return torch.cat([self.linear(x), x], 1)


@pytest.fixture(scope="module")
def pte():
    return read_pte(edgecore.compile(Net().eval(), (torch.randn(1, 3, 9, 9),), backends=["xnnpack"]).buffer)


def test_a_blob_is_described_by_its_arguments_and_nodes(pte):
    compiler = XnnpackCompiler()
    assert isinstance(compiler, BlobReader)
    named = {key: entry.data for key, entry in pte.named_data.items()}
    lines = compiler.describe_blob(bytes(pte.delegate_blobs[0]), named)
    text = "\n".join(lines)
    assert lines[1] == f"4 constants of {4 * (4 * 27 + 4 + 8 + 2)} bytes"
    assert "input 0: %0 fp32 [1, 3, 9, 9]" in text
    assert "output 0: %1 fp32 [1, 6]" in text
    assert "Conv2d(" in text and "fp32 [4, 3, 3, 3] constant" in text and "-> %" in text
    assert "subsampling_height 2" in text and "clamped to 0 .. inf" in text
    (cat,) = [line for line in lines if "Concatenate2(" in line]
    assert cat.count("%") == 3
    assert "4 of them not in this file" in compiler.describe_blob(bytes(pte.delegate_blobs[0]), {})[1]


def test_a_damaged_blob_is_described_by_its_error(pte):
    with pytest.raises(FormatError):
        XnnpackCompiler().describe_blob(bytes(pte.delegate_blobs[0])[:40], {})
