"""Sizes of tensors, for the memory plan."""

import pytest
import torch
from torch import nn

from edgecore.errors import CompileError
from edgecore.memory import MemoryPlanningPass, TensorSpec
from edgecore.pipeline import to_edge


def test_a_tensor_whose_size_has_no_bound_is_refused():
    exported = torch.export.export(nn.Sigmoid(), (torch.randn(8),), dynamic_shapes=({0: torch.export.Dim("n")},))
    with pytest.raises(CompileError, match="without an upper bound"):
        MemoryPlanningPass().plan(to_edge(exported).exported_program())


def test_a_tensor_within_another_lies_in_the_storage_at_the_end_of_the_chain():
    whole = TensorSpec(torch.float32, (8,), (0,), mem_id=1, mem_offset=64)
    half = TensorSpec(torch.float32, (4,), (0,), base=whole, base_offset=16)
    last = TensorSpec(torch.float32, (1,), (0,), base=half, base_offset=12)
    assert last.storage is whole and last.storage_offset == 28 and whole.storage_offset == 0
