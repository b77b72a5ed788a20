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
    "multiplied-far-rows": (Attention(lambda scores, keep: scores + (keep - 1) * 1e9), ROWS),
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


def computes_in_float32(backend: str) -> bool:
    """True if `backend` computes float16 programs in float32 on this processor, as OpenVINO does without FP16 units.

    There, a finite mask that hides all keys of a row leaves differences between the scores; in float16 they round away.
    """
    if backend != "openvino":
        return False
    capabilities = pytest.importorskip("openvino").Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return "FP16" not in capabilities


class Fused(Attention):
    """The same as one operator."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        mask = self.constant if mask is None else mask
        return torch.nn.functional.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x), mask)


def compiled(
    model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], backends: list, **settings: object
) -> Callable[..., torch.Tensor]:
    """Return the compiled model as a function; skip the test without the packages of its backends."""
    for backend, _ in backends:
        pytest.importorskip(f"edgecore_{backend}")
    chosen_backends = [edgecore.Backend(backend, **options) for backend, options in backends]
    program = edgecore.compile(model.eval(), inputs, backends=chosen_backends, **settings)
    options = {"coreml": {"standin": sys.executable}} if backends and backends[0][0] == "coreml" else {}
    loaded = edgecore.load(bytes(program.buffer), options=options)
    return lambda *args: torch.as_tensor(loaded.forward(*args))


def inputs_with(mask: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    return torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(0)), *([] if mask is None else [mask])


def assert_near(result: torch.Tensor, want: torch.Tensor, tolerance: float) -> None:
    torch.testing.assert_close(result, want, rtol=0, atol=tolerance * float(want.detach().abs().max()))


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("backend", HALVES)
def test_masks_hide_scores_in_half_precision(backend: str, name: str) -> None:
    model, mask = MASKS[name]
    inputs = inputs_with(mask)
    result, want = compiled(model, inputs, **HALVES[backend])(*inputs), model(*inputs)
    sentences = 1 if computes_in_float32(backend) else 2
    assert_near(result[:sentences], want[:sentences], 0.01)


@pytest.mark.parametrize("backend", [backend for backend in HALVES if backend != "qnn"])  # whose NPU has no NaN
def test_a_row_of_infinities_is_not_a_number_in_half_precision(backend: str) -> None:
    model, inputs = Attention(added), inputs_with(numbers(ROWS, INFINITE))
    result, want = compiled(model, inputs, **HALVES[backend])(*inputs), model(*inputs)
    assert want[1].isnan().all() and result[1].isnan().all()
    assert_near(result[0], want[0], 0.01)


@pytest.mark.parametrize("backend", HALVES)
def test_rows_that_a_mask_of_attention_hides_in_half_precision(backend: str) -> None:
    model, inputs = Fused(added), inputs_with(numbers(ROWS, LOWEST))
    run = compiled(model, inputs, **HALVES[backend])
    weighs_by_scores = backend == "vulkan" or computes_in_float32(backend)
    for hidden in (INFINITE, *([] if weighs_by_scores else [LOWEST])):
        inputs = inputs_with(numbers(ROWS, hidden))
        assert_near(run(*inputs), model(*inputs), 0.01)


@pytest.mark.parametrize("backend", HALVES)
def test_rows_that_a_constant_mask_of_attention_hides_in_half_precision(backend: str) -> None:
    model, inputs = Fused(added, numbers(ROWS, LOWEST)), inputs_with(None)
    result, want = compiled(model, inputs, **HALVES[backend])(*inputs), model(*inputs)
    sentences = 1 if computes_in_float32(backend) else 2
    assert_near(result[:sentences], want[:sentences], 0.01)


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(
    "backend",
    [pytest.param(name, marks=[] if name in ("kernels", "xnnpack") else pytest.mark.slow) for name in INTEGERS],
)
def test_masks_hide_scores_beside_integers(backend: str, name: str) -> None:
    model, mask = MASKS[name]
    samples = torch.randn(8, 2, 6, 16, generator=torch.Generator().manual_seed(0)).unbind()
    calibration = [(x, *([] if mask is None else [mask])) for x in samples]
    inputs = inputs_with(mask)
    run = compiled(model, inputs, **INTEGERS[backend], calibration=calibration)
    assert_near(run(*inputs), model(*inputs), 0.05)
