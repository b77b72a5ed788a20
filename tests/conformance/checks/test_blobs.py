"""The damage that the suite does to blobs: each kind reaches the parser, and keeps what its name promises."""

import random

import pytest
import torch

import edgecore
from edgecore import format as fmt
from edgecore.conformance.checks.blobs import KINDS, _damaged_files

SIZES = (1, 2, 3, 7, 8, 9, 64, 1000)


def damaged(kind: str, blob: bytes) -> list[bytes]:
    return [result for _, result in KINDS[kind](blob, 200, random.Random(0))]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["bit flips", "hostile numbers"])
def test_changed_bytes_leave_the_size_as_it_is(kind, size):
    results = damaged(kind, random.Random(1).randbytes(size))
    assert results and {len(result) for result in results} == {size}


@pytest.mark.parametrize("size", SIZES)
def test_a_truncated_blob_is_a_shorter_prefix(size):
    blob = random.Random(1).randbytes(size)
    results = damaged("truncated", blob)
    assert b"" in results and all(len(result) < size and blob.startswith(result) for result in results)


class Sorted(torch.nn.Module):
    def forward(self, x):
        return x.sort()[0]


def test_a_file_of_several_blobs_is_damaged_as_often_as_a_file_of_one():
    pytest.importorskip("edgecore_xnnpack")
    layers = [torch.nn.Sequential(torch.nn.Linear(2, 2), Sorted()) for _ in range(3)]
    file = edgecore.compile(torch.nn.Sequential(*layers).eval(), (torch.ones(1, 2),), backends=["xnnpack"]).buffer
    assert len(fmt.read_pte(file).delegate_blobs) == 3
    assert len(list(_damaged_files("bit flips", 30, file))) == 30


def test_a_foreign_blob_never_is_the_blob_itself():
    blob = random.Random(1).randbytes(64)
    results = damaged("foreign", blob)
    assert blob not in results and blob + blob in results and bytes(4) + blob in results
