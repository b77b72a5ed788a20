"""Each pass leaves a verified program that computes the same as before, for random graphs."""

import random

import pytest
import torch
from edge_programs import Model

import edgecore
from edgecore.ir.program.copying import copy_program
from edgecore.passes import (
    PassManager,
    convert_dim_order,
    merge_common_subexpressions,
    merge_views,
    narrow_integers,
    remove_dead_code,
)
from edgecore.passes.library.fold_constants import fold_constants
from edgecore.passes.library.hoist_selects import hoist_selects
from edgecore.passes.library.remove_identities import remove_identities
from edgecore.passes.quantized import (
    propagate_quantize,
)
from edgecore.pipeline import to_edge

STEPS = (
    lambda r, v: v + v.sum() * 0.1, lambda r, v: (v * 2 + 1).transpose(-1, -2).contiguous().transpose(-1, -2),
    lambda r, v: v.reshape(-1).view(v.shape), lambda r, v: v.permute(1, 0).permute(1, 0), lambda r, v: v.t().t() * 1,
    lambda r, v: v.unsqueeze(0).squeeze(0), lambda r, v: v.clone().relu_().add_(1), lambda r, v: v.flip(0).sigmoid(),
    lambda r, v: (v.view(-1)[: v.numel()]).view(v.shape), lambda r, v: v.to(torch.float64).to(torch.float32),
    lambda r, v: torch.cat([v]), lambda r, v: torch.cat([v, v])[: v.shape[0]], lambda r, v: v.expand(2, *v.shape)[1],
    lambda r, v: v + torch.arange(v.shape[-1]), lambda r, v: v[torch.arange(v.shape[0] - 1, -1, -1)],
)  # fmt: skip


def random_model(seed):
    steps = random.Random(seed).choices(range(len(STEPS)), k=10)
    picks = [random.Random((seed, i).__hash__()).randrange(i + 1) for i in range(10)]

    def function(self, x, state):
        values = [x]
        for step, pick in zip(steps, picks, strict=True):
            values.append(STEPS[step](self, values[pick]))
        self.memory.mul_(0.5).add_(values[3])
        return values[-1], values[5], values[5], self.memory + state, x

    return function


PASSES = {
    "identities": remove_identities,
    "constants": fold_constants,
    "dead code": remove_dead_code,
    "common": merge_common_subexpressions,
    "selects": hoist_selects,
    "views": merge_views,
    "integers": narrow_integers,
    "quantize": propagate_quantize,
    "channels last": convert_dim_order(torch.channels_last),
}


@pytest.mark.parametrize("seed", range(6))
def test_every_pass_keeps_the_meaning_of_random_graphs(seed):
    function, inputs = random_model(seed), (torch.linspace(-1, 1, 12).reshape(3, 4), torch.ones(3, 4))
    exported = torch.export.export(Model(function, memory=torch.ones(3, 4)), inputs)
    expected = Model(function, memory=torch.ones(3, 4))(*inputs)
    edge = to_edge(exported).exported_program()
    for name, one in PASSES.items():
        exported.state_dict["memory"].fill_(1)  # running the program changes it
        changed = PassManager([one], run_checks_after_each_pass=True)(copy_program(edge))
        got = changed.module(check_guards=False)(*inputs)
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
    exported.state_dict["memory"].fill_(1)
    everything = edgecore.pipeline.to_edge_transform_and_lower(exported, transform_passes=list(PASSES.values()))
    loaded = edgecore.load(everything.to_executorch().buffer)
    torch.testing.assert_close(tuple(loaded.forward(*inputs)), expected, atol=1e-5, rtol=1e-5)
