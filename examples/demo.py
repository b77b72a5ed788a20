"""Compile two models for XNNPACK, run the `.pte` files, and print accuracy, sizes and times: `make demo`.

The files run in a separate process, which checks that torch is not imported.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import nn

import edgecore

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from zoo import make

OUTPUT = Path(__file__).resolve().parents[1] / "build" / "demo"

# Code for a new interpreter: it loads a .pte, runs it on each input in a file of raw float32 values, and prints JSON.
RUNNER = """
import array, json, statistics, sys, time
import edgecore
pte, data, size, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
clock = time.perf_counter
start = clock(); model = edgecore.load(pte); load = clock() - start
values = memoryview(open(data, "rb").read()).cast("f")
shape = model["forward"].inputs[0].shape
inputs = [values[i:i + size].cast("B").cast("f", shape) for i in range(0, len(values), size)]
start = clock(); outputs = [model.forward(inputs[0])]; first = clock() - start
outputs += [model.forward(x) for x in inputs[1:]]
times = []
for _ in range(runs):
    start = clock(); model.forward(inputs[0]); times.append(clock() - start)
print(json.dumps({"load": load, "first": first, "median": statistics.median(times) if times else 0,
                  "outputs": [memoryview(y).cast("B").cast("f").tolist() for y in outputs],
                  "torch": "torch" in sys.modules, "numpy": "numpy" in sys.modules}))
"""


@dataclass
class Row:
    """The measurements of one model: a column of the printed table."""

    model: str
    cells: dict[str, str] = field(default_factory=dict)


class Digits(nn.Module):
    """A small convolutional network for 8x8 images of digits."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
        )
        self.head = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(self.features(x), 1))


def run_without_torch(pte: Path, inputs: np.ndarray, runs: int) -> dict:
    """Run a file on each row of `inputs` in a new process, then `runs` more times for the median time."""
    data = pte.with_suffix(".bin")
    data.write_bytes(np.ascontiguousarray(inputs, dtype=np.float32).tobytes())
    size = str(inputs[0].size)
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(pte), str(data), size, str(runs)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"running {pte} failed:\n{done.stderr}")
    result = json.loads(done.stdout)
    assert not result["torch"], "the runtime imported torch"
    result["outputs"] = np.array(result["outputs"], dtype=np.float32)
    return result


def compile_to(name: str, model: nn.Module, example: tuple[torch.Tensor, ...], row: Row) -> Path:
    """Compile a model for XNNPACK, save the file, and add sizes and times to the row."""
    exported = torch.export.export(model, example)
    start = time.perf_counter()
    program = edgecore.compile(exported, backends=["xnnpack"])
    seconds = time.perf_counter() - start
    path = OUTPUT / f"{name}.pte"
    program.save(path)
    report = program.report()
    row.cells["lowering"] = f"{seconds:.2f} s"
    row.cells["file"] = f"{path.stat().st_size / 1e6:.2f} MB"
    row.cells["delegates"] = str(sum(report.delegates.values()))
    row.cells["outside"] = str(len(report.left_outside))
    return path


def note_run(row: Row, result: dict) -> None:
    row.cells["load"] = f"{result['load'] * 1e3:.1f} ms"
    row.cells["first"] = f"{result['first'] * 1e3:.2f} ms"
    row.cells["median"] = f"{result['median'] * 1e3:.2f} ms"


def difference(result: np.ndarray, eager: np.ndarray) -> str:
    return f"{np.abs(result.reshape(eager.shape) - eager).max() / np.abs(eager).max():.1e}"


def digits(step: Callable[[str], None]) -> Row:
    """Train a network on scikit-learn's digits, compile it, and compare its accuracy with eager PyTorch."""
    from sklearn.datasets import load_digits

    row = Row("digits net")
    step("digits: training on scikit-learn's 8x8 images")
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    torch.manual_seed(0)
    order = torch.randperm(len(images))
    train, test = order[:1437], order[1437:]
    model = Digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(12):
        for batch in train[torch.randperm(len(train))].split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    model.eval()

    step("digits: compiling for XNNPACK")
    path = compile_to("digits", model, (images[:1],), row)
    step("digits: running the .pte in a process without torch")
    with torch.no_grad():
        eager = model(images[test]).numpy()
    result = run_without_torch(path, images[test].numpy(), runs=50)
    note_run(row, result)
    truth = labels[test].numpy()
    accuracy = [(output.argmax(1) == truth).mean() * 100 for output in (eager, result["outputs"])]
    row.cells["accuracy eager / .pte"] = f"{accuracy[0]:.1f} % / {accuracy[1]:.1f} %"
    row.cells["difference"] = difference(result["outputs"], eager)
    return row


def mobilenet(step: Callable[[str], None]) -> Row:
    """Compile MobileNetV2 and run it on a photograph from scikit-learn. The weights are random (see `tests/zoo.py`)."""
    from sklearn.datasets import load_sample_image

    row = Row("MobileNetV2")
    step("MobileNetV2: building it with torchvision")
    model, _ = make("mobilenet_v2")
    photo = torch.tensor(load_sample_image("china.jpg").copy()).permute(2, 0, 1)[None].float() / 255
    photo = nn.functional.interpolate(photo[..., 100:527], size=(224, 224), mode="bilinear", antialias=True)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    photo = (photo - mean[:, None, None]) / std[:, None, None]

    step("MobileNetV2: exporting and compiling for XNNPACK")
    path = compile_to("mobilenet_v2", model, (photo,), row)
    step("MobileNetV2: running the .pte in a process without torch")
    with torch.no_grad():
        eager = model(photo).numpy()
    result = run_without_torch(path, photo.numpy(), runs=50)
    note_run(row, result)
    row.cells["difference"] = difference(result["outputs"], eager)
    return row


def main() -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    console = Console()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    rows = []
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("starting")

        def step(text: str) -> None:
            progress.update(task, description=text)
            if not console.is_terminal:
                console.print(text)

        rows += [digits(step), mobilenet(step)]
        step("done")
    table = Table(title="compiled by edgecore, run by its own runtime on XNNPACK, without torch in the process")
    table.add_column("")
    for row in rows:
        table.add_column(row.model, justify="right")
    for key in dict.fromkeys(key for row in rows for key in row.cells):
        table.add_row(key, *(row.cells.get(key, "") for row in rows))
    console.print(table)
    console.print(f"difference: largest difference from eager PyTorch, relative to the largest output. Files: {OUTPUT}")


if __name__ == "__main__":
    main()
