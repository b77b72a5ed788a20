"""The sampler beside straightforward definitions over the whole sorted vocabulary."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from edgecore_llm.sampler import Sampling, candidates, sample, uniform


def logits(size: int, seed: int = 0, spread: float = 3.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(size) * spread).astype(np.float32)


def by_definition(scores: np.ndarray, sampling: Sampling) -> dict[int, float]:
    """Sort all tokens, then drop them by one rule after the other."""
    order = sorted(range(len(scores)), key=lambda token: (-scores[token], token))[: sampling.top_k or len(scores)]
    weights = {token: float(np.exp(np.float64(scores[token]) - np.float64(scores[order[0]]))) for token in order}
    total, kept, reached = sum(weights.values()), [], 0.0
    for token in order:
        kept.append(token)
        reached += weights[token]
        if reached >= sampling.top_p * total:
            break
    kept = [token for token in kept if weights[token] >= sampling.min_p * weights[order[0]]]
    heated = {token: weights[token] ** (1 / sampling.temperature) for token in kept}
    return {token: heated[token] / sum(heated.values()) for token in kept}


@pytest.mark.parametrize(
    ("top_k", "top_p", "min_p"), list(itertools.product([0, 1, 40, 5000], [1.0, 0.9, 0.3, 0.0], [0.0, 0.05]))
)
def test_truncations_leave_what_their_definitions_leave(top_k, top_p, min_p):
    for size, spread, temperature in ((3, 3.0, 1.0), (2000, 3.0, 0.7), (2000, 0.2, 1.3)):
        scores = logits(size, size, spread)
        sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
        tokens, probabilities = candidates(scores, sampling)
        expected = by_definition(scores, sampling)
        if not (0 < top_k < size or top_p < 1 or min_p > 0):
            expected = dict(sorted(expected.items()))
        assert tokens.tolist() == list(expected)
        np.testing.assert_allclose(probabilities, list(expected.values()), rtol=1e-9)


def test_equal_logits_are_ordered_by_their_token():
    scores = np.array([1, 2, 2, 2, 0, 2], np.float32)
    assert candidates(scores, Sampling(top_k=3))[0].tolist() == [1, 2, 3]
    assert sample(scores, Sampling(temperature=0), 0) == 1


def test_draws_follow_the_probabilities():
    scores, count = logits(6, spread=1.0), 5_000
    drawn = np.bincount([sample(scores, Sampling(seed=5), position) for position in range(count)], minlength=6) / count
    expected = np.exp(scores) / np.exp(scores).sum()
    assert np.abs(drawn - expected).max() < 4 * 0.5 / count**0.5


def test_draws_depend_on_seed_and_position_alone():
    draws = [uniform(seed, position) for seed in (0, 1, (1 << 64) - 1) for position in range(300)]
    assert len(set(draws)) == len(draws)
    assert all(0 <= draw < 1 for draw in draws)
    assert uniform(7, 11) == uniform(7, 11) == pytest.approx(0.35, abs=0.65)
    # The reference in numpy's generator of doubles.
    assert uniform(7, 11) == np.random.Generator(np.random.Philox(key=7, counter=[11, 0, 0, 0])).random()


def test_penalties_change_the_tokens_of_the_window_as_defined():
    scores, history = logits(10), [9, 2, 2, 3, 5, 2, 99]
    sampling = Sampling(repetition_penalty=1.5, presence_penalty=0.25, frequency_penalty=0.5, penalty_window=5)
    penalized = scores.copy()
    for token, times in ((2, 2), (3, 1), (5, 1)):  # of the last five; 99 is none of the vocabulary
        value = scores[token]
        penalized[token] = (value / 1.5 if value > 0 else value * 1.5) - 0.25 - 0.5 * times
    neutral = Sampling()
    for position in range(200):
        assert sample(scores, sampling, position, history) == sample(penalized, neutral, position)
    everything = Sampling(temperature=0, presence_penalty=100.0, penalty_window=0)
    assert sample(np.arange(4, dtype=np.float32), everything, 0, [3, *[2] * 100]) == 1


def test_rows_beyond_the_vocabulary_are_never_chosen():
    scores = np.array([0, 1, 5, 9], np.float32)
    assert sample(scores, Sampling(temperature=0), 0) == 3
    assert sample(scores, Sampling(temperature=0), 0, vocabulary=3) == 2
    assert {sample(scores, Sampling(temperature=9.0), position, vocabulary=2) for position in range(99)} == {0, 1}


def test_masked_logits_are_taken_and_others_that_are_no_numbers_are_not():
    assert sample(np.array([-np.inf, 0, -np.inf], np.float32), Sampling(), 3) == 1
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="the logits of position 3 hold values that are not numbers"):
            sample(np.array([0, bad], np.float32), Sampling(), 3)


@pytest.mark.parametrize("values", [{"temperature": -1.0}, {"top_p": 1.5}, {"min_p": -0.1}, {"seed": -1}])
def test_a_value_outside_of_its_range_is_an_error(values):
    with pytest.raises(ValueError, match=f"{next(iter(values))} .* does not lie between"):
        Sampling(**values)
