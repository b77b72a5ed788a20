"""Rules for a partitioner: it only tags nodes, with tags that it defines, in convex sets."""

import pytest
import torch
from fake_backends import lower, zigzag

from edgecore.errors import CompileError
from edgecore.partition import (
    TAG,
    DelegationSpec,
    PartitionResult,
)

aten = torch.ops.aten


class Mutating:
    def ops_to_not_decompose(self, program):
        return (), None

    def partition(self, program):
        node = next(node for node in program.graph.nodes if node.target is aten.sin.default)
        node.target = aten.cos.default
        return PartitionResult(program, {})


def test_a_partitioner_may_only_tag():
    with pytest.raises(CompileError, match="Mutating changed the program"):
        lower(zigzag(), Mutating())


class TagAll(Mutating):
    def __init__(self, tags, targets=(aten.add.Tensor,)):
        self.tags, self.targets = tags, targets

    def partition(self, program):
        for node in program.graph.nodes:
            if node.target in self.targets:
                node.meta[TAG] = "part"
        return PartitionResult(program, self.tags)


def test_a_tag_without_meaning_is_refused():
    with pytest.raises(CompileError, match="which it does not define"):
        lower(zigzag(), TagAll({}))


def test_a_partition_that_is_not_convex_is_refused():
    spec = DelegationSpec("Fake")
    with pytest.raises(CompileError, match="not convex"):
        lower(zigzag(), TagAll({"part": spec}, (aten.add.Tensor,)))
