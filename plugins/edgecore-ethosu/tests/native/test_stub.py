"""The stub of Arm's driver: it accepts what Vela compiles for each NPU, in exactly the memory that Vela says."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from ethosu_models import CONV_INPUTS, SUB_INPUTS, Conv, Sub, compiled
from torch import nn

import edgecore
from edgecore_ethosu.options import EthosUOptions
from edgecore_ethosu.vela.compile import VelaResult, compile_tosa
from edgecore_ethosu.vela.targets import TARGETS

NATIVE = Path(__file__).resolve().parents[2] / "native"
INCLUDE = Path(edgecore.__file__).parent / "native" / "include"
LOG = """
#include <stdint.h>
struct text { const char *data; uint64_t size; };
static struct text last;
static char copy[512];
void edgecore_log(int32_t level, struct text text) {
  __builtin_memcpy(copy, text.data, text.size);
  last = (struct text){copy, text.size};
}
const char *last_message(void) { copy[last.size] = 0; return copy; }
"""
MODES = [("ethos-u65-256", "Shared_Sram"), ("ethos-u65-512", "Dedicated_Sram"), ("ethos-u85-256", "Dedicated_Sram"),
         ("ethos-u85-256", "Shared_Sram"), ("ethos-u55-64", "Sram_Only")]  # fmt: skip
"""Memory modes that are not the defaults of their targets."""

Call = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def stub(tmp_path_factory) -> Callable[[str], Call]:
    """Return a function that makes the stub of a target: a function that takes the result of Vela, and sizes."""
    compiler = shutil.which("g++") or shutil.which("clang++-16")
    if compiler is None:
        pytest.skip("no C++ compiler for the stub")
    folder = tmp_path_factory.mktemp("stub")
    (folder / "log.c").write_text(LOG)
    built: dict[str, Call] = {}

    def make(target: str) -> Call:
        if target not in built:
            built[target] = _load(_build(compiler, folder, target))
        return built[target]

    return make


def _build(compiler: str, folder: Path, target: str) -> Path:
    library = folder / f"{target}.so"
    _, family, macs = target.split("-")
    command = [compiler, "-O1", "-shared", "-fPIC", f"-I{INCLUDE}", f"-I{NATIVE / 'src'}"]
    command += [f"-DEDGECORE_ETHOSU_STUB_FAMILY={family[1:]}", f"-DEDGECORE_ETHOSU_STUB_MACS={macs}", "-o", library]
    sources = [NATIVE / "stub" / f"{name}.cpp" for name in ("checks", "commands", "stub")]
    subprocess.run([*command, *sources, "-x", "c", folder / "log.c"], check=True)
    return library


def _load(path: Path) -> Call:
    library = ctypes.CDLL(str(path))
    library.last_message.restype = ctypes.c_char_p
    library.ethosu_reserve_driver.restype = ctypes.c_void_p
    memory = ctypes.create_string_buffer(1 << 24)

    def call(result: VelaResult, **changed: int) -> tuple[int, str]:
        start = -(-ctypes.addressof(memory) // 16) * 16
        program = result.program
        sizes = {"weights": len(program.weights), "arena": program.scratch_size, "fast": result.fast_scratch_size}
        sizes |= changed
        stream = program.command_stream
        ctypes.memmove(start, stream, len(stream))
        addresses, at = [], start + len(stream)
        for size in sizes.values():
            at = -(-at // 16) * 16
            addresses.append(at)
            at += size
        driver = ctypes.c_void_p(library.ethosu_reserve_driver())
        code = library.ethosu_invoke_v3(
            driver, ctypes.c_void_p(start), len(stream), (ctypes.c_uint64 * 3)(*addresses),
            (ctypes.c_size_t * 3)(*sizes.values()), 3 if sizes["fast"] else 2, None,
        )  # fmt: skip
        library.ethosu_release_driver(driver)
        return code, library.last_message().decode()

    return call


class Net(nn.Module):
    """Operators of all kinds: convolutions, pooling, a table, elementwise ones, a mean, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.last = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sigmoid(self.first(x))
        x = torch.max_pool2d(self.depthwise(x) + x, 2)
        return self.last(x.mean((2, 3)))


@pytest.fixture(scope="module")
def graphs(tmp_path_factory) -> Callable[[str], list[bytes]]:
    """Return a function that returns TOSA graphs for a target."""
    found: dict[str, list[bytes]] = {}

    def make(target: str) -> list[bytes]:
        family = target.split("-")[1]
        if family not in found:
            folder = tmp_path_factory.mktemp(family)
            for model, inputs in ((Conv(), CONV_INPUTS), (Sub(), SUB_INPUTS)):
                compiled(model, inputs, target=target, dump_intermediate_artifacts_to=str(folder))
            example = (torch.randn(1, 3, 32, 32),)
            backend = edgecore.Backend("ethosu", target=target, dump_intermediate_artifacts_to=str(folder))
            edgecore.compile(Net().eval(), example, backends=[backend], quantize="int8", calibration=[example])
            found[family] = [path.read_bytes() for path in sorted(folder.glob("*/graph.tosa"))]
            assert len(found[family]) == 3
        return found[family]

    return make


@pytest.mark.slow
@pytest.mark.parametrize(("target", "mode"), [*((target, None) for target in TARGETS), *MODES])
def test_the_stub_accepts_what_vela_compiles_in_no_less_memory(stub, graphs, target, mode):
    call, options = stub(target), EthosUOptions(target=target, memory_mode=mode)
    fast_scratch = 0
    for tosa in graphs(target):
        result = compile_tosa(tosa, options)
        code, message = call(result)
        assert (code, message.partition(" accepts ")[0]) == (0, f"The stub of an {target}"), message
        assert f"arena {result.program.scratch_size}" in message
        assert ("fast scratch" in message) == (result.fast_scratch_size != 0)
        fast_scratch += result.fast_scratch_size
        if result.program.weights:
            assert call(result, weights=len(result.program.weights) // 2)[0] == -1
        code, message = call(result, arena=0)
        assert code == -1 and "of the arena, which has 0 bytes." in message
        if result.fast_scratch_size:
            code, message = call(result, fast=0)
            assert code == -1 and "in the fast scratch, which the call does not have." in message
    assert (fast_scratch != 0) == ("Dedicated" in options.mode)


def test_the_stub_refuses_a_stream_of_another_npu(stub, graphs):
    (tosa, *_) = graphs("ethos-u55-128")
    result = compile_tosa(tosa, EthosUOptions(target="ethos-u55-256"))
    assert stub("ethos-u55-128")(result) == (
        -1,
        "The stub of an ethos-u55-128 refuses a command stream: it was compiled for ethos-u55-256.",
    )
