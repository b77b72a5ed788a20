"""Find the first wrong operator without taps: compile the program up to a place, and nothing after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from edgecore.devtools.comparison.engine import Engine
from edgecore.devtools.comparison.rows import CompareOutput, CompareRow
from edgecore.devtools.comparison.sites import Site
from edgecore.devtools.comparison.taps import Tap, tapped_program
from edgecore.numerics.limits import NOISE_SEEDS, error_limit
from edgecore.numerics.metrics import measure

Values = dict[str, torch.Tensor]
"""Values by the taps of their sites."""


def bisect(engine: Engine, progress: Callable[[str], object]) -> Iterator[CompareRow | CompareOutput]:
    """Halve the model until the first wrong place is found, and compare its operator with PyTorch.

    A place is wrong if its value differs from that in PyTorch by more than noise before each rounding explains. The
    search assumes that all places after a wrong one are wrong, too. If the operator itself is not wrong, errors of
    earlier ones have added up: then the search goes on behind it, with its value on the device as what PyTorch goes on
    with. A place is left out if the program cannot be compiled up to it.

    Args:
        engine: The compiled model beside PyTorch.
        progress: Gets a few words before each compilation.

    Yields:
        For each sample the outputs, then the operators that were compared.
    """
    engine.prepare(engine.sites)
    expected = [engine.expected(number) for number in range(len(engine.samples))]
    for number, values in enumerate(expected):
        yield from engine.compare_outputs(number, values)
    sites = list(engine.sites)
    known: list[Values] = [{} for _ in engine.samples]
    low = 0
    while (low := _first_wrong(engine, sites, low, known, progress)) < len(sites):
        culprit = sites[low]
        engine.prepare(sites)  # without those that were left out
        before = {node.name for node in engine.groups[culprit.tap].inputs}
        progress(f"compiling {culprit.tap}")
        inputs = _up_to(engine, [site for site in sites if site.value in before])
        results = _up_to(engine, [culprit])
        is_wrong = False
        for number, (operands, result) in enumerate(zip(inputs, results, strict=True)):
            known[number] |= operands | result
            for row in engine.compare_values(number, expected[number], operands | result, only={culprit.tap}):
                is_wrong |= row.wrong
                yield row
        if is_wrong:
            return
        low += 1


def _first_wrong(
    engine: Engine, sites: list[Site], low: int, known: Sequence[Values], progress: Callable[[str], object]
) -> int:
    """Return the index of the first wrong site from `low` on, or the number of sites.

    Args:
        engine: The compiled model beside PyTorch.
        sites: The sites; those up to which the program cannot be compiled are removed.
        low: The index to start at.
        known: For each sample, values of the device by tap, on which PyTorch computes those that follow.
        progress: Gets a few words before each compilation.
    """
    ways = [
        [engine.values(number, device, by_row=by_row) for by_row in engine.by_row_choices]
        for number, device in enumerate(known)
    ]
    noisy = [_with_noise(engine, number, device) for number, device in enumerate(known)]
    high = len(sites)  # the first wrong site is in [low, high]; `high` at the end: there is none
    while low < high:
        middle = (low + high) // 2
        tap = sites[middle].tap
        progress(f"compiling up to {tap}")
        values = _up_to(engine, [sites[middle]])
        if any(tap not in of_sample for of_sample in values):
            del sites[middle]
            high -= 1
            continue
        wrong = any(
            not min(measure(way[tap], got[tap]).largest for way in of_sample)
            <= error_limit(
                of_sample[0][tap], got[tap], moved[tap], dtype=engine.computes_in, tolerance=engine.tolerance
            )
            for got, of_sample, moved in zip(values, ways, noisy, strict=True)
        )
        low, high = (low, middle) if wrong else (middle + 1, high)
    return low


def _up_to(engine: Engine, sites: Sequence[Site]) -> list[Values]:
    """Compile the program up to sites, and return their values for each sample; {} if that fails."""
    values_of_samples: list[Values] = [{} for _ in engine.samples]
    if not sites:
        return values_of_samples
    tap = Tap([site.tap for site in sites], only=True)
    program = tapped_program(engine.compile_tapped, tap, engine.place)
    if program is None:
        return values_of_samples
    for values, sample in zip(values_of_samples, engine.samples, strict=True):
        results = program.run(sample)
        values |= {name: results[index] for name, index in program.index.items()}
    return values_of_samples


def _with_noise(engine: Engine, number: int, device: Values) -> dict[str, list[torch.Tensor]]:
    """Return the values of each site with noise before each rounding, by tap."""
    moved: dict[str, list[torch.Tensor]] = {}
    for seed in range(NOISE_SEEDS):
        for tap, value in engine.values(number, device, noise=engine.noise, seed=seed).items():
            moved.setdefault(tap, []).append(value)
    return moved
