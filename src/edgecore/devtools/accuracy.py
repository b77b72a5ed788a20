"""Functions that score a model or a compiled program, and a check of the score, for `suggest` and `edgecore.search`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from edgecore.ir.torch_compat import pytree
from edgecore.numerics.decibels import ratio_in_decibels
from edgecore.numerics.evaluate import copied
from edgecore.numerics.metrics import measure

Run = Callable[..., Any]
"""A model or a compiled program as a function that takes the inputs and returns the output or a tuple of outputs."""
Metric = Callable[[Run], float]
"""A function that takes a `Run` and returns its score; a higher score is better."""

FLOAT_SQNR = 40.0
"""SQNR in dB that a quantized model must reach if the user passes no metric: the error is then 1 % of the signal."""


def lowest_sqnr(max_loss: float) -> float:
    """Return the SQNR in dB of an error whose amplitude is `max_loss` times the signal's."""
    return ratio_in_decibels(1.0, max_loss)


def is_good_enough(score: float, float_score: float, max_drop: float) -> bool:
    """Return True if a program's score is at most `max_drop` below the float model's score."""
    return score >= float_score - max_drop


def eager(model: torch.nn.Module) -> Run:
    """Wrap a PyTorch model as a `Run` that computes no gradients."""

    def run(*args: Any) -> Any:
        with torch.no_grad():
            return model(*args)

    return run


def on_device(program: Any) -> Run:
    """Wrap a loaded program as a `Run` that returns torch tensors."""

    def to_torch(value: Any) -> Any:
        return torch.utils.dlpack.from_dlpack(value).clone() if hasattr(value, "__dlpack__") else value

    def run(*args: Any) -> Any:
        results = pytree.tree_map(to_torch, program.forward(*args))
        return tuple(results) if isinstance(results, list) else results

    return run


def output_sqnr(model: torch.nn.Module, samples: Sequence[tuple[Any, ...]]) -> Metric:
    """Return a metric: the SQNR in dB of a run's outputs on all samples, with the outputs of `model` as the reference.

    Raises:
        ValueError: There are no samples, or the model has no output in floating point.
    """
    if not samples:
        raise ValueError("the default metric needs samples; calibration has none")
    expected = [[copied(leaf) for leaf in pytree.tree_leaves(eager(model)(*sample))] for sample in samples]
    if not any(map(_is_float, expected[0])):
        raise ValueError("the default metric needs an output in floating point; pass metric=")

    def metric(run: Run) -> float:
        pairs = [
            (want.flatten().double(), got.flatten().double())
            for sample, outputs in zip(samples, expected, strict=True)
            for want, got in zip(outputs, pytree.tree_leaves(run(*sample)), strict=True)
            if _is_float(want)
        ]
        return measure(torch.cat([want for want, _ in pairs]), torch.cat([got for _, got in pairs])).sqnr

    return metric


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
