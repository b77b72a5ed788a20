"""Arguments of lowering that are given for all methods or by method."""

from __future__ import annotations

import pytest
import torch
from fake_backends import echo_backend  # noqa: F401

import edgecore
from edgecore.errors import CompileError
from edgecore.executorch.exir.partitioners import AllNodePartitioner

X = torch.randn(1, 4)


class Doubles(torch.nn.Module):
    def forward(self, x):
        return x + x


def exported():
    return torch.export.export(Doubles(), (X,))


def test_partitioners_of_an_iterator_serve_all_methods(echo_backend):  # noqa: F811
    partitioners = iter([AllNodePartitioner("EchoBackend", [])])
    edge = edgecore.to_edge_transform_and_lower({"one": exported(), "two": exported()}, partitioner=partitioners)
    assert edge.report().delegates == {"EchoBackend": 2}


@pytest.mark.parametrize(
    ("partitioner", "words"),
    [
        ("xnnpack", "partitioner is one str, not a list"),
        (["xnnpack"], "an object of type str is not a partitioner; give one object with a method `partition`"),
        ([AllNodePartitioner], "the class AllNodePartitioner is not a partitioner; call it"),
        ({"forward": AllNodePartitioner("EchoBackend", [])}, "partitioner is one AllNodePartitioner, not a list"),
        ({"backward": []}, "partitioner has the method 'backward', but the program has: forward"),
    ],
)
def test_what_is_no_list_of_partitioners_is_explained(partitioner, words):
    with pytest.raises(CompileError, match=words):
        edgecore.to_edge_transform_and_lower(exported(), partitioner=partitioner)


def test_a_module_in_place_of_a_program_is_explained():
    with pytest.raises(CompileError, match="'forward' is given as Doubles, not as an exported program: call torch.exp"):
        edgecore.to_edge(Doubles())
