"""Find the first wrong operator without taps: compile the program up to a place, and nothing after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from edgecore.devtools.compare_metrics import measure
from edgecore.devtools.compare_sites import Site
from edgecore.devtools.taps import Tap, tapped_program
from edgecore.pipeline.compare import NOISE_MARGIN, NOISE_SEEDS, RELATIVE_BOUND
from edgecore.quantize.rounding import NOISE

if TYPE_CHECKING:
    from edgecore.devtools.compare_report import Findings
    from edgecore.devtools.comparison import Comparison


def search(work: Comparison, findings: Findings, say: Callable[[str], object]) -> None:
    """Halve the model until the first wrong place is found, and compare its operator with PyTorch.

    A place is wrong if its value differs from that in PyTorch by more than noise before each rounding explains. The
    search assumes that all places after a wrong one are wrong, too.

    Args:
        work: The comparison.
        findings: Gets a row for the operator, and the outputs.
        say: Gets a few words before each compilation.
    """
    expected = [work.expected(number) for number in range(len(work.samples))]
    for number, one in enumerate(expected):
        work.compare_outputs(number, one, findings)
    bounds = [_bounds(work, number) for number in range(len(work.samples))]
    low, high = 0, len(work.sites)  # the first wrong place is in [low, high]; `high` at the end: there is none
    while low < high:
        middle = (low + high) // 2
        site = work.sites[middle]
        say(f"compiling up to {site.tap}")
        values = _up_to(work, [site])
        wrong = any(
            site.tap not in of_sample
            or min(measure(way[site.tap], of_sample[site.tap]).largest for way in one.values) > bound[site.tap]
            for of_sample, one, bound in zip(values, expected, bounds, strict=True)
        )
        low, high = (low, middle) if wrong else (middle + 1, high)
    if low == len(work.sites):
        return
    culprit = work.sites[low]
    before = {node.name for node in work.groups[culprit.tap].inputs}
    say(f"compiling {culprit.tap}")
    inputs = _up_to(work, [site for site in work.sites if site.value in before])
    results = _up_to(work, [culprit])
    for number, (given, result) in enumerate(zip(inputs, results, strict=True)):
        work.compare_values(number, expected[number], {**given, **result}, findings, only={culprit.tap})


def _up_to(work: Comparison, sites: Sequence[Site]) -> list[dict[str, torch.Tensor]]:
    """Compile the program up to sites, and return their values for each sample; {} if that fails."""
    found: list[dict[str, torch.Tensor]] = [{} for _ in work.samples]
    if not sites:
        return found
    tap = Tap([site.tap for site in sites], only=True)
    program = tapped_program(work.compile_tapped, tap, has_state=work.has_state)
    if program is None:
        return found
    for values, sample in zip(found, work.samples, strict=True):
        results = program.run(sample)
        values |= {name: results[index] for name, index in program.index.items()}
    return found


def _bounds(work: Comparison, number: int) -> Mapping[str, float]:
    """Return the error to allow at each site, by tap: of sums in another order, and of noise before each rounding."""
    exact = work.values(number)
    relative = RELATIVE_BOUND[work.computes_in] if work.tolerance is None else work.tolerance
    bounds = {tap: relative * _largest(value) for tap, value in exact.items()}
    for seed in range(NOISE_SEEDS):
        for tap, value in work.values(number, noise=NOISE, seed=seed).items():
            bounds[tap] = max(bounds[tap], NOISE_MARGIN * measure(exact[tap], value).largest)
    return bounds


def _largest(value: torch.Tensor) -> float:
    return float(value.double().abs().nan_to_num(0.0, 0.0, 0.0).max()) if value.numel() else 0.0
