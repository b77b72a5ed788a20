"""Train a small network on scikit-learn's digits, quantize it in two ways, and print the accuracy of the three files.

Quantization after the training rounds the trained weights to 8 bits. Quantization-aware training continues the training
with rounded weights and activations, so that the weights adapt to the rounding.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

import edgecore

RECIPE = edgecore.Recipe("int8", weights="tensor")
BATCH = {"dynamic_shapes": ({0: torch.export.Dim("batch", min=2, max=500)},), "backends": ["xnnpack"]}


def network() -> nn.Module:
    """Make two convolutions and a linear layer. Input: images [batch, 1, 8, 8]."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(144, 10),
    )


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int, rate: float) -> None:
    """Train a module with Adam, in batches of about 100 images."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), rate)
    for _ in range(epochs):
        for chosen in torch.randperm(len(images)).chunk(len(images) // 100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()
    model.eval()


def main(folder: Path) -> dict[str, float]:
    """Write three files into `folder`, and return the accuracy of each on the test images."""
    data = load_digits()
    torch.manual_seed(0)
    order = torch.randperm(len(data.target))
    images = torch.tensor(data.images, dtype=torch.float32)[order].unsqueeze(1) / 16
    labels = torch.tensor(data.target)[order]
    test, known = images[1397:], labels[1397:]
    images, labels = images[:1397], labels[:1397]

    model = network()
    train(model, images, labels, epochs=15, rate=0.01)
    programs = {"float": edgecore.compile(model, (test,), **BATCH)}
    programs["int8 after training"] = edgecore.compile(
        model, (test,), quantize=RECIPE, calibration=images.split(100), **BATCH
    )
    prepared = edgecore.prepare_qat(model, (test,), quantize=RECIPE, **BATCH)
    train(prepared, images, labels, epochs=5, rate=0.001)
    programs["int8 trained"] = edgecore.compile(prepared, (test,), **BATCH)

    accuracy = {}
    for name, program in programs.items():
        path = program.save(folder / f"{name.replace(' ', '-')}.pte")[0]
        scores = edgecore.load(path).forward(test)
        accuracy[name] = float((scores.argmax(1) == known).float().mean())
        print(f"{name}: accuracy {accuracy[name]:.1%}, {path.stat().st_size:,} bytes")
    return accuracy


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
