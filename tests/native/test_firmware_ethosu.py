"""Models of an Ethos-U on bare metal: the delegate on an emulated Cortex-M55, with the stub of Arm's driver."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from embedding import ROOT, needs
from torch import nn

import edgecore

pytest.importorskip("ethosu", reason="Vela is not installed")
pytest.importorskip("edgecore_ethosu", reason="edgecore-ethosu is not installed")

PROCESSOR = "cortex-m55"
OPTIONS = ("-DBACKENDS=ethosu", "-DBOARD=corstone-300")
RUNS = 2
BAD = ("macs", "family", "dedicated", "release", "changed")
"""Files that a firmware for an ethos-u55-128 cannot run."""


@pytest.fixture(scope="module")
def firmware() -> ModuleType:
    needs("arm-none-eabi-g++", "qemu-system-arm")
    sys.path.insert(0, str(ROOT / "examples" / "firmware"))
    import firmware as module

    return module


class TwoOutputs(nn.Module):
    """Two inputs and two outputs, all of different sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Linear(8, 3)

    def forward(self, image: torch.Tensor, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.first(image)), self.second(numbers)


SHAPES = ((1, 2, 8, 8), (1, 8))


def compiled(**options: str) -> bytes:
    torch.manual_seed(0)
    samples = [tuple(torch.randn(shape) for shape in SHAPES) for _ in range(4)]
    backend = edgecore.Backend("ethosu", include_tosa=False, **options)
    return bytes(
        edgecore.compile(
            TwoOutputs().eval(), samples[0], backends=[backend], runtime="edgecore", quantize="int8",
            calibration=samples, memory="static",
        ).buffer
    )  # fmt: skip


@dataclass
class Ran:
    """A firmware that has run."""

    elf: Path
    folder: Path
    status: int
    text: str

    def lines(self, model: str) -> list[str]:
        """The lines about a model: its own and those of the stub before it."""
        lines: list[str] = []
        for line in self.text.splitlines():
            lines.append(line)
            if line.startswith(f"{model}: "):
                return lines
            if not line.startswith("The stub"):
                lines = []
        raise AssertionError(self.text)


def ran(firmware: ModuleType, folder: Path, files: dict[str, bytes], *options: str) -> Ran:
    """Build firmware with files, and run it `RUNS` times for each."""
    paths = [folder / f"{name}.pte" for name in files]
    for path, content in zip(paths, files.values(), strict=True):
        path.write_bytes(content)
        numbers = np.random.default_rng(0).normal(size=RUNS * sum(np.prod(shape) for shape in SHAPES))
        path.with_suffix(".in").write_bytes(numbers.astype(np.float32).tobytes())
    elf = firmware.build(folder / "build", PROCESSOR, paths, *OPTIONS, *options)
    return Ran(elf, folder, *firmware.emulate(elf, PROCESSOR, folder))


