"""EDGECORE_XNNPACK_CACHE, or the option weight_cache_folder: packed weights in files, for later processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import edgecore

# Prints the files of packed weights that are mapped, then the result's bytes.
RUN = """
import sys
import numpy as np
import edgecore
model = edgecore.load(sys.argv[1])
x = np.random.default_rng(0).normal(size=(1, 8, 20, 20)).astype(np.float32)
maps = open("/proc/self/maps").read().split()
print(" ".join(sorted({name for name in maps if name.endswith(".packed")})))
print(model.forward(x).tobytes().hex())
"""


class Net(nn.Module):
    """Six matrices of 64 KiB, a convolution of 18 KiB, and a depthwise one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolutions = nn.Sequential(nn.Conv2d(8, 64, 3), nn.Conv2d(64, 64, 3, groups=64), nn.AvgPool2d(16))
        self.linears = nn.Sequential(nn.Linear(64, 128), *(nn.Linear(128, 128) for _ in range(6)))

    def forward(self, x: torch.Tensor) -> Any:
        return self.linears(self.convolutions(x).flatten(1))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cache") / "net.pte"
    edgecore.compile(Net().eval(), (torch.randn(1, 8, 20, 20),), backends=["xnnpack"]).save(path)
    return path


def run(program: Path, cache: Path | None) -> tuple[list[Path], str, str]:
    """Of a new process: mapped files, result, log."""
    environment = {key: value for key, value in os.environ.items() if key != "EDGECORE_XNNPACK_CACHE"}
    if cache is not None:
        environment["EDGECORE_XNNPACK_CACHE"] = str(cache)
    command = [sys.executable, "-c", RUN, str(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    mapped, result = done.stdout.splitlines()
    return [Path(name) for name in mapped.split()], result, done.stderr


@pytest.fixture(scope="module")
def filled(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled") / "packed"
    run(program, folder)
    return folder


@pytest.fixture(scope="module")
def expected(program: Path) -> str:
    return run(program, None)[1]


def test_a_later_process_maps_what_the_first_packed(program: Path, filled: Path, expected: str) -> None:
    files = sorted(filled.glob("*.packed"))
    assert len(files) == 8
    others = {path.name for path in filled.iterdir() if path not in files}
    assert "key" in others
    assert all(name == "key" or name.endswith(".measured") for name in others)  # a trial of tiles, on some processors
    mapped, result, log = run(program, filled)
    assert mapped == files
    assert result == expected
    assert log == ""


def test_a_cached_file_that_fails_its_check_is_replaced(
    program: Path, filled: Path, expected: str, tmp_path: Path
) -> None:
    folder = tmp_path / "packed"
    shutil.copytree(filled, folder)
    good = {path: path.read_bytes() for path in sorted(folder.glob("*.packed"))}
    damaged, cut, empty, foreign, longer, open_to_all, link, script = good
    data = bytearray(good[damaged])
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    cut.write_bytes(good[cut][:-4096])
    empty.write_bytes(b"")
    foreign.write_bytes(good[damaged])
    longer.write_bytes(good[longer] + bytes(64))
    open_to_all.chmod(0o666)
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    script.write_bytes(b"#!/bin/sh\n" * 100)
    assert run(program, folder) == ([], expected, "")
    for path, content in good.items():
        assert path.read_bytes() == content
        assert not path.is_symlink()
    assert run(program, folder) == (list(good), expected, "")


def test_a_damaged_key_is_replaced(program: Path, filled: Path, expected: str, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    shutil.copytree(filled, folder)
    (folder / "key").write_bytes(b"short")
    assert run(program, folder) == ([], expected, "")
    mapped, result, _ = run(program, folder)
    assert len(mapped) == 8
    assert result == expected


def test_two_cache_folders_have_different_keys(program: Path, filled: Path, tmp_path: Path) -> None:
    run(program, tmp_path / "packed")
    assert (tmp_path / "packed" / "key").read_bytes() != (filled / "key").read_bytes()


@pytest.mark.parametrize("place", ["a file", "a file/folder"])
def test_a_cache_folder_that_cannot_be_made_is_warned_about_and_left_unused(
    program: Path, expected: str, tmp_path: Path, place: str
) -> None:
    (tmp_path / "a file").touch()
    mapped, result, log = run(program, tmp_path / place)
    assert not mapped
    assert result == expected
    assert f"the folder of packed weights {tmp_path / place} cannot be used: Not a dir" in log


def test_a_cache_folder_that_takes_no_files_is_read_and_warned_about_once(
    program: Path, filled: Path, expected: str, tmp_path: Path
) -> None:
    """Files that are there are used, the missing ones are packed in memory; one warning says so."""
    folder = tmp_path / "packed"
    shutil.copytree(filled, folder)
    missing = sorted(folder.glob("*.packed"))[:2]
    for path in missing:
        path.unlink()
        (path / "in the way").mkdir(parents=True)
    mapped, result, log = run(program, folder)
    assert len(mapped) == 6
    assert result == expected
    assert log.count("no packed weights are written to") == 1
    assert not list(folder.glob("tmp-*"))


def test_the_option_sets_the_cache_folder_of_one_load(program: Path, tmp_path: Path) -> None:
    x = torch.randn(1, 8, 20, 20)
    folder = tmp_path / "packed"
    options = {"xnnpack": {"weight_cache_folder": str(folder)}}
    expected = edgecore.load(program).forward(x)
    assert not folder.exists()
    assert torch.equal(edgecore.load(program, options=options).forward(x), expected)
    assert len(list(folder.glob("*.packed"))) == 8
    maps = Path("/proc/self/maps")
    assert str(folder) not in maps.read_text()
    model = edgecore.load(program, options=options)
    assert torch.equal(model.forward(x), expected)
    assert maps.read_text().count(str(folder)) >= 8


def test_a_folder_over_its_limit_loses_what_was_not_used_longest(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    options = {"xnnpack": {"weight_cache_folder": str(folder), "weight_cache_limit": 1}}
    folder.mkdir()
    old, older, other, abandoned, fresh = (
        folder / name for name in ("1.packed", "2.packed", "notes.txt", "tmp-0123", "tmp-4567")
    )
    for age, path in enumerate((fresh, old, older, other, abandoned)):
        path.write_bytes(bytes(400_000))
        os.utime(path, (time.time() - 10_000 * age,) * 2)
    edgecore.load(program, options=options)
    assert not older.exists()
    assert not abandoned.exists()
    assert old.exists() and other.exists() and fresh.exists()
    used = sorted(folder.glob("*.packed"))
    assert len(used) == 9
    os.utime(old)
    for path in used:
        if path != old:
            os.utime(path, (0, 0))
    edgecore.load(program, options=options)  # uses all of its own
    (folder / "3.packed").write_bytes(bytes(400_000))
    used[1].unlink()  # so that something is written
    edgecore.load(program, options=options)
    assert not old.exists()
    assert len(list(folder.glob("*.packed"))) == 9


def test_several_processes_fill_and_prune_one_folder(program: Path, expected: str, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    script = RUN.replace(
        "sys.argv[1]",
        f"sys.argv[1], options={{'xnnpack': {{'weight_cache_folder': {str(folder)!r}, 'weight_cache_limit': 1}}}}",
    )
    folder.mkdir()
    (folder / "0.packed").write_bytes(bytes(1 << 20))
    command = [sys.executable, "-c", script, str(program)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for process in running:
        out, err = process.communicate()
        assert out.splitlines()[1] == expected
        assert err == ""
    assert len(list(folder.glob("*.packed"))) == 8
    assert not list(folder.glob("tmp-*"))
