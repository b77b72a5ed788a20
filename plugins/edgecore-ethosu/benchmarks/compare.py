"""Compare the lowering to Ethos-U with executorch's: Vela's cycles and SRAM, and the seconds of lowering.

    python plugins/edgecore-ethosu/benchmarks/compare.py [NAME ...] [--target TARGET ...] [--recipe int8] [--tosa FOLDER]

Each network of `tests/zoo.py` is quantized by the quantizer of each package, calibrated with the same inputs, and lowered
to TOSA; the same Vela compiles both graphs. The seconds are processor time of the lowering of a quantized program, from
the edge dialect to the blob, without Vela. executorch's TOSA tools need an older flatbuffers, so executorch runs in a
virtual environment of its own, which this program makes once in `~/.cache/edgecore` (`EDGECORE_CACHE`) on top of the
packages of this one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
from zoo import make, other_inputs

NETWORKS = ("mobilenet_v2", "mobilenet_v3_small", "resnet18", "efficientnet_b0", "ds_cnn", "encoder")
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
TOOLS = ("tosa-tools==2026.8.0", "flatbuffers==25.2.10", "ml-dtypes==0.5.3")
"""Packages that executorch's flow needs and this environment must not have."""

Lowered = tuple[float, list[Path]]
"""The seconds of a lowering, and its TOSA graphs."""


class Stopwatch:
    """Processor seconds of calls of a function, which it replaces in a module."""

    def __init__(self, module: Any, name: str) -> None:
        self.seconds = 0.0
        self._function: Callable[..., Any] = getattr(module, name)
        setattr(module, name, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        result = self._function(*args, **kwargs)
        self.seconds += time.process_time() - start
        return result


def quantized(name: str, quantizer: Any) -> torch.export.ExportedProgram:
    """Return a network with quantize and dequantize nodes, calibrated with two inputs."""
    model, inputs = make(name)
    prepared = prepare_pt2e(torch.export.export(model, inputs).module(check_guards=False), quantizer)
    prepared(*inputs)
    prepared(*other_inputs(inputs))
    return torch.export.export(convert_pt2e(prepared), inputs)


def lowered_here(name: str, target: str, recipe: str, folder: Path) -> Lowered:
    """Lower a network with edgecore."""
    import edgecore
    from edgecore_ethosu import EthosUCompileSpec, EthosUPartitioner, EthosUQuantizer, lowering, quantizer

    spec = EthosUCompileSpec(target).dump_intermediate_artifacts_to(str(folder))
    program = quantized(name, EthosUQuantizer(spec).set_global(getattr(quantizer, CONFIGURATIONS[recipe])()))
    vela = Stopwatch(lowering, "compile_tosa")
    start = time.process_time()
    edgecore.to_edge_transform_and_lower(program, partitioner=[EthosUPartitioner(spec)])
    return time.process_time() - start - vela.seconds, list(folder.glob("*/graph.tosa"))


def lowered_by_executorch(name: str, target: str, recipe: str, folder: Path) -> Lowered:
    """Lower a network with executorch."""
    from executorch.backends.arm import quantizer
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner, backend
    from executorch.exir import to_edge_transform_and_lower

    spec = EthosUCompileSpec(target, config_ini="Arm/vela.ini").dump_intermediate_artifacts_to(str(folder))
    peer = quantizer.EthosUQuantizer(spec).set_global(getattr(quantizer, CONFIGURATIONS[recipe])())
    program = quantized(name, peer)
    vela = Stopwatch(backend, "vela_compile")
    start = time.process_time()
    to_edge_transform_and_lower(program, partitioner=[EthosUPartitioner(spec)])
    return time.process_time() - start - vela.seconds, list(folder.glob("output_tag*.tosa"))


CONFIGURATIONS = {
    "int8": "get_symmetric_quantization_config",
    "int16x8": "get_symmetric_a16w8_quantization_config",
}
"""The function of both packages that makes the configuration of a recipe."""


def peer_python() -> Path:
    """Return Python in the environment with executorch's TOSA tools; make it if there is none."""
    cache = Path(os.environ.get("EDGECORE_CACHE", Path.home() / ".cache" / "edgecore"))
    folder = cache / "executorch-tosa"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True)
        (site,) = folder.glob("lib/python*/site-packages")
        below = [path for path in sys.path if path.endswith("-packages")]
        (site / "below.pth").write_text("".join(f"{path}\n" for path in below))
        pip = [sys.executable, "-m", "pip", "--python", python, "--quiet", "install", "--no-deps"]
        subprocess.run([*pip, "--target", site, "--upgrade", *TOOLS], check=True)
        (folder / "ready").touch()
    return python


def from_peer(name: str, target: str, recipe: str, folder: Path) -> Lowered:
    """Lower a network with executorch in its environment."""
    command = [peer_python(), __file__, name, "--target", target, "--recipe", recipe, "--peer", "--tosa", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"executorch cannot lower {name} for {target}: {done.stderr[-2000:]}")
    seconds, graphs = json.loads(done.stdout.splitlines()[-1])
    return seconds, [Path(graph) for graph in graphs]


def estimates(graphs: list[Path], target: str) -> tuple[int, int]:
    """Return Vela's total cycles, and the greatest use of SRAM in bytes, of some graphs."""
    from edgecore_ethosu.options import EthosUOptions
    from edgecore_ethosu.vela.compile import compile_tosa

    reports = [compile_tosa(graph.read_bytes(), EthosUOptions(target=target)).report for graph in graphs]
    return sum(report.total_cycles for report in reports), max(report.memories["Sram"].peak for report in reports)


def row(name: str, target: str, recipe: str, folder: Path) -> str:
    """Return a row of the table."""
    cells, found = [name, target], []
    for which, lower in (("edgecore", lowered_here), ("executorch", from_peer)):
        place = folder / f"{name}-{target}-{which}"
        place.mkdir(parents=True)
        seconds, graphs = lower(name, target, recipe, place)
        found.append((*estimates(graphs, target), seconds, len(graphs)))
    for ours, theirs in list(zip(*found, strict=True))[:2]:
        cells += [f"{ours:,}", f"{theirs:,}", f"{ours / theirs:.2f}"]
    cells += [f"{seconds:.1f} s" for *_, seconds, _ in found] + [" / ".join(str(count) for *_, count in found)]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=NETWORKS, help="networks of tests/zoo.py")
    parser.add_argument("--target", nargs="*", default=TARGETS, dest="targets")
    parser.add_argument("--recipe", choices=CONFIGURATIONS, default="int8")
    parser.add_argument("--tosa", type=Path, help="keep the TOSA graphs in this folder")
    parser.add_argument(
        "--peer", action="store_true", help=argparse.SUPPRESS
    )  # this program in executorch's environment
    arguments = parser.parse_args()
    if arguments.peer:
        seconds, graphs = lowered_by_executorch(
            arguments.names[0], arguments.targets[0], arguments.recipe, arguments.tosa
        )
        print(json.dumps([seconds, [str(graph) for graph in graphs]]))
        return
    warnings.simplefilter("ignore")
    print("| network | target | cycles | of executorch | ratio | SRAM | of executorch | ratio | lowering "
          "| of executorch | delegates |")  # fmt: skip
    print("|---" * 11 + "|")
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.names:
            for target in arguments.targets:
                print(row(name, target, arguments.recipe, arguments.tosa or Path(temporary)), flush=True)


if __name__ == "__main__":
    main()
