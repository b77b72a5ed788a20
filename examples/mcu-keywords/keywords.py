"""A convnet that recognizes words on a microcontroller: `python examples/mcu-keywords/keywords.py`.

The sounds are generated. A word is a sequence of three vowels, and a vowel is a pair of tones (formants) over a
fundamental. Each sound has a random pitch, speed and loudness, and noise.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "firmware"))
from firmware import Example, show

RATE = 8000
"""Samples of sound per second; each sound lasts one second."""

FORMANTS = {"a": (730, 1090), "e": (530, 1840), "i": (270, 2290), "o": (570, 840), "u": (300, 870)}
"""Vowel -> frequencies of its two formants in Hz."""

WORDS = ("aie", "iea", "uoa", "aou", "eiu", "oei", "uai", "iou")
FRAMES, BANDS = 49, 10


def speak(word: str, random: np.random.Generator) -> np.ndarray:
    """Return a second of sound, float32 [RATE]."""
    length = int(RATE * random.uniform(0.5, 0.9))
    start = random.integers(0, RATE - length)
    time = np.arange(length) / RATE
    pitch, tract = random.uniform(90, 220), random.uniform(0.9, 1.1)
    # The formants glide from each vowel to the next one.
    places = np.linspace(0, len(word) - 1, length)
    spoken = np.zeros(length)
    for index in range(2):
        glide = np.interp(places, range(len(word)), [FORMANTS[vowel][index] for vowel in word]) * tract
        spoken += np.sin(2 * np.pi * np.cumsum(glide) / RATE) / (index + 1)
    spoken *= (1 + 0.5 * np.sin(2 * np.pi * pitch * time)) * np.hanning(length) * random.uniform(0.3, 1)
    sound = random.normal(0, random.uniform(0.05, 0.5), RATE)
    sound[start : start + length] += spoken
    return sound.astype(np.float32)


def features(sounds: np.ndarray) -> torch.Tensor:
    """Return logarithms of the energy in frequency bands: float32 [N, 1, FRAMES, BANDS] from sounds [N, RATE]."""
    size, step = 320, 156
    spectrum = torch.stft(
        torch.tensor(sounds), size, step, window=torch.hann_window(size), center=False, return_complex=True
    )
    energy = spectrum.abs().square()[:, :, :FRAMES]
    # The bands are wider at higher frequencies.
    edges = np.geomspace(4, size // 2, BANDS + 1).round().astype(int)
    bands = [energy[:, low:high].mean(1) for low, high in pairwise(edges)]
    return (torch.stack(bands, -1) + 1e-3).log().unsqueeze(1) / 4


def separable(channels: int) -> list[nn.Module]:
    """Return a depthwise-separable convolution."""
    return [
        nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 1, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
    ]


def make_example() -> Example:
    """Generate sounds and train the network."""
    random = np.random.default_rng(0)
    labels = np.arange(1800) % len(WORDS)
    inputs = features(np.stack([speak(WORDS[label], random) for label in labels]))
    trained = 1400
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 32, (10, 4), 2, (5, 1), bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        *separable(32),
        *separable(32),
        *separable(32),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, len(WORDS)),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    targets = torch.tensor(labels)
    for _ in range(8):
        for batch in torch.randperm(trained).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]), targets[batch]).backward()
            optimizer.step()

    def score(outputs: np.ndarray) -> float:
        return 100 * float((outputs.argmax(1) == labels[trained:][: len(outputs)]).mean())

    return Example("keywords", model.eval(), inputs[:trained:14].split(1), inputs[trained:], score)


if __name__ == "__main__":
    show([make_example()])
