"""Test that blobs for executorch 1.5 agree with executorch's own registry: operators, dtypes, storages, layouts."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from vulkan_support import lowered

from edgecore_vulkan.graph.registry import REGISTRY, UNCHECKED
from edgecore_vulkan.schema import graph as s

pytest.importorskip("executorch.backends.vulkan.op_registry")
from executorch_registry import check, features
from vulkan_cases import CASES


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {"et_vk.prepack.default", "et_vk.sdpa.default"}))
def test_entries_agree_with_executorch(name):
    theirs, ours = features(name), REGISTRY[name]
    assert theirs is not None
    assert (theirs.supports_resize, theirs.supports_highdim, theirs.supports_prepacking) == (
        ours.resizes, ours.high_rank, ours.prepares,
    )  # fmt: skip
    if ours.dtypes == UNCHECKED:
        return
    dtypes = ours.dtypes if isinstance(ours.dtypes, tuple) else (ours.dtypes,)
    assert [set(allowed) for allowed in dtypes] == list(theirs.inputs_dtypes.vals)


@pytest.mark.parametrize("name", CASES)
def test_calls_agree_with_executorch(name):
    model, *inputs = CASES[name]
    compiled = lowered(model, *inputs)
    assert compiled.results, compiled.report
    for graph in compiled.graphs:
        check(graph)


def test_a_tensor_beyond_the_texture_limits_lies_in_a_buffer():
    (graph,) = lowered(lambda a: a + 1, torch.randn(20000, 4)).graphs
    check(graph)
    value = graph.values[graph.input_ids[0]].value
    assert (value.storage_type, value.memory_layout) == (s.Storage.BUFFER, s.Layout.WIDTH_PACKED)


def test_a_linear_layer_with_many_rows_lies_in_a_buffer():
    (graph,) = lowered(nn.Linear(8, 20000), torch.randn(1, 8)).graphs
    check(graph)


def test_networks_agree_with_executorch():
    from zoo import make

    for name in ("mobilenet_v3_small", "unet"):
        for graph in lowered(*_flat(make(name))).graphs:
            check(graph)


def _flat(example):
    model, inputs = example
    return (model, *inputs)
