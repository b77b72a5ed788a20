"""Metrics for the difference between the outputs of two runs. The classes have the same names as in ExecuTorch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgecore.executorch.devtools.inspector import Inspector


def as_floats(value: Any) -> Any:
    """Return a value as a tensor of float64, with 0 in place of NaN."""
    import torch

    return torch.nan_to_num(
        torch.as_tensor(value, dtype=torch.float64).detach().cpu(), posinf=math.inf, neginf=-math.inf
    )


class NumericalComparatorBase(ABC):
    """A distance between a graph's values and the device's values.

    Args:
        inspector: The inspector that uses the comparator. If it is None, the `Inspector` sets it to itself.
    """

    def __init__(self, inspector: Inspector | None = None) -> None:
        self.inspector = inspector

    def preprocessing(self, mapping: dict[Any, Any]) -> dict[Any, Any]:
        """Return the pairs to compare: (handles, value of the graph) -> (handles, value of the device)."""
        return mapping

    @abstractmethod
    def element_compare(self, a: Any, b: Any) -> float:
        """Return the distance of the device's value `b` from the graph's value `a`."""


class L1Comparator(NumericalComparatorBase):
    """Sum of absolute differences."""

    def element_compare(self, a: Any, b: Any) -> float:
        """Return the sum of the absolute differences of all elements."""
        from edgecore.numerics.metrics import errors

        return float(errors(as_floats(a), as_floats(b)).sum())


class MSEComparator(NumericalComparatorBase):
    """Mean of squared differences."""

    def element_compare(self, a: Any, b: Any) -> float:
        """Return the mean of the squared differences of all elements."""
        from edgecore.numerics.metrics import errors

        return float(errors(as_floats(a), as_floats(b)).square().mean())


class SNRComparator(NumericalComparatorBase):
    """Signal to noise ratio in dB."""

    def element_compare(self, a: Any, b: Any) -> float:
        """Return the ratio of `a`'s power to the power of the difference, in dB; infinite if `a` equals `b`.

        Infinite elements of `a` do not count as power; if one of them differs, the difference is infinite.
        """
        from edgecore.numerics.metrics import measure

        return measure(as_floats(a), as_floats(b)).sqnr


COMPARATORS: dict[str, type[NumericalComparatorBase]] = {
    "MSE": MSEComparator,
    "L1": L1Comparator,
    "SNR": SNRComparator,
}


def _snr(a: Any, b: Any) -> float:
    return SNRComparator().element_compare(a, b)


def _mse(a: Any, b: Any) -> float:
    return MSEComparator().element_compare(a, b)


def _cosine(a: Any, b: Any) -> float:
    first, second = as_floats(a).flatten(), as_floats(b).flatten()
    length = float(first.norm() * second.norm())
    return float(first.dot(second)) / length if length else math.nan


METRICS: dict[str, Callable[[Any, Any], float]] = {"snr": _snr, "mse": _mse, "cosine_similarity": _cosine}


def compare_results(
    reference_output: Sequence[Any],
    run_output: Sequence[Any],
    metrics: Sequence[str] | None = None,
    plot: bool = False,
) -> dict[str, list[float | None]]:
    """Compare the outputs of a run with the expected outputs; print the metrics, and return them.

    Args:
        reference_output: The expected outputs.
        run_output: The outputs of the run.
        metrics: Some of "snr", "mse" and "cosine_similarity"; by default all.
        plot: Print a bar after each number, with a length in proportion to it.

    Returns:
        Metric -> its value for each output, rounded to two digits; None for an output that is not a tensor.

    Raises:
        ValueError: A metric is unknown, or the outputs differ in number or shape.
    """
    import torch

    if unknown := [name for name in metrics or () if name not in METRICS]:
        raise ValueError(f"unknown metric {unknown[0]!r}; it must be one of {', '.join(METRICS)}")
    if len(reference_output) != len(run_output):
        raise ValueError(
            f"{len(reference_output)} outputs to expect cannot be compared with {len(run_output)} of a run"
        )
    for index, (a, b) in enumerate(zip(reference_output, run_output, strict=True)):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape != b.shape:
            raise ValueError(f"output {index} has the shape {[*b.shape]}; {[*a.shape]} was to expect")
    results: dict[str, list[float | None]] = {}
    for name, metric in METRICS.items():
        if metrics is not None and name not in metrics:
            continue
        results[name] = [
            round(metric(a, b), 2) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else None
            for a, b in zip(reference_output, run_output, strict=True)
        ]
        print(name)
        finite = [abs(value) for value in results[name] if value is not None and math.isfinite(value)]
        for index, value in enumerate(results[name]):
            known = value is not None and math.isfinite(value) and max(finite) > 0
            bar = "#" * round(40 * abs(value) / max(finite)) if plot and known and value is not None else ""
            print(f"{index:>5} {'-' if value is None else f'{value:.5f}':>12} {bar}".rstrip())
    return results
