"""An operator stays whole for a backend unless backends of higher priority take all its parts."""

import sys
import warnings

import pytest
import torch
from fake_backends import compiles
from torch import nn

from edgecore.errors import FallbackWarning
from edgecore.partition import CapabilityPartitioner, Partitioner, PartitionResult
from edgecore.pipeline import to_edge_transform_and_lower

aten = torch.ops.aten
LAYER_NORM, NATIVE_LAYER_NORM = aten.layer_norm.default, aten.native_layer_norm.default
HARDSWISH = aten.hardswish.default
PARTS_OF_HARDSWISH = (aten.add.Scalar, aten.clamp.default, aten.mul.Tensor, aten.div.Scalar)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return nn.functional.hardswish(self.norm(x))


class Cubes(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv3d(1, 2, 3), nn.BatchNorm3d(2)

    def forward(self, x):
        return nn.functional.hardswish(self.norm(self.conv(x)))


def takes(name, *operators, whole=()):
    """Make a partitioner that tags the operators, and wants those in `whole` not decomposed."""
    return CapabilityPartitioner(
        name,
        lambda program: lambda node: None if node.target in (*operators, *whole) else "no",
        ops_to_not_decompose=whole,
    )


@pytest.fixture
def places(monkeypatch):
    """Lower a model for partitioners. Return operator -> names of the backends that get its calls."""
    monkeypatch.setattr(sys.modules["edgecore.pipeline.lowering.lower_programs"], "preprocess", compiles)
    monkeypatch.setattr(sys.modules["edgecore.pipeline.lowering.lower_programs"], "link", None)

    def lower(*partitioners, model=None, x=None):
        program = torch.export.export((model or Norm()).eval(), (torch.ones(2, 4) if x is None else x,))
        report = to_edge_transform_and_lower(program, partitioner=partitioners).report()
        found = {}
        for row in report.rows:
            found.setdefault(row.operator, set()).add(row.where)
        return found

    return lower


def test_a_later_backend_keeps_nothing_whole_that_the_first_takes_in_parts(places):
    later = takes("Later", whole=[LAYER_NORM, HARDSWISH])
    found = places(takes("First", NATIVE_LAYER_NORM, *PARTS_OF_HARDSWISH), later)
    assert found.pop("aten.native_layer_norm.default") == {"First"}
    assert set(map(frozenset, found.values())) == {frozenset({"First"})}
    assert "aten.hardswish.default" not in found


def test_an_operator_stays_whole_for_a_later_backend_if_the_first_takes_some_parts_only(places):
    later = takes("Later", whole=[LAYER_NORM, HARDSWISH])
    found = places(takes("First", NATIVE_LAYER_NORM, *PARTS_OF_HARDSWISH[:2]), later)
    assert found == {"aten.native_layer_norm.default": {"First"}, "aten.hardswish.default": {"Later"}}


def test_parts_may_go_to_several_backends_before_the_one_that_wants_them_whole(places):
    found = places(
        takes("First", NATIVE_LAYER_NORM, *PARTS_OF_HARDSWISH[:2]),
        takes("Second", *PARTS_OF_HARDSWISH[2:]),
        takes("Third", whole=[HARDSWISH]),
    )
    assert "aten.hardswish.default" not in found and {"First"} in found.values() and {"Second"} in found.values()
    assert {"Third"} not in found.values()


def test_the_first_backend_gets_whole_what_it_wants_whole(places):
    found = places(takes("First", whole=[HARDSWISH]), takes("Later", NATIVE_LAYER_NORM, *PARTS_OF_HARDSWISH))
    assert found == {"aten.native_layer_norm.default": {"Later"}, "aten.hardswish.default": {"First"}}


def test_an_operator_that_nobody_takes_whole_in_the_end_is_decomposed(places):
    wants_only = CapabilityPartitioner("Later", lambda _: lambda node: "no", ops_to_not_decompose=[HARDSWISH])
    found = places(takes("First", NATIVE_LAYER_NORM), wants_only)
    assert "aten.hardswish.default" not in found and found["aten.clamp.default"] == {"edgecore"}


def test_a_layer_of_volumes_is_lowered_for_several_backends(places):
    found = places(
        takes("First", aten.convolution.default),
        takes("Later", whole=[HARDSWISH, aten.conv3d.default]),
        model=Cubes(),
        x=torch.ones(1, 1, 4, 4, 4),
    )
    assert found["aten.conv3d.default"] == found["aten.hardswish.default"] == {"Later"}


def test_an_operator_without_a_decomposition_stays_for_the_later_backend(places):
    with torch.library._scoped_library("whole_operators", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        twice = torch.ops.whole_operators.twice.default

        class Twice(nn.Module):
            def forward(self, x):
                return twice(torch.relu(x))

        found = places(takes("First", aten.relu.default), takes("Later", whole=[twice]), model=Twice())
        assert found == {"aten.relu.default": {"First"}, "whole_operators.twice.default": {"Later"}}


def test_a_partitioner_may_define_partition_only():
    class OnlyPartition:
        def partition(self, exported_program):
            return PartitionResult(exported_program, {})

    class Inherited(Partitioner):
        def partition(self, exported_program):
            return PartitionResult(exported_program, {})

    exported = torch.export.export(torch.nn.Linear(2, 2), (torch.randn(1, 2),))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        to_edge_transform_and_lower(exported, partitioner=[OnlyPartition(), Inherited()])


def test_a_refused_operator_may_change_the_layout_of_what_a_delegate_reads(places):
    """In channels last, the parts of this pool give another layout than the pool."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.ReLU())
    x = torch.randn(1, 3, 8, 8).to(memory_format=torch.channels_last)
    partitioner = CapabilityPartitioner(
        "A",
        lambda program: lambda node: None if node.target is aten.relu.default else "no",
        ops_to_not_decompose=[aten.adaptive_avg_pool2d.default],
    )
    assert places(partitioner, model=model, x=x)["aten.relu.default"] == {"A"}
