"""`edgecore vulkan-bench`: measure a Vulkan device with the delegate's shaders.

The time of an operator is computed from two networks: one repeats the operator more often than the other. The
difference of their times does not include the start of a run and the copies to and from the device.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgecore.errors import EdgecoreError
from edgecore_vulkan import native_library
from edgecore_vulkan.devices import DeviceInfo, NoDevice, list_devices

if TYPE_CHECKING:
    import torch

_MEBI = 2**20
_ROW = 1024
"""Elements in a row of the tensors for copies and elementwise operators."""
_MIN_SECONDS = 0.2
"""Minimum total time of the runs of a short operator."""


@dataclass(frozen=True)
class Figure:
    """The measured speed of an operation on a device.

    Attributes:
        name: The operation, such as "matmul 256 x 256 x 256".
        dtype: Its dtype on the device.
        ms: Milliseconds that the operation takes once.
        rate: The throughput in `unit`.
        unit: `GFLOP/s` or `GB/s`; empty if only the time matters.
    """

    name: str
    dtype: str
    ms: float
    rate: float = 0.0
    unit: str = ""


def command(
    sizes: Annotated[
        str, typer.Option(metavar="N,N,...", help="Sizes N of matrix products N x N x N.")
    ] = "256,512,1024",
    elements: Annotated[
        int, typer.Option(metavar="N", min=1, max=256, help="Elements of the copied tensor, in units of 2^20.")
    ] = 16,
    device: Annotated[str, typer.Option(help="Index or part of the name of the device.")] = "",
    fp16: Annotated[bool, typer.Option("--fp16", help="Measure with float16 storage, too.")] = False,
    runs: Annotated[int, typer.Option(min=1, help="Minimum number of runs; the fastest counts.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure matrix products, copies, an elementwise operator and the overhead of dispatches on a Vulkan device."""
    if find_spec("torch") is None:
        raise EdgecoreError('vulkan-bench compiles networks, which needs torch: pip install "edgecore-vulkan[compile]"')
    try:
        numbers = [int(size) for size in sizes.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise EdgecoreError(f"--sizes takes positive numbers separated by commas, such as 256,1024; got {sizes!r}")
    info = _chosen(device)
    figures = []
    if not as_json:
        print(f"{info.name}, {info.kind}, driver {info.driver}")
    for figure in _measure(_Bench(device, runs), numbers, elements, (False, True) if fp16 else (False,)):
        figures.append(figure)
        if not as_json:
            rate = f"{figure.rate:>10.1f} {figure.unit}" if figure.unit else ""
            print(f"{figure.name:<34} {figure.dtype:<8} {figure.ms:>10.3f} ms {rate}".rstrip(), flush=True)
    if as_json:
        print(json.dumps({"device": asdict(info), "figures": [asdict(figure) for figure in figures]}, indent=2))


def _chosen(device: str) -> DeviceInfo:
    """Return the device that the delegate would choose for the load option `device`."""
    try:
        devices = list_devices(native_library())
    except NoDevice as error:
        raise EdgecoreError(str(error)) from error
    for info in devices:
        if info.is_default if not device else device == str(info.index) or device in info.name:
            return info
    raise EdgecoreError(f"no Vulkan device has the index or name {device!r}; edgecore doctor vulkan lists them")


class _Bench:
    """Compiles small networks for the Vulkan backend, and measures the time of their runs."""

    def __init__(self, device: str, runs: int) -> None:
        self.options: dict[str, Any] = {"vulkan": {"device": device}}
        self.runs = runs

    def load(self, step: Callable[[torch.Tensor], torch.Tensor], count: int, example: torch.Tensor, fp16: bool) -> Any:
        """Return a compiled and loaded network that calls `step` `count` times in sequence."""
        import torch

        import edgecore

        class Network(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.step = step

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                for _ in range(count):
                    x = self.step(x)
                # End with relu, because a partition that only moves data is not delegated.
                return torch.relu(x)

        backend = edgecore.Backend("vulkan", required=True, force_fp16=fp16)
        program = edgecore.compile(Network().eval(), (example,), backends=[backend], runtime="edgecore")
        return edgecore.load(program.buffer, options=self.options)

    def seconds(
        self, step: Callable[[torch.Tensor], torch.Tensor], more: int, example: torch.Tensor, fp16: bool
    ) -> float:
        """Return the seconds that one call of `step` takes on the device.

        Args:
            step: The measured operator.
            more: One measured network calls `step` once, the other 1 + `more` times.
            example: The input.
            fp16: Compute in float16.
        """
        short, long = self.fastest([self.load(step, count, example, fp16) for count in (1, 1 + more)], example)
        return max(long - short, 1e-9) / more

    def fastest(self, models: list[Any], example: torch.Tensor) -> list[float]:
        """Return the time in seconds of each model's fastest run; the models take turns."""
        for model in models:
            model.forward(example)  # compiles the shaders
        best = [float("inf")] * len(models)
        turns, end = 0, time.perf_counter() + _MIN_SECONDS
        while turns < self.runs or time.perf_counter() < end:
            turns += 1
            for index, model in enumerate(models):
                start = time.perf_counter()
                model.forward(example)
                best[index] = min(best[index], time.perf_counter() - start)
        return best


def _measure(bench: _Bench, sizes: list[int], elements: int, precisions: tuple[bool, ...]) -> Iterator[Figure]:
    import torch

    for fp16 in precisions:
        dtype, width = ("float16", 2) if fp16 else ("float32", 4)
        for size in sizes:
            layer = torch.nn.Linear(size, size, bias=False)
            torch.nn.init.normal_(layer.weight, std=size**-0.5)
            seconds = bench.seconds(layer, 2, torch.randn(size, size), fp16)
            yield Figure(
                f"matmul {size} x {size} x {size}", dtype, seconds * 1e3, 2 * size**3 / seconds / 1e9, "GFLOP/s"
            )
        rows = elements * _MEBI // _ROW
        moved = 2 * rows * _ROW * width / 1e9
        seconds = bench.seconds(lambda x: x[1:], 4, torch.randn(rows + 5, _ROW), fp16)
        yield Figure(f"copy of {elements} Mi elements", dtype, seconds * 1e3, moved / seconds, "GB/s")
        seconds = bench.seconds(torch.sigmoid, 4, torch.randn(rows, _ROW), fp16)
        yield Figure(f"sigmoid of {elements} Mi elements", dtype, seconds * 1e3, moved / seconds, "GB/s")
        seconds = bench.seconds(torch.sigmoid, 64, torch.randn(1), fp16)
        yield Figure("one more dispatch", dtype, seconds * 1e3)
    (seconds,) = bench.fastest([bench.load(torch.sigmoid, 1, example := torch.randn(1), False)], example)
    yield Figure("run of two dispatches", "float32", seconds * 1e3)
    example = torch.randn(rows, _ROW)
    (seconds,) = bench.fastest([bench.load(lambda x: x[:1], 1, example, False)], example)
    yield Figure(f"input of {elements} Mi elements", "float32", seconds * 1e3, rows * _ROW * 4 / seconds / 1e9, "GB/s")
