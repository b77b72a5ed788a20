"""An autoencoder that finds anomalies of a machine on a microcontroller: `python examples/mcu-anomaly/anomaly.py`.

The inputs are generated spectra of vibrations. The spectrum of a healthy machine has harmonics of its speed; a worn
bearing adds weak tones between these harmonics. The network learns to restore healthy spectra only, so a spectrum that
it restores with a large error is an anomaly.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "firmware"))
from firmware import Example, show

LINES = 128
"""Number of frequencies in a spectrum."""


def spectra(count: int, worn: bool, random: np.random.Generator) -> np.ndarray:
    """Return logarithms of spectra, float32 [count, LINES]."""
    frequencies = np.arange(LINES)
    result = np.empty((count, LINES), np.float32)
    for spectrum in result:
        speed, load = random.uniform(9, 13), random.uniform(0.5, 1.5)
        energy = 0.02 * random.exponential(size=LINES) + 0.02
        for harmonic in range(1, 8):
            energy += load / harmonic * np.exp(-0.5 * (frequencies - speed * harmonic) ** 2)
        if worn:
            for harmonic in range(2, 6):
                energy += random.uniform(0.05, 0.2) * np.exp(-0.5 * (frequencies - speed * (harmonic + 0.45)) ** 2)
        spectrum[:] = np.log(energy) / 4
    return result


def make_example() -> Example:
    """Generate spectra and train the network."""
    random = np.random.default_rng(0)
    healthy = torch.tensor(spectra(2000, False, random))
    held_back = np.stack([spectra(100, False, random), spectra(100, True, random)], 1).reshape(-1, LINES)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(LINES, 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, 8),
        nn.ReLU(),
        nn.Linear(8, 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, LINES),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(40):
        for batch in torch.randperm(len(healthy)).split(50):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(healthy[batch]), healthy[batch]).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        errors = (model(healthy) - healthy).square().mean(1)
    threshold = float(errors.quantile(0.99))

    def score(outputs: np.ndarray) -> float:
        is_found = np.square(outputs - held_back[: len(outputs)]).mean(1) > threshold
        return 100 * float((is_found == (np.arange(len(outputs)) % 2 == 1)).mean())

    return Example("anomaly", model, healthy[::20].split(1), torch.tensor(held_back), score)


if __name__ == "__main__":
    show([make_example()])