@pytest.fixture(scope="module")
def many(firmware: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A firmware for an ethos-u55-128, with files that it cannot run between two that it can."""
    good = compiled()
    changed = bytearray(good)
    changed[good.index(b"COP1") + 100] ^= 1
    files = {
        "good": good,
        "macs": compiled(target="ethos-u55-256"),
        "family": compiled(target="ethos-u65-256", memory_mode="Shared_Sram"),
        "dedicated": compiled(target="ethos-u65-256"),
        "release": good.replace(b"ethosu-vela 1", b"ethosu-vela 9"),
        "changed": bytes(changed),
        "again": good,
    }
    return ran(firmware, tmp_path_factory.mktemp("ethosu"), files)


@pytest.mark.slow
def test_the_stub_of_the_driver_gets_what_the_model_needs(many: Ran) -> None:
    for name in ("good", "again"):
        *stub, line = many.lines(name)
        assert line.startswith(f"{name}: {RUNS} runs; bytes of memory: tensors ")
        assert len(stub) == RUNS and len(set(stub)) == 1
        lines = edgecore_inspect(many.folder / f"{name}.pte")
        weights, arena = (int(lines[key].split()[0].replace(",", "")) for key in ("weights", "arena"))
        assert stub[0].startswith("The stub of an ethos-u55-128 accepts a command stream of ")
        assert stub[0].endswith(f" operations; bytes: weights {weights}, arena {arena}.")
        assert f", delegates {-(-arena // 32) * 32}," in line


def edgecore_inspect(path: Path) -> dict[str, str]:
    from edgecore_ethosu.blob import describe_blob

    content = path.read_bytes()
    blob = content[content.index(b"vela_bin_stream") : content.index(b"vela_end_stream") + 32]
    return dict(line.split(": ", 1) for line in describe_blob(blob))


@pytest.mark.slow
def test_all_outputs_of_the_model_are_written(many: Ran) -> None:
    for name in ("good", "again"):
        assert (many.folder / f"{name}.out").stat().st_size == RUNS * 4 * (4 * 8 * 8 + 3)


@pytest.mark.slow
def test_the_firmware_says_what_is_wrong_and_goes_on(many: Ran) -> None:
    assert many.status == 1
    refused = "The stub of an ethos-u55-128 refuses a command stream: it was compiled for "
    for name, target in (("macs", "ethos-u55-256"), ("family", "ethos-u65-256")):
        *stub, line = many.lines(name)
        assert stub == [f"{refused}{target}."]
        assert "Arm's driver has not run the command stream (it returned -1): its log says why." in line
    (line,) = many.lines("dedicated")
    assert "bytes of fast scratch, and the application has given 0: call edgecore_ethosu_set_fast_scratch" in line
    (line,) = many.lines("release")
    assert "'ethosu-vela 9 ethos-u55-128' is not a format that this release of edgecore-ethosu reads" in line
    (line,) = many.lines("changed")
    assert "does not match the SHA-256 in the file's metadata" in line
    for name in BAD:
        assert many.lines(name)[-1].endswith(".")


@pytest.mark.slow
def test_the_delegate_needs_no_heap_and_no_exceptions(many: Ran) -> None:
    text = subprocess.run(["arm-none-eabi-nm", many.elf], capture_output=True, text=True, check=True).stdout
    symbols = set(text.split())
    assert {"edgecore_backend_v0_ethosu", "ethosu_invoke_v3"} <= symbols
    assert not {"malloc", "_malloc_r", "_Znwj", "_sbrk", "__cxa_throw", "printf", "_ZTIN8edgecore5ErrorE"} & symbols
    objects = [path for path in many.elf.parent.rglob("*.obj") if "edgecore_ethosu" in str(path)]
    assert {path.name for path in objects} >= {"blob.cpp.obj", "delegate.cpp.obj", "stub.cpp.obj"}
    for path in objects:
        text = subprocess.run(["arm-none-eabi-nm", "-u", path], capture_output=True, text=True, check=True).stdout
        assert not [name for name in text.split() if name.startswith(("__gxx_personality", "_Unwind", "_ZSt", "_ZTV"))]
        sections = subprocess.run(["arm-none-eabi-objdump", "-h", path], capture_output=True, text=True, check=True)
        assert ".init_array" not in sections.stdout and ".ARM.extab" not in sections.stdout


@pytest.mark.slow
def test_models_and_arena_lie_where_the_npu_reaches_them(many: Ran) -> None:
    """An Ethos-U of a Corstone-300 has no port to the tightly coupled memories below 0x28000000."""
    text = subprocess.run(["arm-none-eabi-nm", many.elf], capture_output=True, text=True, check=True).stdout
    addresses = {words[2]: int(words[0], 16) for words in map(str.split, text.splitlines()) if len(words) == 3}
    models = [address for name, address in addresses.items() if name.startswith("pte_")]
    assert len(models) == 7 and all(0x38000000 <= address < 0x38800000 for address in models)
    assert all(address % 16 == 0 for address in models)
    assert 0x31000000 <= addresses["memory_start"] < addresses["stack_limit"] <= 0x31200000


@pytest.mark.slow
def test_a_dedicated_sram_is_the_fast_scratch(firmware: ModuleType, tmp_path: Path) -> None:
    content = compiled(target="ethos-u65-256")
    options = ("-DETHOSU_TARGET_NPU_CONFIG=ethos-u65-256", "-DETHOSU_FAST_SCRATCH=65536")
    one = ran(firmware, tmp_path, {"dedicated": content}, *options)
    assert one.status == 0, one.text
    *stub, line = one.lines("dedicated")
    assert line.startswith(f"dedicated: {RUNS} runs")
    assert len(stub) == RUNS
    assert stub[0].startswith("The stub of an ethos-u65-256 accepts ")
    fast = content[content.index(b" fast ") + 6 :][:8].split(b"\0")[0].decode()
    assert stub[0].endswith(f", fast scratch {fast}.")


@pytest.mark.slow
def test_the_folder_of_a_driver_replaces_the_stub(firmware: ModuleType, tmp_path: Path) -> None:
    """The driver here fills the arena. Like one for several NPUs, it has no NPU before it is called."""
    driver = tmp_path / "driver"
    (driver / "include").mkdir(parents=True)
    (driver / "CMakeLists.txt").write_text(
        "add_library(ethosu_core_driver STATIC driver.c)\ntarget_include_directories(ethosu_core_driver PUBLIC include)\n"
        "target_compile_definitions(ethosu_core_driver PUBLIC ETHOSU_MULTI_VARIANT)\n"
    )
    # An older release of Arm's driver declares the addresses as constant.
    (driver / "include" / "ethosu_driver.h").write_text("""
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
struct ethosu_driver { int unused; };
struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     const uint64_t *base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg);
#ifdef __cplusplus
}
#endif
""")
    (driver / "driver.c").write_text("""
#include "ethosu_driver.h"
struct ethosu_driver *ethosu_reserve_driver(void) { return 0; }
void ethosu_release_driver(struct ethosu_driver *drv) { drv->unused = 1; }
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     const uint64_t *base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg) {
  if (drv != 0 || num_base_addr != 2) return -1;
  uint8_t *arena = (uint8_t *)(uintptr_t)base_addr[1];
  for (size_t i = 0; i < base_addr_size[1]; ++i) arena[i] = 0x7f;
  return 0;
}
""")
    one = ran(firmware, tmp_path, {"filled": compiled()}, f"-DETHOSU_DRIVER_PATH={driver}")
    assert one.status == 0 and "stub" not in one.text
    first, second = np.split(np.fromfile(tmp_path / "filled.out", np.float32)[: 4 * 8 * 8 + 3], [4 * 8 * 8])
    # Each output is the largest number of its quantization.
    assert len(set(first)) == len(set(second)) == 1
    assert first[0] > 0 and second[0] > 0 and first[0] != second[0]


@pytest.mark.slow
def test_the_example_trains_compiles_and_runs(
    firmware: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sklearn")
    needs("cc")
    monkeypatch.setattr(firmware, "OUTPUT", tmp_path)
    monkeypatch.setattr(firmware, "SAMPLES", 50)
    example = runpy.run_path(str(ROOT / "examples" / "mcu-ethosu" / "npu.py"))["make_example"]()
    firmware.show([example])
    *_, row = capsys.readouterr().out.splitlines()
    assert row.startswith("npu       int8     cortex-m55 ")
    assert row.endswith("the stub of an ethos-u55-128 accepts the runs")
    right, exact = map(float, re.findall(r"([\d.]+) %", row))
    assert right > 90 and exact > 90
