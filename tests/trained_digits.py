"""A small network that has learnt scikit-learn's digits, for tests of the accuracy that a recipe keeps."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import nn


@cache
def trained() -> tuple[nn.Module, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the network, 400 test images and their labels, and 400 training images."""
    data = pytest.importorskip("sklearn.datasets").load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[400:]), labels[400:]).backward()
        optimizer.step()
    return model.eval(), images[:400], labels[:400], images[400:800]


def lost_accuracy(scores: torch.Tensor) -> float:
    """Return how much of the network's accuracy is lost, from its scores on the test images in another precision."""
    model, images, labels, _ = trained()

    def accuracy(scores: torch.Tensor) -> float:
        return float((scores.argmax(1) == labels).float().mean())

    with torch.no_grad():
        before = accuracy(model(images))
    assert before > 0.95
    return before - accuracy(torch.as_tensor(scores))
