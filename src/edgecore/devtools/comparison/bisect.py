"""Find the first wrong operator by bisection: compile the program only up to an inner value, and check that value."""

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
"""Values that PyTorch or the device computed for one sample, by the name of the tapped node."""


def bisect(engine: Engine, progress: Callable[[str], object]) -> Iterator[CompareRow | CompareOutput]:
    """Bisect the model for the first wrong site (place in the graph), and compare the operator there with PyTorch.

    Rounding errors alone make values differ. To bound them, PyTorch also runs with random noise before each rounding. A
    site is wrong if the device's value differs more from PyTorch's value than the noisy values do. The bisection
    assumes that all sites after a wrong site are wrong, too. If the operator alone turns out to be right, then errors
    of earlier operators have added up; the search continues after it, and PyTorch uses the device's value of this site
    from then on. The search skips a site if the part of the program that ends there does not compile.

    Args:
        engine: Runs the model on the device and in PyTorch.
        progress: Receives a short text before each compilation.

    Yields:
        The comparison of each sample's outputs, then a row for each operator that was compared, in each sample.
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
        engine.prepare(sites)  # the bisection removes sites that do not compile: regroup their nodes
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
    """Return the index, at least `low`, of the first site (place in the graph) with a wrong value, or `len(sites)`.

    Args:
        engine: Runs the model on the device and in PyTorch.
        sites: The sites in graph order. The function removes a site if the program up to this site does not compile.
        low: The index to start at.
        known: For each sample the values read from the device, by node name; PyTorch computes from them.
        progress: Receives a short text before each compilation.
    """
    references = [
        [engine.values(number, device, by_row=by_row) for by_row in engine.by_row_choices]
        for number, device in enumerate(known)
    ]
    noisy = [_with_noise(engine, number, device) for number, device in enumerate(known)]
    high = len(sites)  # the first wrong site is in sites[low:high + 1]; len(sites): no site is wrong
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
            not min(measure(values_of_choice[tap], got[tap]).largest for values_of_choice in of_sample)
            <= error_limit(
                of_sample[0][tap], got[tap], moved[tap], dtype=engine.computes_in, tolerance=engine.tolerance
            )
            for got, of_sample, moved in zip(values, references, noisy, strict=True)
        )
        low, high = (low, middle) if wrong else (middle + 1, high)
    return low


def _up_to(engine: Engine, sites: Sequence[Site]) -> list[Values]:
    """Compile the program only up to `sites`; return the values for each sample, {} if the compilation fails."""
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
    """Run PyTorch several times with random noise before each rounding; return all values, by node name."""
    moved: dict[str, list[torch.Tensor]] = {}
    for seed in range(NOISE_SEEDS):
        for tap, value in engine.values(number, device, noise=engine.noise, seed=seed).items():
            moved.setdefault(tap, []).append(value)
    return moved
