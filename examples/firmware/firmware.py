"""Build firmware with a model, run it in the emulator, and compare it with this machine.

The examples `mcu-*` use this module. `python examples/firmware/firmware.py` (`make firmware`) runs all of them.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import edgecore

HERE = Path(__file__).resolve().parent
CMAKE = Path(edgecore.__file__).parent / "cmake"
COUNTER = HERE.parents[1] / "benchmarks" / "instructions" / "count.c"
OUTPUT = HERE.parents[1] / "build" / "firmware"
MACHINES = {"cortex-m55": "mps3-an547", "cortex-m33": "mps2-an505"}
"""Processor -> the machine of qemu that has it."""

NPU_PROCESSOR = "cortex-m55"
"""The processor that runs the firmware of an Ethos-U."""

SAMPLES = 200
"""Held-back inputs that run in the emulator."""


@dataclass
class Example:
    """A trained network and its data.

    Attributes:
        name: The name of the example's files.
        model: The network in eval mode, with one input and one output.
        calibration: Inputs for quantization, with a batch of 1 each.
        inputs: Held-back inputs, float32 [N, ...].
        score: Takes the outputs for `inputs`, float32 [N, ...]; returns the percentage of right answers.
        npu: The Ethos-U that runs the network, such as `ethos-u55-128`; empty if the processor runs the network.
        recipes: The recipes that quantize the network. Each recipe gives a separate firmware.
    """

    name: str
    model: torch.nn.Module
    calibration: Sequence[torch.Tensor]
    inputs: torch.Tensor
    score: Callable[[np.ndarray], float]
    npu: str = ""
    recipes: Sequence[str] = ("int8", "int16x8")


@dataclass
class Run:
    """The results of a firmware, and the memory and instructions that it needs.

    Attributes:
        outputs: Bytes of the outputs of all runs.
        console: The text that the firmware printed.
        flash: Bytes of code, constants and model.
        memory: Purpose of the RAM -> bytes; `tensors` is the memory plan.
        instructions: Number of instructions of one inference.
    """

    outputs: bytes
    console: str
    flash: int
    memory: dict[str, int]
    instructions: int


def build(folder: Path, processor: str, files: Sequence[Path], *options: str) -> Path:
    """Build firmware that contains `.pte` files.

    Args:
        folder: The build folder.
        processor: A key of `MACHINES`.
        files: The files.
        *options: Further options of CMake.

    Returns:
        The path of the firmware.

    Raises:
        SystemExit: The build failed; its output was printed.
    """
    configure = ["cmake", "-S", HERE, "-B", folder, "-G", "Ninja", f"-Dedgecore_DIR={CMAKE}", "--toolchain"]
    configure += [CMAKE / "toolchains" / f"{processor}.cmake", f"-DPython3_EXECUTABLE={sys.executable}"]
    configure += [f"-DPTE={';'.join(str(file.resolve()) for file in files)}", *options]
    if shutil.which("ccache"):
        configure += [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX")]
    environment = {key: value for key, value in os.environ.items() if key not in ("CC", "CXX")}
    for command in (configure, ["cmake", "--build", folder]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            raise SystemExit(f"{done.stdout[-4000:]}{done.stderr[-4000:]}\nThe firmware could not be built.")
    return folder / "firmware.elf"


def emulate(elf: Path, processor: str, folder: Path, *options: str) -> tuple[int, str]:
    """Run firmware in qemu. The firmware reads NAME.in and writes NAME.out in `folder`.

    Returns:
        The exit status and the text on the console.
    """
    command = ["qemu-system-arm", "-M", MACHINES[processor], "-nographic", "-monitor", "none", "-serial", "null"]
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", str(elf.resolve()), *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout + done.stderr


def count_instructions(elf: Path, processor: str, name: str, inputs: np.ndarray) -> int:
    """Return the number of instructions of one inference: the count of two inferences minus the count of one.

    Raises:
        SystemExit: A run failed.
    """
    counts = []
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        plugin = folder / "count.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", plugin, COUNTER], check=True)
        for runs in (1, 2):
            (folder / f"{name}.in").write_bytes(inputs[:runs].tobytes())
            os.environ["EDGECORE_INSTRUCTIONS"] = str(folder / "counts.txt")
            status, text = emulate(elf, processor, folder, "-plugin", str(plugin))
            if status != 0:
                raise SystemExit(text)
            lines = (folder / "counts.txt").read_text().splitlines()
            counts.append(sum(int(line.split()[2]) for line in lines))
    return counts[1] - counts[0]


def run(pte: Path, processor: str, inputs: np.ndarray, *options: str) -> Run:
    """Build and run firmware with one file on all inputs, float32 [N, ...]. The options are those of `build`.

    Raises:
        SystemExit: The build or the run failed.
    """
    folder = pte.parent / processor
    elf = build(folder, processor, [pte], *options)
    (folder / f"{pte.stem}.in").write_bytes(inputs.tobytes())
    status, text = emulate(elf, processor, folder)
    if status != 0:
        raise SystemExit(text)
    memory = {part.strip(): int(size) for part, size in re.findall(r"([a-z ]+) (\d+)[,.]", text.split("memory:")[1])}
    sections = subprocess.run(["arm-none-eabi-size", "-A", elf], capture_output=True, text=True, check=True).stdout
    sizes = dict(re.findall(r"^(\.\w+) +(\d+)", sections, re.MULTILINE))
    outputs = (folder / f"{pte.stem}.out").read_bytes()
    instructions = count_instructions(elf, processor, pte.stem, inputs)
    flash = sum(int(sizes.get(section, 0)) for section in (".text", ".models", ".data"))
    return Run(outputs, text, flash, memory, instructions)


def show(examples: Sequence[Example], processors: Sequence[str] = tuple(MACHINES)) -> None:
    """Quantize networks, run them here and in firmware, and print a table.

    Raises:
        SystemExit: A build or a run failed, or a result differs from the result on this machine.
    """
    print(
        f"{'':10}{'':9}{'':12}{'flash':>9}{'model':>9}{'RAM':>9}{'tensors':>9}{'instructions':>14}  results\n"
        f"{'':10}{'':9}{'':12}{'kB':>9}{'kB':>9}{'bytes':>9}{'bytes':>9}{'thousands':>14}"
    )
    for example in examples:
        samples = example.inputs[:SAMPLES]
        inputs = samples.numpy()
        with torch.no_grad():
            exact = example.model(samples).numpy()
        for recipe in example.recipes:
            pte = OUTPUT / f"{example.name}-{recipe}" / f"{example.name}.pte"
            pte.parent.mkdir(parents=True, exist_ok=True)
            compile_example(example, recipe, include_tosa=False).save(pte)
            method = edgecore.load(compile_example(example, recipe, include_tosa=True).buffer)
            expected = np.concatenate([np.asarray(method.forward(inputs[i : i + 1])) for i in range(len(inputs))])
            for processor in [NPU_PROCESSOR] if example.npu else processors:
                one = run(pte, processor, inputs, *npu_options(example))
                print(
                    f"{example.name:10}{recipe:9}{processor:12}{one.flash / 1000:9.1f}{pte.stat().st_size / 1000:9.1f}"
                    f"{sum(one.memory.values()):9}{one.memory['tensors']:9}{one.instructions / 1000:14.1f}  "
                    f"{example.score(expected):.1f} % right, fp32 {example.score(exact):.1f} %; "
                    f"{verdict(example, processor, one, expected)}"
                )


def compile_example(example: Example, recipe: str, *, include_tosa: bool) -> edgecore.CompiledProgram:
    """Quantize a network. A file for an Ethos-U runs on this machine if it has the TOSA graph."""
    backends = [edgecore.Backend("ethosu", target=example.npu, include_tosa=include_tosa)] if example.npu else []
    return edgecore.compile(
        example.model,
        (example.inputs[:1],),
        backends=backends,
        runtime="edgecore",
        quantize=recipe,
        memory="static",
        calibration=example.calibration,
    )


def npu_options(example: Example) -> list[str]:
    """Return the options of CMake for the NPU of an example; none if it has no NPU."""
    if not example.npu:
        return []
    return ["-DBACKENDS=ethosu", "-DBOARD=corstone-300", f"-DETHOSU_TARGET_NPU_CONFIG={example.npu}"]


def verdict(example: Example, processor: str, one: Run, expected: np.ndarray) -> str:
    """Compare what a firmware has computed with the results of this machine, float32 [N, ...].

    The emulator has no NPU: a stub of the NPU's driver checks each command stream, and the outputs have no meaning.

    Raises:
        SystemExit: A result differs, or the stub has not accepted each run.
    """
    if not example.npu:
        if one.outputs != expected.tobytes():
            raise SystemExit(f"{example.name} on {processor}: the result is not that of this machine.")
        return "bits as here"
    accepted = one.console.count(f"The stub of an {example.npu} accepts a command stream of ")
    if accepted != len(expected):
        raise SystemExit(
            f"{example.name} on {processor}: the driver's stub accepts {accepted} of {len(expected)} runs."
        )
    return f"the stub of an {example.npu} accepts the runs"


def all_examples() -> list[Example]:
    """Train the networks of all examples."""
    modules = sorted(HERE.parent.glob("mcu-*/*.py"))
    return [runpy.run_path(str(module))["make_example"]() for module in modules]


if __name__ == "__main__":
    show(all_examples())
