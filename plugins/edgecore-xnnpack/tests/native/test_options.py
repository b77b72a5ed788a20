"""Options of loading: workspaces and packed weights that programs share or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import edgecore
from edgecore.errors import ExecutionError

MIB = 1 << 20
MODES = ("disabled", "per_model", "global")


class Wide(nn.Module):
    """Intermediate values of `channels` MiB each between small inputs and outputs."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1), nn.Tanh(), nn.Conv2d(channels, channels, 3, padding=1), nn.Tanh()
        )

    def forward(self, x: torch.Tensor) -> Any:
        return self.convolutions(x).mean((2, 3))


def save(path: Path, net: nn.Module, *inputs: torch.Tensor, **options: Any) -> Path:
    edgecore.compile(net.eval(), inputs, backends=["xnnpack"], **options).save(path)
    return path


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("options") / "wide.pte", Wide(), torch.randn(1, 1, 512, 512))


@pytest.fixture(scope="module")
def resized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For 1 to 16 rows."""
    net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Sigmoid(), nn.Linear(64, 8))
    rows = torch.export.Dim("rows", min=1, max=16)
    path = tmp_path_factory.mktemp("options") / "resized.pte"
    return save(path, net, torch.randn(4, 64), dynamic_shapes=({0: rows},))


def load(path: Path, **options: Any) -> edgecore.Program:
    return edgecore.load(path, options={"xnnpack": options})


# Prints what six loads of a file take, in bytes.
MEMORY = """
import json, sys
import numpy as np
import edgecore
def anonymous():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("RssAnon"))
x = np.ones(json.loads(sys.argv[3]), np.float32)
before = anonymous()
models = [edgecore.load(sys.argv[1], options={"xnnpack": json.loads(sys.argv[2])}) for _ in range(6)]
results = [model.forward(x) for model in models + models[::-1]]
print(anonymous() - before)
assert all(np.array_equal(result, results[0]) for result in results)
"""


def memory_of_six(path: Path, shape: tuple[int, ...], **options: Any) -> int:
    command = [sys.executable, "-c", MEMORY, str(path), json.dumps(options), json.dumps(shape)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"weights": True},
            "no option 'weights' for loading; it has: workspace_sharing, weight_cache, weight_cache_fo",
        ),
        ({"weight_cache": "yes"}, "'weight_cache' of the backend XnnpackBackend is of type bool; got string"),
        ({"workspace_sharing": True}, "'workspace_sharing' of the backend XnnpackBackend is of type string; got bool"),
        ({"workspace_sharing": "Some"}, "workspace_sharing is 'disabled', 'per_model' or 'global'; got 'Some'"),
        ({"winograd": "fast"}, "the option winograd is 'off', 'accurate' or 'on'; got 'fast'"),
        ({"winograd_memory": -1}, "the option winograd_memory is at least 0 MiB and at most 8796093022207; got -1"),
        ({"tile_rows": 0}, "the option tile_rows is at least 1 and at most 255; got 0"),
        ({"tile_columns": 256}, "the option tile_columns is at least 1 and at most 255; got 256"),
        ({"tile_columns": 5}, "the option tile_columns is 5; the tiles of this processor are "),
        ({"weight_cache_limit": 0}, "weight_cache_limit is at least 1 MiB and at most 8796093022207; got 0"),
        (
            {"weight_cache_limit": 2**60},
            "weight_cache_limit is at least 1 MiB and at most 8796093022207; got 1152921504606846976",
        ),
        ({"weight_cache": False, "weight_cache_folder": "x"}, "weight_cache_folder needs weight_cache"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(resized: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        load(resized, **options)
    assert message in str(caught.value)


def test_programs_that_share_a_workspace_take_its_memory_once(wide: Path) -> None:
    taken = {mode: memory_of_six(wide, (1, 1, 512, 512), workspace_sharing=mode) for mode in MODES}
    assert taken["global"] < taken["disabled"] - 60 * MIB  # of 5 * 16
    assert taken["global"] < taken["per_model"] - 60 * MIB


@pytest.mark.parametrize("mode", MODES)
def test_a_workspace_that_grows_moves_for_all_its_programs(wide: Path, resized: Path, mode: str) -> None:
    small, other, large = (load(path, workspace_sharing=mode) for path in (resized, resized, wide))
    rows, image = torch.randn(16, 64), torch.randn(1, 1, 512, 512)
    expected = {count: edgecore.load(resized).forward(rows[:count]) for count in (1, 5, 16)}
    for count in (1, 16, 5):
        assert torch.equal(small.forward(rows[:count]), expected[count])
        assert torch.equal(other.forward(rows[:1]), expected[1])
    assert torch.equal(large.forward(image), edgecore.load(wide).forward(image))
    for count in (5, 16):
        assert torch.equal(small.forward(rows[:count]), expected[count])
        assert torch.equal(other.forward(rows[:1]), expected[1])
    del large
    assert torch.equal(small.forward(rows[:16]), expected[16])


def test_threads_take_turns_in_a_shared_workspace(wide: Path, resized: Path) -> None:
    rows, image = torch.randn(16, 64), torch.randn(1, 1, 512, 512)
    expected = [edgecore.load(wide).forward(image)] + [edgecore.load(resized).forward(rows[:n]) for n in range(1, 17)]

    def run(kind: int) -> None:
        for turn in range(4):
            if kind == 0:
                model = load(wide, workspace_sharing="global")
                assert torch.equal(model.forward(image), expected[0])
            else:
                model = load(resized, workspace_sharing="global")
                for n in (kind, 16, turn + 1):
                    assert torch.equal(model.forward(rows[:n]), expected[n])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))


def test_without_the_weight_cache_each_load_packs_for_itself(tmp_path: Path) -> None:
    path = save(tmp_path / "linear.pte", nn.Linear(2000, 2500), torch.randn(1, 2000))  # 19 MiB
    taken = {cache: memory_of_six(path, (1, 2000), weight_cache=cache) for cache in (True, False)}
    assert taken[False] > taken[True] + 80 * MIB  # of 5 * 19


# Prints the refusal of a network for which there is no memory, and whether another that shares its workspace still works.
LIMITED = """
import resource, sys
import numpy as np
import edgecore
# Values of convolutions that use Winograd's algorithm lie outside of XNNPACK's workspace.
options = {"xnnpack": {"workspace_sharing": "global", "winograd": "off"}}
small = edgecore.load(sys.argv[1], options=options)
x = np.ones((16, 64), np.float32)
expected = small.forward(x)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20), resource.RLIM_INFINITY))
try:
    edgecore.load(sys.argv[2], options=options, threads=1).forward(np.ones((1, 1, 512, 512), np.float32))
except edgecore.errors.ExecutionError as error:
    print(error)
print(np.array_equal(small.forward(x), expected))
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
edgecore.load(sys.argv[2], options=options).forward(np.ones((1, 1, 512, 512), np.float32))
print(np.array_equal(small.forward(x), expected))
"""


def test_a_workspace_that_cannot_grow_serves_the_others(resized: Path, tmp_path: Path) -> None:
    large = save(tmp_path / "large.pte", Wide(64), torch.randn(1, 1, 512, 512))
    command = [sys.executable, "-c", LIMITED, str(resized), str(large)]
    # A thread that allocates for the first time would take 64 MiB of addresses, before or after they are limited.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    refusal, *works = done.stdout.splitlines()
    assert "no memory for XNNPACK's workspace" in refusal
    assert works == ["True", "True"]
