"""A changed byte of weights is found by `edgecore verify`, and at load by those who ask for it."""

from __future__ import annotations

import pytest
import torch

import edgecore
from edgecore import format as fmt
from edgecore.errors import ExecutionError, FormatError


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 3)
        self.register_buffer("total", torch.arange(3.0))

    def forward(self, x):
        self.total.add_(1)
        return self.linear(x) + self.total


@pytest.fixture(scope="module")
def program():
    return edgecore.compile(Counter().eval(), (torch.randn(1, 64),))


def flipped(buffer, kind, place):
    """`buffer` with one bit of its first segment of this kind turned over."""
    segment = next(part for part in fmt.read_pte(buffer).segments if part.kind == kind)
    changed = bytearray(buffer)
    changed[segment.offset + place % segment.size] ^= 1
    return bytes(changed)


@pytest.mark.parametrize("kind", ["constants", "mutable"])
@pytest.mark.parametrize("place", [0, 5, -1])
def test_a_flipped_bit_is_found_and_its_segment_named(program, kind, place):
    assert fmt.verify(fmt.read_pte(program.buffer)) == []
    edgecore.load(program.buffer, verify=True)
    changed = flipped(program.buffer, kind, place)
    (violation,) = fmt.verify(fmt.read_pte(changed))
    assert violation.where.startswith(f"{kind} segment at byte ")
    assert "its bytes are not those that were compiled" in violation.what
    edgecore.load(changed)  # nobody asked
    name = {"constants": "constants", "mutable": "initial state"}[kind]
    with pytest.raises(FormatError, match=f"The bytes of segment '{name}' are not those that were compiled"):
        edgecore.load(changed, verify=True)


def test_weights_outside_are_verified_where_they_are_given(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Linear(4, 2)).eval()
    program = edgecore.compile(model, (torch.randn(1, 8),), external_data=True)
    path, weights = program.save(tmp_path / "m.pte")
    edgecore.load(path, [weights], verify=True)
    ptd = fmt.read_ptd(weights.read_bytes())
    assert fmt.verify(fmt.read_pte(path.read_bytes()), data={"m.ptd": ptd}) == []
    changed = bytearray(weights.read_bytes())
    changed[ptd.segments[-1].offset] ^= 128
    weights.write_bytes(changed)
    (violation,) = fmt.verify(fmt.read_pte(path.read_bytes()), data={"m.ptd": fmt.read_ptd(bytes(changed))})
    assert violation.where.endswith("of m.ptd")
    with pytest.raises(ExecutionError, match="The bytes of external data '.*' are not those that were compiled"):
        edgecore.load(path, [weights], verify=True)


def test_a_file_without_hashes_cannot_be_verified(program):
    pte = fmt.read_pte(program.buffer)
    meta = fmt.get_meta(pte)
    meta.constants_sha256 = b""
    fmt.set_meta(pte, meta)
    assert fmt.verify(pte) == []
    with pytest.raises(ExecutionError, match="metadata has no SHA-256 of segment 'constants'"):
        edgecore.load(fmt.write_pte(pte), verify=True)
    del pte.named_data[fmt.META_KEY]
    with pytest.raises(ExecutionError, match="edgecore did not write it"):
        edgecore.load(fmt.write_pte(pte), verify=True)


def test_hashes_are_those_of_the_file_whatever_lies_between_its_tensors():
    class Sizes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for index, size in enumerate((1, 3, 16, 0, 5)):
                self.register_buffer(f"b{index}", torch.full((size,), float(index)))

        def forward(self, x):
            return [x.sum() + self.get_buffer(f"b{index}") for index in range(5)]

    program = edgecore.compile(Sizes().eval(), (torch.randn(2),))
    assert fmt.verify(fmt.read_pte(program.buffer)) == []
    assert fmt.verify(program.pte) == []
    edgecore.load(program.buffer, verify=True)
