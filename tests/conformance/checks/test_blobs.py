"""The damage that the suite does to blobs: each kind reaches the parser, and keeps what its name promises."""

import random

import pytest

from edgecore.conformance.checks.blobs import KINDS

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


def test_a_foreign_blob_never_is_the_blob_itself():
    blob = random.Random(1).randbytes(64)
    results = damaged("foreign", blob)
    assert blob not in results and blob + blob in results and bytes(4) + blob in results
