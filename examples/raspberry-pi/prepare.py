"""Write model.pte, labels.txt and picture.ppm for `classify`: python prepare.py FOLDER [--photo FILE] [--xnnpack].

With --photo the model is MobileNetV2, trained on ImageNet (torchvision downloads its weights). Without, it is a small
network that is trained here on scikit-learn's digits, and the picture is a digit that it has not seen.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn

import edgecore


class Normalized(nn.Module):
    """A network whose input has values from 0 to 1."""

    def __init__(self, network: nn.Module, mean: list[float], deviation: list[float]) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation).view(1, -1, 1, 1))

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        return self.network((picture - self.mean) / self.deviation)


def mobilenet(photo: Path, picture: Path) -> tuple[nn.Module, torch.Tensor, list[str]]:
    """Return the model, an example input and the labels; write the photo as PPM."""
    from PIL import Image
    from torchvision.models import MobileNet_V2_Weights, mobilenet_v2

    weights = MobileNet_V2_Weights.DEFAULT
    Image.open(photo).convert("RGB").save(picture, format="PPM")
    model = Normalized(mobilenet_v2(weights=weights), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    return model, torch.rand(1, 3, 224, 224), weights.meta["categories"]


def digits(picture: Path) -> tuple[nn.Module, torch.Tensor, list[str]]:
    """Return the model, an example input and the labels; write a digit as PPM, enlarged by 16 in both directions."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    model = Normalized(network, [0.3], [0.4])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(8):
        for batch in torch.randperm(1700).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    unseen = images[1750, 0]
    pixels = (unseen * 255).round().to(torch.uint8).repeat_interleave(16, 0).repeat_interleave(16, 1)
    picture.write_bytes(b"P6\n# a digit\n128 128\n255\n" + pixels.unsqueeze(-1).expand(-1, -1, 3).numpy().tobytes())
    print(f"the picture shows the digit {labels[1750]}")
    return model, images[:1], [str(digit) for digit in range(10)]


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photo", type=Path)
    parser.add_argument("--xnnpack", action="store_true", help="compile for XNNPACK instead of the portable kernels")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / "picture.ppm"
    model, example, labels = mobilenet(arguments.photo, picture) if arguments.photo else digits(picture)
    program = edgecore.compile(model.eval(), (example,), backends=["xnnpack"] if arguments.xnnpack else [])
    program.save(folder / "model.pte")
    (folder / "labels.txt").write_text("".join(f"{label}\n" for label in labels))


if __name__ == "__main__":
    main()
