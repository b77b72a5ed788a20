"""A convnet for digits on an Ethos-U beside a microcontroller: `python examples/mcu-ethosu/npu.py`."""

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
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(25):
        for batch in torch.randperm(TRAINED).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()

    def score(outputs: np.ndarray) -> float:
        return 100 * float((outputs.argmax(1) == data.target[TRAINED:][: len(outputs)]).mean())

    calibration = images[:TRAINED:8].split(1)
    return Example("npu", model.eval(), calibration, images[TRAINED:], score, npu="ethos-u55-128", recipes=["int8"])


if __name__ == "__main__":
    show([make_example()])
