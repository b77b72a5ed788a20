"""The trial of tiles at the first load on a processor that nobody has measured, and its file in the cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import edgecore

UNKNOWN, KNOWN = "avx512f,uarch=other", "avx512f,uarch=zen4"
RUN = """
import json, sys
import numpy as np
import edgecore
method = edgecore.load(sys.argv[1], options={"xnnpack": json.loads(sys.argv[2])})["forward"]
x = np.random.default_rng(0).normal(size=(1, 16, 10, 10)).astype(np.float32)
print(method(x).tobytes().hex())
"""

pytestmark = pytest.mark.skipif(
    "avx512f" not in Path("/proc/cpuinfo").read_text().split(), reason="this processor has one tile of each width"
)


def save(net: nn.Module, path: Path) -> Path:
    edgecore.compile(net.eval(), (torch.randn(1, 16, 10, 10),), backends=["xnnpack"]).save(path)
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(16, 64, 1), nn.ReLU(), nn.Conv2d(64, 16, 3, stride=2))
    return save(net, tmp_path_factory.mktemp("trial") / "net.pte")


def start(program: Path, folder: Path | None, hardware: str = UNKNOWN, options: str = "{}") -> subprocess.Popen[str]:
    environment = {**os.environ, "EDGECORE_XNNPACK_HARDWARE": hardware, "EDGECORE_LOG": "info"}
    environment.pop("EDGECORE_XNNPACK_CACHE", None)
    if folder is not None:
        environment["EDGECORE_XNNPACK_CACHE"] = str(folder)
    command = [sys.executable, "-c", RUN, str(program), options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[str, str, list[int]]:
    """The result of a process, what it said about the trial, and the rows of its layers."""
    result, log = process.communicate()
    assert process.returncode == 0, log
    said = [line.partition("tiles of fp32 layers: ")[2] for line in log.splitlines() if "tiles of fp32 layers" in line]
    rows = [int(line.split(", tiles of ")[1].split("x")[0]) for line in log.splitlines() if "(Conv2d): " in line]
    return result, "".join(said), rows


def run(*arguments: Any) -> tuple[str, str, list[int]]:
    return finish(start(*arguments))


def choice(said: str) -> str:
    return said.split(", ", maxsplit=1)[0]


def expected_rows(said: str) -> list[int]:
    """Those of the program's two layers: of 32 columns, and of 16."""
    most = 12 if choice(said) == "rows as XNNPACK chooses" else int(choice(said).split()[2])
    return [most, 12 if most == 12 else 7]


def measurements(folder: Path) -> list[Path]:
    return list(folder.glob("*.measured"))


def test_a_later_process_uses_what_the_trial_found(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    result, said, rows = run(program, folder)
    assert "by a trial of rows (as chosen " in said
    assert rows == expected_rows(said)
    assert len(measurements(folder)) == 1
    content = measurements(folder)[0].read_bytes()
    again, later, later_rows = run(program, folder)
    assert later == choice(said) + ", as an earlier trial found"
    assert (again, later_rows) == (result, rows)
    assert measurements(folder)[0].read_bytes() == content
    assert result == run(program, None)[0]  # results do not depend on rows


def damages(content: bytes) -> Iterator[bytes]:
    yield b""
    yield content[:-1]
    yield content[:131] + bytes([content[131] ^ 1]) + content[132:]  # the number
    yield bytes([content[0] ^ 1]) + content[1:]
    yield content[:40] + bytes([content[40] ^ 1]) + content[41:]  # the checksum


def test_a_damaged_file_is_replaced_by_another_trial(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    result, _, _ = run(program, folder)
    [file] = measurements(folder)
    for damaged in damages(file.read_bytes()):
        file.write_bytes(damaged)
        again, said, _ = run(program, folder)
        assert (again, "by a trial" in said) == (result, True)
        assert measurements(folder) == [file]
        assert run(program, folder)[1] == choice(said) + ", as an earlier trial found"


def test_processes_that_begin_together_agree_afterwards(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    done = [finish(process) for process in [start(program, folder) for _ in range(4)]]
    assert len({result for result, _, _ in done}) == 1
    assert all(said for _, said, _ in done)
    assert len(measurements(folder)) == 1
    assert not list(folder.glob("tmp-*"))
    said = run(program, folder)[1]
    assert said.endswith(", as an earlier trial found")
    assert choice(said) in {choice(one) for _, one, _ in done}


def test_a_folder_that_cannot_be_written_gives_a_warning(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    result, log = start(program, file).communicate()
    assert f"the folder of packed weights {file} cannot be used" in log
    assert result == run(program, None)[0]


@pytest.mark.parametrize("options", ['{"tile_rows": 12}', '{"tile_columns": 16}', '{"weight_cache": false}'])
def test_a_forced_tile_and_no_cache_need_no_trial(options: str, program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    assert run(program, folder, UNKNOWN, options)[1] == ""
    assert measurements(folder) == []


def test_no_trial_where_the_choice_was_measured_or_there_is_none(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    assert run(program, None)[1] == ""
    for hardware in (KNOWN, "avx2,uarch=other", ""):
        assert run(program, folder, hardware)[1] == ""
    assert run(save(nn.ReLU(), tmp_path / "relu.pte"), folder)[1] == ""
    assert measurements(folder) == []
