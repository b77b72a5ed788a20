"""The sample calls of operators."""

from __future__ import annotations

import torch

from edgecore.conformance import sample_table  # noqa: F401  (fills samples.TABLE)
from edgecore.conformance.samples import round_inputs, samples_of


def test_rounded_inputs_are_exact_in_lower_precisions():
    samples = samples_of("aten.add.Tensor", torch.float32, quick=True)
    round_inputs(samples)
    for tensor in (tensor for sample in samples for tensor in sample.inputs):
        assert torch.equal(tensor.half().float(), tensor) and torch.equal(tensor.bfloat16().float(), tensor)
