"""Draws of the C++ sampler beside those of Python."""

from __future__ import annotations

import random

import llm_cpp
import llm_cpp_units
import numpy as np
import pytest

from edgecore_llm.sampler import Sampling, sample

pytestmark = pytest.mark.slow  # builds the C++ programs


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return llm_cpp.programs(tmp_path_factory) / "units"


def settings(generator: random.Random) -> Sampling:
    return Sampling(
        temperature=generator.choice([0.0, 0.3, 1.0, 2.0]),
        top_k=generator.choice([0, 0, 1, 5, 300, 10_000]),
        top_p=generator.choice([1.0, 1.0, 0.95, 0.5, 0.0]),
        min_p=generator.choice([0.0, 0.0, 0.02, 0.3, 1.0]),
        repetition_penalty=generator.choice([1.0, 1.3, 0.8]),
        presence_penalty=generator.choice([0.0, 0.4]),
        frequency_penalty=generator.choice([0.0, 0.2]),
        penalty_window=generator.choice([0, 3, 64]),
        seed=generator.choice([0, 7, (1 << 64) - 1]),
    )


def test_draws_are_those_of_python(program):
    generator, cases = random.Random(0), []
    for index in range(3000):
        size = generator.choice([1, 2, 50, 3000])
        logits = np.random.default_rng(index).standard_normal(size).astype(np.float32) * generator.choice([0.01, 1, 6])
        if index % 3 == 0:
            logits = np.round(logits)  # many are equal
        if index % 7 == 0 and size > 2:
            logits[0] = -np.inf
        history = [generator.randrange(-1, size + 3) for _ in range(generator.choice([0, 5, 100]))]
        cases.append((logits, settings(generator), index, history, generator.choice([0, 0, (size + 1) // 2])))
    expected = [sample(*case) for case in cases]
    assert llm_cpp_units.draw(program, cases) == expected
