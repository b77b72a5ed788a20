"""Sizes of tensors, for the memory plan."""

import pytest
import torch
from torch import nn

from edgecore.errors import CompileError
from edgecore.memory import MemoryPlanningPass
from edgecore.pipeline import to_edge


def test_a_tensor_whose_size_has_no_bound_is_refused():
    exported = torch.export.export(nn.Sigmoid(), (torch.randn(8),), dynamic_shapes=({0: torch.export.Dim("n")},))
    with pytest.raises(CompileError, match="without an upper bound"):
        MemoryPlanningPass().plan(to_edge(exported).exported_program())
