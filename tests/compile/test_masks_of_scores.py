"""Scores that a mask hides before a softmax, as models write attention themselves, in half precision and in integers.

Masks are -infinity, the minimum of float32 or -1e9, and they are constants, inputs, or computed of inputs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch

import edgecore

LOWEST, FAR, INFINITE = torch.finfo(torch.float32).min, -1e9, -torch.inf
KEEP = torch.ones(2, 1, 6)
KEEP[0, :, 4:] = 0
ROWS = KEEP.clone()
ROWS[1] = 0
"""All keys of the second sentence are padding."""


class Attention(torch.nn.Module):
    def __init__(self, mask: Callable[..., torch.Tensor], constant: torch.Tensor | None = None) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.query, self.key, self.value = (torch.nn.Linear(16, 16) for _ in range(3))
        self.mask = mask
        self.register_buffer("constant", constant)

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / 4
        scores = self.mask(scores, self.constant if keep is None else keep)
        return scores.softmax(-1) @ self.value(x)


def numbers(keep: torch.Tensor, hidden: float) -> torch.Tensor:
    return torch.zeros(keep.shape).masked_fill(keep == 0, hidden)


def added(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return scores + mask


def filled(hidden: float) -> Callable[..., torch.Tensor]:
    return lambda scores, keep: scores.masked_fill(keep == 0, hidden)


def chosen(hidden: float) -> Callable[..., torch.Tensor]:
    return lambda scores, keep: scores + torch.where(keep > 0.5, 0.0, hidden)


def triangle(hidden: float) -> Callable[..., torch.Tensor]:
    return lambda scores, _: scores + torch.full((6, 6), hidden).triu(1)


MASKS = {
    "added": (Attention(added), numbers(KEEP, LOWEST)),
    "added-infinity": (Attention(added), numbers(KEEP, INFINITE)),
    "added-rows": (Attention(added), numbers(ROWS, LOWEST)),
    "constant-rows": (Attention(added, numbers(ROWS, LOWEST)), None),
    "filled-rows": (Attention(filled(LOWEST)), ROWS),
    "filled-far-rows": (Attention(filled(FAR)), ROWS),
    "chosen-infinity": (Attention(chosen(INFINITE)), KEEP),
    "chosen-rows": (Attention(chosen(LOWEST)), ROWS),
    "multiplied-rows": (Attention(lambda scores, keep: scores + (1 - keep) * LOWEST), ROWS),
    "triangle-infinity": (Attention(triangle(INFINITE)), None),
    "triangle": (Attention(triangle(LOWEST)), None),
}
"""Models, and their second input."""
HALVES = {
    "openvino": {"backends": [("openvino", {"precision": "f16"})]},
    "openvino-bf16": {"backends": [("openvino", {"precision": "bf16"})]},
    "coreml": {"backends": [("coreml", {"compute_precision": "FLOAT16"})]},
    "xnnpack": {"backends": [("xnnpack", {})], "quantize": "fp16"},
    "vulkan": {"backends": [("vulkan", {})], "quantize": "fp16"},
    "qnn": {"backends": [("qnn", {})]},
}
INTEGERS = {
    "xnnpack": {"backends": [("xnnpack", {})], "quantize": "int8"},
    "openvino": {"backends": [("openvino", {})], "quantize": "int8"},
    "coreml": {"backends": [("coreml", {})], "quantize": "int8"},
    "kernels": {"backends": [], "runtime": "edgecore", "quantize": "int8"},
    "kernels-int16x8": {"backends": [], "runtime": "edgecore", "quantize": "int16x8"},
    "vulkan": {"backends": [("vulkan", {})], "quantize": "int8"},
    "ethosu": {"backends": [("ethosu", {})], "quantize": "int8"},
    "vgf": {"backends": [("vgf", {})], "quantize": "int8"},
    "qnn": {"backends": [("qnn", {})], "quantize": "int8"},
}


def check(name: str, backends: list, tolerance: float, **settings: object) -> None:
    for backend, _ in backends:
        pytest.importorskip(f"edgecore_{backend}")
    model, mask = MASKS[name]
    inputs = (torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(0)), *([] if mask is None else [mask]))
    chosen_backends = [edgecore.Backend(backend, **options) for backend, options in backends]
    program = edgecore.compile(model.eval(), inputs, backends=chosen_backends, **settings)
    options = {"coreml": {"standin": sys.executable}} if backends and backends[0][0] == "coreml" else {}
    result = torch.as_tensor(edgecore.load(bytes(program.buffer), options=options).forward(*inputs))
    want = model(*inputs)
    assert float((result - want).abs().max()) < tolerance * float(want.abs().max())


WRONG = {
    "coreml": ("added-rows", "filled-rows", "filled-far-rows"),
    "qnn": ("added-rows", "filled-rows", "filled-far-rows"),
}
"""Masks of whole rows that become infinite where they enter a partition that computes in float16."""


def cases(backends: dict[str, dict], wrong: dict[str, tuple[str, ...]] | None = None) -> list:
    mark = pytest.mark.xfail(strict=True, reason="known to be wrong, or an error")
    return [
        pytest.param(
            backend, name, marks=[mark] if name in (wrong or {}).get(backend, ()) else [], id=f"{backend}-{name}"
        )
        for backend in backends
        for name in MASKS
    ]


@pytest.mark.parametrize("backend, name", cases(HALVES, WRONG))
def test_masks_hide_scores_in_half_precision(backend: str, name: str) -> None:
    check(name, **HALVES[backend], tolerance=0.01)


@pytest.mark.parametrize("backend, name", cases(INTEGERS))
def test_masks_hide_scores_beside_integers(backend: str, name: str) -> None:
    _, mask = MASKS[name]
    inputs = torch.randn(8, 2, 6, 16, generator=torch.Generator().manual_seed(0)).unbind()
    calibration = [(x, *([] if mask is None else [mask])) for x in inputs]
    check(name, **INTEGERS[backend], tolerance=0.05, calibration=calibration)
