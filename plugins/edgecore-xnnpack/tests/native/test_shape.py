"""Wrong shapes of inputs are refused as such, with and without the file's metadata."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.export import Dim

import edgecore
from edgecore import format as fmt
from edgecore.errors import ExecutionError, FormatError


class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 4), torch.nn.Linear(8, 4)

    def forward(self, x, y):
        return self.first(x) + self.second(y)


@pytest.fixture(scope="module")
def program():
    batch = Dim("b", min=4, max=8)
    inputs = (torch.randn(5, 8), torch.randn(5, 8))
    return edgecore.compile(Pair().eval(), inputs, backends=["xnnpack"], dynamic_shapes=({0: batch}, {0: batch}))


def refusal(method, x, y):
    with pytest.raises(ExecutionError) as raised:
        method(np.ones(x, np.float32), np.ones(y, np.float32))
    assert not isinstance(raised.value, FormatError)
    return str(raised.value)


def test_a_wrong_shape_is_reported_with_the_name_of_the_input_where_the_file_has_metadata(program):
    method = edgecore.load(program.buffer).forward
    assert "Input 'x' (0) of method 'forward': dim 1 must be 8, got 7" in refusal(method, (5, 7), (5, 8))
    assert "dim 0 ('b') must be 5, because dim 0 ('b') of input 'x' is 5; got 6" in refusal(method, (5, 8), (6, 8))
    assert "dim 0 ('b') must be 4 to 8, got 3" in refusal(method, (3, 8), (3, 8))


@pytest.mark.parametrize(("x", "y"), [((5, 7), (5, 8)), ((5, 8), (6, 8))], ids=["width", "batch"])
def test_a_wrong_shape_is_found_by_the_delegate_where_the_file_has_no_metadata(program, x, y):
    pte = fmt.read_pte(program.buffer)
    del pte.named_data[fmt.META_KEY]
    method = edgecore.load(fmt.write_pte(pte)).forward
    sentence = refusal(method, x, y)
    assert "backend 'XnnpackBackend'" in sentence
    assert "do not fit" in sentence
    right = np.ones((5, 8), np.float32)
    assert method(right, right).shape == (5, 4)


def test_a_flipped_byte_of_packed_weights_is_found_by_verify(program):
    edgecore.load(program.buffer, verify=True)
    for kind in ("delegate", "named"):
        segment = next(part for part in fmt.read_pte(program.buffer).segments if part.kind == kind)
        changed = bytearray(program.buffer)
        changed[segment.offset + segment.size // 2] ^= 4
        assert any("SHA-256" in violation.what for violation in fmt.verify(fmt.read_pte(changed)))
        with pytest.raises(FormatError, match="are not those that were compiled"):
            edgecore.load(bytes(changed), verify=True)
