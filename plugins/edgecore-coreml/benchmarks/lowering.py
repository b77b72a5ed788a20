"""Lower the networks of a zoo; print delegates, operators, and processor time with and without coremltools.

python plugins/edgecore-coreml/benchmarks/lowering.py [--zoo FILE] [MODEL ...]

The default zoo is `tests/zoo.py`; any other has `make(name)` and a dict `ZOO`, too. The script prints a row for each
network, and ends with status 1 if a network takes longer than the limit. A network whose package is not installed is
left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import edgecore
from edgecore.format import read_pte
from edgecore_coreml.compiler import CoreMLCompiler
from edgecore_coreml.conversion import convert

ZOO = Path(__file__).resolve().parents[3] / "tests/zoo.py"
LIMIT = 3.0
"""Largest processor time of lowering without coremltools, in seconds."""


def load_zoo(path: Path) -> ModuleType:
    """Import a zoo from its file."""
    spec = importlib.util.spec_from_file_location("zoo_of_benchmark", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Coremltools:
    """Adds up the processor time that coremltools' converter takes, in seconds."""

    def __init__(self) -> None:
        self.seconds, self._original = 0.0, convert._convert
        convert._convert = self._timed  # type: ignore[assignment]

    def _timed(self, *args: Any) -> Any:
        begun = time.process_time()
        try:
            return self._original(*args)
        finally:
            self.seconds += time.process_time() - begun


def lower(name: str, zoo: ModuleType, coremltools: Coremltools) -> tuple[str, float]:
    """Lower a network; return its row of the table, and the processor time without coremltools in seconds."""
    model, inputs = zoo.make(name)
    exported = torch.export.export(model, inputs)
    coremltools.seconds, begun = 0.0, time.process_time()
    program = edgecore.compile(exported, backends=["coreml"])
    own = time.process_time() - begun - coremltools.seconds
    pte = read_pte(bytes(program.buffer))
    lines = [line for blob in pte.delegate_blobs for line in CoreMLCompiler().describe_blob(bytes(blob), {})]
    operators = sum(int(line.split()[2]) for line in lines if line.startswith("function "))
    outside = sum(row.where != "CoreMLBackend" for row in program.report().rows)
    row = (
        f"| {name} | {len(pte.delegate_blobs)} | {operators} | {outside} | {own:.2f} s | {coremltools.seconds:.2f} s "
        f"| {len(program.buffer):,} |"
    )
    return row, own


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--zoo", type=Path, default=ZOO)
    arguments = parser.parse_args()
    zoo = load_zoo(arguments.zoo)
    torch.set_num_threads(1)  # process_time counts the time in which threads wait for each other
    coremltools = Coremltools()
    lower("ds_cnn", load_zoo(ZOO), coremltools)  # import coremltools before measuring
    print("| network | delegates | operators | outside | lowering | coremltools | bytes |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    too_long = []
    for name in arguments.models or getattr(zoo, "ALL", zoo.ZOO):
        try:
            row, own = lower(name, zoo, coremltools)
        except ImportError as error:
            print(f"{name} is left out: {error}", flush=True)
            continue
        print(row, flush=True)
        too_long += [name] if own > LIMIT else []
    if too_long:
        raise SystemExit(f"more than {LIMIT} s: {', '.join(too_long)}")


if __name__ == "__main__":
    main()
