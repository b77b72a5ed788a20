"""Antialiased resampling by the bicubic and the Lanczos filter equals eager PyTorch."""

import pytest
import torch
from edge_programs import Function
from torch.nn import functional as F

import edgecore

ARGUMENTS = {
    "larger": {"size": (16, 27)},
    "smaller": {"size": (5, 2)},
    "smaller and larger": {"size": (3, 20)},
    "to one": {"size": (1, 1)},
    "by factors": {"scale_factor": (0.6, 1.7)},
    "by factors that are computed anew": {"scale_factor": (0.6, 1.7), "recompute_scale_factor": True},
    "with aligned corners": {"size": (5, 20), "align_corners": True},
    "to one row with aligned corners": {"size": (1, 4), "align_corners": True},
}
CASES = [
    (mode, name)
    for mode in ("bicubic", "lanczos")
    for name, arguments in ARGUMENTS.items()
    if mode == "bicubic" or "align_corners" not in arguments
]


@pytest.mark.parametrize("mode, name", CASES)
def test_antialiased_resampling_equals_eager(mode, name):
    model = Function(lambda x: F.interpolate(x, mode=mode, antialias=True, **ARGUMENTS[name])).eval()
    x = torch.randn(2, 3, 8, 9)
    for image in (x.to(memory_format=torch.channels_last), x[:, :, :2, :7].double()):
        got = edgecore.load(edgecore.compile(model, (image,)).buffer).forward(image)
        torch.testing.assert_close(torch.from_dlpack(got), model(image), check_stride=False)


def test_weights_are_constants_and_batches_have_any_size():
    model = Function(lambda x: F.interpolate(x, (6, 4), mode="bicubic", antialias=True)).eval()
    x = torch.randn(3, 2, 8, 9)
    program = edgecore.compile(model, (x,), dynamic_shapes=({0: torch.export.Dim("n", max=4)},))
    for batch in (x, x[:1], torch.cat([x, x[:1]])):
        got = edgecore.load(program.buffer).forward(batch)
        torch.testing.assert_close(torch.from_dlpack(got), model(batch))
    operators = {operator.name for plan in program.pte.program.execution_plan for operator in plan.operators}
    assert not operators & {"aten::arange", "aten::where", "aten::div"}
