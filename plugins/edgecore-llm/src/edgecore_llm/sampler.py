"""Choose the next token from logits: penalties, truncation, temperature and a random draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgecore_llm.errors import SessionError

Logits = NDArray[np.float32]
_FIRST_CANDIDATES = 256
"""How many of the largest logits are sorted first; more are sorted if these have less probability than top_p."""


@dataclass(frozen=True)
class Sampling:
    """The settings for drawing a token from logits. The default of each setting leaves the logits unchanged.

    Attributes:
        temperature: Divisor of the logits; 0 takes the largest logit.
        top_k: Keep only the `top_k` largest logits; 0 for all.
        top_p: Keep the most probable tokens until their probabilities sum up to `top_p`.
        min_p: Drop tokens whose probability is below `min_p` times the largest probability.
        repetition_penalty: Divisor of positive logits, and factor of negative logits, of the last `penalty_window`
            tokens.
        presence_penalty: Number that is subtracted from the logit of each of the last `penalty_window` tokens.
        frequency_penalty: Number that is subtracted once per occurrence of a token among the last `penalty_window`.
        penalty_window: How many of the last tokens the penalties consider; 0 for all.
        seed: Two sequences with equal seeds draw equal random numbers.

    Raises:
        ValueError: A value is outside of its range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_window: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        ranges = {
            "temperature": (0, math.inf), "top_k": (0, math.inf), "top_p": (0, 1), "min_p": (0, 1),
            "repetition_penalty": (1e-3, 1e3), "presence_penalty": (-1e3, 1e3), "frequency_penalty": (-1e3, 1e3),
            "penalty_window": (0, math.inf), "seed": (0, (1 << 64) - 1),
        }  # fmt: skip
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not low <= value <= high or math.isinf(value):
                raise ValueError(f"{name} {value} does not lie between {low} and {high}")


def sample(logits: Logits, sampling: Sampling, position: int, history: Sequence[int] = (), vocabulary: int = 0) -> int:
    """Draw the next token of a sequence from its logits.

    The random number depends only on the seed and the position, so a repeated or rewound sequence draws equal tokens.

    Args:
        logits: The logits of one position, [vocabulary of the model].
        sampling: How the token is chosen.
        position: The position of the new token in its sequence.
        history: The tokens before it, for penalties.
        vocabulary: Number of ids of the tokenizer; only ids below it are chosen. 0 for all.

    Raises:
        SessionError: A logit is not a number.
    """
    scores = logits[: vocabulary or len(logits)].astype(np.float32)  # a copy, because penalties edit it
    if np.isnan(scores).any() or not np.isfinite(scores.max()):
        raise SessionError(f"the logits of position {position} hold values that are not numbers")
    _penalize(scores, sampling, history)
    if sampling.temperature == 0 or sampling.top_k == 1:
        return int(scores.argmax())
    tokens, probabilities = candidates(scores, sampling)
    sums = np.cumsum(probabilities)
    place = int(np.searchsorted(sums, uniform(sampling.seed, position) * sums[-1], side="right"))
    return int(tokens[min(place, len(tokens) - 1)])


def candidates(scores: Logits, sampling: Sampling) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the tokens that pass top-k, top-p and min-p, and their probabilities.

    The three filters run in this order, on the probabilities before the temperature is applied. Tokens are sorted by
    descending score (logit), and tokens of equal score by id. Without any filter, all tokens are sorted by id.
    """
    largest = float(scores.max())

    def weights(tokens: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        exponentials: NDArray[np.float64] = np.exp(scores[tokens].astype(np.float64) - largest)
        return exponentials

    count = min(sampling.top_k or len(scores), len(scores))
    if sampling.top_p < 1:
        # Keep tokens until their probabilities reach top_p times the total of the tokens that top_k keeps. Usually few
        # tokens suffice, so sort only as many as needed.
        total = weights(slice(None) if count == len(scores) else _largest(scores, count)).sum()
        tokens = _largest(scores, min(count, _FIRST_CANDIDATES))
        while len(tokens) < count and weights(tokens).sum() < sampling.top_p * total:
            tokens = _largest(scores, min(count, 4 * len(tokens)))
        tokens = tokens[: int(np.searchsorted(np.cumsum(weights(tokens)), sampling.top_p * total)) + 1]
    elif sampling.min_p > 0:
        # Preselect tokens by a slightly lower bound than `min_p`, so that rounding loses none; the exact test follows.
        tokens = _largest(scores, min(count, int((scores >= largest + math.log(sampling.min_p) - 1e-3).sum())))
    else:
        tokens = _largest(scores, count) if count < len(scores) else np.arange(count)  # sorting everything is slow
    if sampling.min_p > 0:
        tokens = tokens[: max(1, int((weights(tokens) >= sampling.min_p).sum()))]
    kept = np.exp((scores[tokens].astype(np.float64) - largest) / sampling.temperature)
    return tokens, kept / kept.sum()


def _largest(scores: Logits, count: int) -> NDArray[np.int64]:
    """Return the indices of the `count` largest scores in descending order; equal scores are ordered by index."""
    if count < len(scores):
        # Take all scores above the `count`-th largest, then the first of the scores that equal it.
        bound = np.partition(scores, -count)[-count]
        above = np.flatnonzero(scores > bound)
        kept = np.concatenate([above, np.flatnonzero(scores == bound)[: count - len(above)]])
        kept.sort()
    else:
        kept = np.arange(len(scores))
    return kept[np.argsort(-scores[kept], kind="stable")]


def _penalize(scores: Logits, sampling: Sampling, history: Sequence[int]) -> None:
    recent = np.asarray(history[-sampling.penalty_window :], np.int64)
    tokens, counts = np.unique(recent[(recent >= 0) & (recent < len(scores))], return_counts=True)
    if not len(tokens):
        return
    penalized = scores[tokens]
    if sampling.repetition_penalty != 1:
        penalty = np.float32(sampling.repetition_penalty)
        penalized = np.where(penalized > 0, penalized / penalty, penalized * penalty)
    subtracted = sampling.presence_penalty + sampling.frequency_penalty * counts
    scores[tokens] = penalized - subtracted.astype(np.float32)


def uniform(seed: int, position: int) -> float:
    """Return a random number in [0, 1) that depends only on seed and position: the first draw of Philox 4x64."""
    generator = np.random.Philox(key=seed, counter=[position, 0, 0, 0])
    return float(generator.random_raw() >> 11) * 2.0**-53
