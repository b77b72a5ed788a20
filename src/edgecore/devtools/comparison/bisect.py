"""Find the first wrong operator without taps: compile the program up to a place, and nothing after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from edgecore.devtools.comparison.metrics import measure
from edgecore.devtools.comparison.sites import Site
from edgecore.devtools.comparison.taps import Tap, tapped_program
from edgecore.pipeline.compare import NOISE_MARGIN, NOISE_SEEDS, RELATIVE_BOUND

if TYPE_CHECKING:
    from edgecore.devtools.comparison.engine import Comparison
    from edgecore.devtools.comparison.report import Findings


Values = dict[str, torch.Tensor]
"""Values by the taps of their sites."""


def search(work: Comparison, findings: Findings, say: Callable[[str], object]) -> None:
    """Halve the model until the first wrong place is found, and compare its operator with PyTorch.

    A place is wrong if its value differs from that in PyTorch by more than noise before each rounding explains. The
    search assumes that all places after a wrong one are wrong, too. If the operator itself is not wrong, errors of
    earlier ones have added up: then the search goes on behind it, with its value on the device as what PyTorch goes on
    with. A place is left out if the program cannot be compiled up to it.

    Args:
        work: The comparison.
        findings: Gets rows for the operators, and the outputs.
        say: Gets a few words before each compilation.
    """
    expected = [work.expected(number) for number in range(len(work.samples))]
    for number, one in enumerate(expected):
        work.compare_outputs(number, one, findings)
    sites = list(work.sites)
    known: list[Values] = [{} for _ in work.samples]
    low = 0
    while (low := _first_wrong(work, sites, low, known, say)) < len(sites):
        culprit = sites[low]
        work.prepare(sites)  # without those that were left out
        before = {node.name for node in work.groups[culprit.tap].inputs}
        say(f"compiling {culprit.tap}")
        inputs = _up_to(work, [site for site in sites if site.value in before])
        results = _up_to(work, [culprit])
        for number, (given, result) in enumerate(zip(inputs, results, strict=True)):
            work.compare_values(number, expected[number], {**given, **result}, findings, only={culprit.tap})
            known[number] |= {**given, **result}
        if findings.rows[culprit.tap].wrong:
            return
        low += 1


def _first_wrong(
    work: Comparison, sites: list[Site], low: int, known: Sequence[Values], say: Callable[[str], object]
) -> int:
    """Return the index of the first wrong site from `low` on, or the number of sites.

    Args:
        work: The comparison.
        sites: The sites; those up to which the program cannot be compiled are removed.
        low: The index to start at.
        known: For each sample, values of the device by tap, on which PyTorch computes those that follow.
        say: Gets a few words before each compilation.
    """
    ways = [
        [work.values(number, device, by_row=by_row) for by_row in work.by_row_choices]
        for number, device in enumerate(known)
    ]
    bounds = [_bounds(work, number, device) for number, device in enumerate(known)]
    high = len(sites)  # the first wrong site is in [low, high]; `high` at the end: there is none
    while low < high:
        middle = (low + high) // 2
        tap = sites[middle].tap
        say(f"compiling up to {tap}")
        values = _up_to(work, [sites[middle]])
        if any(tap not in of_sample for of_sample in values):
            del sites[middle]
            high -= 1
            continue
        wrong = any(
            not min(measure(way[tap], got[tap]).largest for way in of_sample) <= bound[tap]
            for got, of_sample, bound in zip(values, ways, bounds, strict=True)
        )
        low, high = (low, middle) if wrong else (middle + 1, high)
    return low


def _up_to(work: Comparison, sites: Sequence[Site]) -> list[Values]:
    """Compile the program up to sites, and return their values for each sample; {} if that fails."""
    found: list[Values] = [{} for _ in work.samples]
    if not sites:
        return found
    tap = Tap([site.tap for site in sites], only=True)
    program = tapped_program(work.compile_tapped, tap, work.place)
    if program is None:
        return found
    for values, sample in zip(found, work.samples, strict=True):
        results = program.run(sample)
        values |= {name: results[index] for name, index in program.index.items()}
    return found


def _bounds(work: Comparison, number: int, device: Values) -> Mapping[str, float]:
    """Return the error to allow at each site, by tap: of sums in another order, and of noise before each rounding."""
    exact = work.values(number, device)
    relative = RELATIVE_BOUND[work.computes_in] if work.tolerance is None else work.tolerance
    bounds = {tap: relative * _largest(value) for tap, value in exact.items()}
    for seed in range(NOISE_SEEDS):
        for tap, value in work.values(number, device, noise=work.noise, seed=seed).items():
            bounds[tap] = max(bounds[tap], NOISE_MARGIN * measure(exact[tap], value).largest)
    return bounds


def _largest(value: torch.Tensor) -> float:
    return float(value.double().abs().nan_to_num(0.0, 0.0, 0.0).max()) if value.numel() else 0.0
