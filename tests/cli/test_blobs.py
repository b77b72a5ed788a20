"""`edgecore inspect --blobs`: the blobs of delegates, opened."""

from __future__ import annotations

import json


def test_blobs_of_a_backend_that_is_not_installed_are_listed_unopened(edgecore, pte):
    result = edgecore("inspect", pte, "--blobs")
    assert result.status == 0
    head, problem = result.out.splitlines()
    assert head == "blob 0: FooBackend, 16 bytes, for forward/0"
    assert "no description" in problem
    assert "no package is known for it" in problem


def test_a_blob_number_that_the_file_does_not_have_is_reported_with_those_it_has(edgecore, pte, relu):
    assert "there is no blob 3: the file has 0 to 0" in edgecore("inspect", pte, "--blob", 3).err
    assert "there is no blob 0: the file has none" in edgecore("inspect", relu, "--blob", 0).err
    assert edgecore("inspect", relu, "--blobs").out == "the file has no delegates\n"


def test_blobs_are_printed_as_json(edgecore, pte):
    (row,) = json.loads(edgecore("inspect", pte, "--blob", 0, "--json").out)
    assert (row["backend_id"], row["delegates"], row["lines"]) == ("FooBackend", ["forward/0"], [])
