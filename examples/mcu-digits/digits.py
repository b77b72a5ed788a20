"""An MLP for digits of 8 x 8 pixels on a microcontroller: `python examples/mcu-digits/digits.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "firmware"))
from firmware import Example, show

TRAINED = 1437
"""Number of images for training; the other 360 images are held back."""


def make_example() -> Example:
    """Train the network."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).reshape(-1, 64) / 16
    labels = torch.tensor(data.target)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(30):
        for batch in torch.randperm(TRAINED).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()

    def score(outputs: np.ndarray) -> float:
        return 100 * float((outputs.argmax(1) == data.target[TRAINED:][: len(outputs)]).mean())

    return Example("digits", model.eval(), images[:TRAINED:8].split(1), images[TRAINED:], score)


if __name__ == "__main__":
    show([make_example()])
