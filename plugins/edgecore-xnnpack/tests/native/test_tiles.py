"""Tiles of fp32 matrix products: the choice for a layer, and the options that force it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import edgecore
from edgecore.errors import ExecutionError

TILES = {"avx512f": ((12, 32), (10, 32), (7, 32), (12, 16), (7, 16), (7, 8)), "avx2": ((5, 16), (7, 8)), "": ((4, 8),)}
"""Tiles of the instruction sets, the newest first."""

x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the tiles of x86 processors")


def flags() -> set[str]:
    return set(Path("/proc/cpuinfo").read_text().split())


def own_tiles() -> tuple[tuple[int, int], ...]:
    return next(tiles for name, tiles in TILES.items() if name in {*flags(), ""})


class Net(nn.Module):
    """Convolutions and linear layers of many widths. None gets a kernel of its own (under half of a tile's columns)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 24, 3, stride=2)
        self.grouped = nn.Conv2d(24, 24, 3, padding=1, groups=3)
        self.small = nn.Conv2d(24, 4, 1)
        self.last = nn.Conv2d(4, 70, 1)
        self.up = nn.ConvTranspose2d(70, 17, 2, stride=2)
        self.linear = nn.Sequential(nn.Linear(17, 100), nn.ReLU(), nn.Linear(100, 20), nn.ReLU(), nn.Linear(20, 2))

    def forward(self, x: torch.Tensor) -> Any:
        image = self.up(self.last(self.small(self.grouped(self.first(x)))))
        return image, self.linear(image.mean((2,)).transpose(1, 2)), self.linear(image.mean((2, 3)))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiles") / "net.pte"
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=5, max=80)
    example = (torch.randn(1, 3, 80, 5),)
    edgecore.compile(Net().eval(), example, dynamic_shapes=({2: rows},), backends=["xnnpack"]).save(path)
    return path


def load(path: Path, threads: int = 1, **options: Any) -> Any:
    return edgecore.load(path, threads=threads, options={"xnnpack": options})


@x86
def test_each_tile_computes_the_same_bits(program: Path) -> None:
    """As the tile that is chosen for a layer, with one thread and with two, for images of 2 to 39 rows."""
    images = [torch.randn(1, 3, rows, 5) for rows in range(5, 81)]
    model = load(program)
    expected = [model.forward(image) for image in images]
    for rows, columns in own_tiles():
        for threads in (1, 2):
            forced = load(program, threads, tile_rows=rows, tile_columns=columns)
            for image, results in zip(images, expected, strict=True):
                assert all(map(torch.equal, forced.forward(image), results))


@x86
def test_taps_of_padding_that_tiles_skip_add_nothing(tmp_path: Path) -> None:
    """With this dilation most taps of most tiles are padding. The last row of the image also ends in a part of a tile."""
    torch.manual_seed(0)
    net = nn.Conv2d(24, 70, 3, padding=12, dilation=12).eval()
    image = torch.randn(1, 24, 14, 13)
    edgecore.compile(net, (image,), backends=["xnnpack"]).save(tmp_path / "net.pte")
    expected = net(image)
    for rows, columns in own_tiles():
        found = load(tmp_path / "net.pte", 2, tile_rows=rows, tile_columns=columns).forward(image)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@x86
def test_packed_weights_belong_to_a_width_and_to_each_number_of_rows(tmp_path: Path) -> None:
    path, folder = tmp_path / "net.pte", tmp_path / "packed"
    net = nn.Conv2d(512, 40, 1).eval()  # 80 KiB
    x = torch.randn(1, 512, 9, 9)
    edgecore.compile(net, (x,), backends=["xnnpack"]).save(path)
    expected = load(path).forward(x)
    widths: set[int] = set()
    for rows, columns in own_tiles():
        widths.add(columns)
        options: dict[str, Any] = {"tile_rows": rows, "tile_columns": columns, "weight_cache_folder": str(folder)}
        assert torch.equal(load(path, **options).forward(x), expected)
        assert len(list(folder.glob("*.packed"))) == len(widths)


@x86
def test_a_width_that_the_processor_lacks_is_refused(program: Path) -> None:
    names = ", ".join(f"{rows}x{columns}" for rows, columns in own_tiles())
    with pytest.raises(ExecutionError, match=f"tile_columns is 64; the tiles of this processor are {names}"):
        load(program, tile_columns=64).forward(torch.randn(1, 3, 9, 5))


@x86
def test_fewer_rows_than_a_tile_has_give_its_lowest(program: Path) -> None:
    image = torch.randn(1, 3, 80, 5)
    assert torch.equal(load(program, tile_rows=1).forward(image)[0], load(program).forward(image)[0])


class Layers(nn.Module):
    """Convolutions of 1x1 in a row, each of which has so many inputs, outputs and groups, and a stride."""

    def __init__(self, *layers: tuple[int, int, int, int]) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(i, o, 1, groups=groups, stride=stride) for i, o, groups, stride in layers]
        self.layers = nn.Sequential(*convolutions)

    def forward(self, x: torch.Tensor) -> Any:
        return self.layers(x)


def lines_of_l1() -> int:
    return int(Path("/sys/devices/system/cpu/cpu0/cache/index0/ways_of_associativity").read_text())


RUN = "import sys, edgecore; edgecore.load(sys.argv[1])['forward']"


@x86
@pytest.mark.parametrize(
    ("hardware", "chosen"),
    [
        ("avx512f,uarch=other", ["12x32", "12x16", "12x32", "7x8", "12x16", "12x16", "12x32", "12x32", "12x16"]),
        ("avx512f,uarch=zen4", ["7x32", "7x16", "7x32", "7x8", "7x16", "7x16", "7x32", "7x32", "7x16"]),
        ("avx2,uarch=other", ["5x16", "5x16", "7x8", "7x8", "5x16", "5x16", "5x16", "5x16", "5x16"]),
        ("avx2,uarch=zen", ["4x16"] * 9),
        ("", ["4x8"] * 9),
    ],
)
def test_the_tile_of_each_layer(hardware: str, chosen: list[str], tmp_path: Path) -> None:
    if not {hardware.split(",", maxsplit=1)[0]} - {""} <= flags():
        pytest.skip("this processor lacks it")
    # Outputs of a group: 64, 16, 24, 8, 48, 144, 1000, 512, 16. The last two read rows of 4000 and 2048 bytes, the
    # latter at every second pixel: 4096 bytes apart.
    layers = [(8, 64, 1, 1), (64, 16, 1, 1), (16, 24, 1, 1), (24, 24, 3, 1), (24, 48, 1, 1), (48, 144, 1, 1)]
    layers += [(144, 1000, 1, 1), (1000, 512, 1, 1), (512, 16, 1, 2)]
    path = tmp_path / "net.pte"
    edgecore.compile(Layers(*layers).eval(), (torch.randn(1, 8, 4, 4),), backends=["xnnpack"]).save(path)
    environment = {**os.environ, "EDGECORE_XNNPACK_HARDWARE": hardware, "EDGECORE_LOG": "info"}
    done = subprocess.run([sys.executable, "-c", RUN, str(path)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    actual = [line.split(", tiles of ")[1] for line in done.stderr.splitlines() if "(Conv2d): " in line]
    if hardware == "avx512f,uarch=other" and lines_of_l1() <= 12:
        chosen = [*chosen[:-1], "7x16"]
    assert actual == chosen
