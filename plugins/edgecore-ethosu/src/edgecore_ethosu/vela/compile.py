"""Compile TOSA graphs with Arm's compiler Vela, through its Python module `ethosu.regor` or its command line.

The module takes the graph, the configuration file and the options as arguments, and starts ten times faster than the
command line. But its interface is not documented and may change. If it has changed, or if a flag exists only on the
command line, `compile_tosa` runs the command line. Both run in a separate process and give the same bytes.
"""

from __future__ import annotations

import csv
import io
import pickle
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from edgecore.errors import CompileError
from edgecore.plugin import Ended, exit_text, run_command
from edgecore_ethosu.blob import VelaProgram, VelaTensor
from edgecore_ethosu.options import EthosUOptions
from edgecore_ethosu.vela.flags import Flags, parse_flags
from edgecore_ethosu.vela.layers import OperatorEstimate, Tables, operator_estimates
from edgecore_ethosu.vela.targets import Configuration, config_path, configuration, cores, family, macs

PACKAGE = "ethos-u-vela"
MAJOR = 5
INSTALL = f'pip install "{PACKAGE}>=5.2,<6"'
REGOR = (sys.executable, "-m", "edgecore_ethosu.vela.regor_process")
_KIB = 1024
_NPU_MEMORIES = ("Sram", "Dram", "OnChipFlash", "OffChipFlash")
_COLUMNS = {"Sram": "sram", "Dram": "dram", "OnChipFlash": "on_chip_flash", "OffChipFlash": "off_chip_flash"}


@dataclass(frozen=True)
class MemoryUse:
    """Estimated use of a memory by one run: the peak in bytes, and the bytes read and written."""

    peak: int
    transferred: int


@dataclass(frozen=True)
class VelaReport:
    """Vela's estimates for one run of a compiled TOSA graph on the NPU.

    Attributes:
        npu_cycles: Cycles in which the NPU computes.
        total_cycles: Cycles of a run, including waiting for memory.
        milliseconds: Time of a run at the clock rate of the system configuration.
        multiplications: Number of multiply-accumulate operations.
        npu_operators: Number of operations of the NPU.
        encoded_weights: Size of the encoded weights in bytes.
        memories: Maps Vela's name of a memory to its use. As in Vela's reports, weights in SRAM count as `OnChipFlash`.
        operators: Maps the number of an operator in the TOSA file to the operator's estimates.
    """

    npu_cycles: int
    total_cycles: int
    milliseconds: float
    multiplications: int
    npu_operators: int
    encoded_weights: int
    memories: Mapping[str, MemoryUse]
    operators: Mapping[int, OperatorEstimate]


@dataclass(frozen=True)
class VelaResult:
    """A compiled TOSA graph, with Vela's estimates for it.

    Attributes:
        program: The content of the blob.
        fast_scratch_size: Bytes of the SRAM cache (region 2 of the command stream); 0 unless the memory mode has a
            dedicated SRAM.
        report: The estimates.
    """

    program: VelaProgram
    fast_scratch_size: int
    report: VelaReport


def compile_tosa(tosa: bytes, options: EthosUOptions, *, folder: Path | None = None) -> VelaResult:
    """Compile a TOSA graph for an NPU.

    Args:
        tosa: The graph, as a flatbuffer of TOSA.
        options: Target, system configuration, memory mode and flags.
        folder: Existing folder for the files of Vela's command line; None to keep none.

    Raises:
        CompileError: Vela is missing, has an untested version or refuses the graph; or the graph needs too much SRAM.
    """
    check_version()
    flags = parse_flags(options.extra_flags)
    config = _configuration(options)
    result = None if flags.others else _compile_by_module(tosa, options, flags, config)
    if result is None and folder is not None:
        result = _compile_by_command(tosa, options, config, folder)
    elif result is None:
        with tempfile.TemporaryDirectory() as name:
            result = _compile_by_command(tosa, options, config, Path(name))
    _check_memory(result.report, options, flags, config)
    return result


def check_version() -> None:
    """Raise `CompileError` if Vela is not installed, or has a version that this package was not tested with."""
    try:
        installed = version(PACKAGE)
    except PackageNotFoundError:
        raise CompileError(f"Vela, the compiler for Ethos-U, is not installed: {INSTALL}") from None
    if installed.partition(".")[0] != str(MAJOR):
        raise CompileError(f"Vela {installed} is installed, and edgecore-ethosu is tested with Vela {MAJOR}: {INSTALL}")


def _configuration(options: EthosUOptions) -> Configuration:
    path = config_path(options.config_ini)
    if path is None:
        raise CompileError(f"Vela's folder of configuration files is missing: {INSTALL}")
    return configuration(options.target, options.system, options.mode, path)


def _compile_by_module(tosa: bytes, options: EthosUOptions, flags: Flags, config: Configuration) -> VelaResult | None:
    """Compile with the module `ethosu.regor` in a child process; return None if the module's interface has changed."""
    system = (
        f"[architecture]\nmacs={macs(options.target)}\ncores={cores(options.target)}\n"
        f"[vela]\nsystem_config_name={options.system}\nmemory_mode_name={options.mode}\n{config.text}"
    )
    settings = (
        "[compiler]\nenable_db=true\noutput_format=Raw\ncop_format=COP1\n"
        f"[scheduler]\noptimize={flags.optimise}\narena_size_limit={_arena_limit(flags, config)}\n"
        f"cpu_tensor_alignment={flags.cpu_tensor_alignment}\ntensor_allocator=HillClimb\n"
        "[graph]\nsoftmax_int16_neg_exp_range=10.0\n"
    )
    arguments = (f"Ethos{family(options.target).upper()}", tosa, system, settings)
    with tempfile.TemporaryFile() as answer:
        done = run_command(REGOR, stdin=[pickle.dumps(arguments)], stdout=answer)
        if done.status:
            raise _crashed(done, options)
        answer.seek(0)
        result = pickle.load(answer)
    if result is None:
        return None
    if isinstance(result, str):
        raise _refused(result, options)
    inputs, outputs = (tuple(VelaTensor(*tensor) for tensor in result[kind]) for kind in ("inputs", "outputs"))
    program = VelaProgram(result["command_stream"], result["weights"], result["scratch_size"], inputs, outputs)
    return VelaResult(program, result["fast_scratch_size"], _report(result, options, config))


def _report(result: Mapping[str, Any], options: EthosUOptions, config: Configuration) -> VelaReport:
    _check_operators(result["cpu_operators"], options)
    memories = {name: MemoryUse(*use) for name, use in result["memories"].items() if name in _NPU_MEMORIES}
    if config.constants == "Sram" and result["constants_peak"]:
        sram = memories["Sram"]
        memories["Sram"] = MemoryUse(sram.peak - result["constants_peak"], sram.transferred)
        memories["OnChipFlash"] = MemoryUse(result["constants_peak"], 0)
    return VelaReport(
        npu_cycles=result["npu_cycles"],
        total_cycles=result["total_cycles"],
        milliseconds=1e3 * result["total_cycles"] / config.core_clock,
        multiplications=result["multiplications"],
        npu_operators=result["npu_operators"],
        encoded_weights=result["encoded_weights"],
        memories={name: use for name, use in memories.items() if use.peak},
        operators=operator_estimates(result["tables"]),
    )


def _compile_by_command(tosa: bytes, options: EthosUOptions, config: Configuration, folder: Path) -> VelaResult:
    """Compile with Vela's command line, which writes its files into `folder`."""
    graph = folder / "graph.tosa"
    graph.write_bytes(tosa)
    arguments = [
        *options.extra_flags,
        f"--accelerator-config={options.target}",
        f"--config={config_path(options.config_ini)}",
        f"--system-config={options.system}",
        f"--memory-mode={options.mode}",
        "--output-format=raw",
        "--enable-debug-db",
        f"--output-dir={folder}",
    ]
    command = [sys.executable, "-m", "ethosu.vela", *arguments, str(graph)]
    done = run_command(command)
    (folder / "vela.log").write_text(done.out + done.err, encoding="utf-8")
    if done.status < 0:
        raise _crashed(done, options)
    if done.status:
        # Vela's message is the exception on the last line of a traceback; for a refused flag, it is `vela: error: ...`.
        message = re.split(r"^\w[\w.]*(?:Error|Exception): |^vela: error: ", done.err.strip(), flags=re.MULTILINE)[-1]
        raise _refused(message, options)
    summary = (folder / f"graph_summary_{options.system}.csv").read_text(encoding="utf-8")
    row = next(csv.DictReader(io.StringIO(summary)))
    report = _report_of_command(done.out, row, _tables_of_file(folder / "graph_debug.xml"), options, config)
    return VelaResult(*_program_of_file(folder / "graph_vela.npz"), report)


def _program_of_file(path: Path) -> tuple[VelaProgram, int]:
    """Read a compiled graph from Vela's `.npz` file; return it with the bytes of its fast scratch (SRAM cache)."""
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        tensors = {
            kind: tuple(
                VelaTensor(tuple(map(int, shape)), int(size), int(offset), int(region))
                for shape, size, offset, region in zip(
                    *(arrays[f"{kind}_{name}"] for name in ("shape", "elem_size", "offset", "region")), strict=True
                )
            )
            for kind in ("input", "output")
        }
        # numpy holds command stream and weights as byte strings; `item()` would strip their trailing zeros.
        commands, weights = (arrays[name].tobytes() for name in ("cmd_data", "weight_data"))
        program = VelaProgram(commands, weights, int(arrays["scratch_size"]), tensors["input"], tensors["output"])
        return program, int(arrays["scratch_fast_size"])


def _tables_of_file(path: Path) -> Tables:
    """Read the tables of Vela's debug database, an XML file in which each `table` element holds CSV text."""
    tables = {}
    for table in ElementTree.parse(path).iter("table"):
        header, *rows = csv.reader(io.StringIO((table.text or "").strip()))
        tables[table.get("name", "")] = (header, rows)
    return tables


def _report_of_command(
    output: str, row: Mapping[str, str], tables: Tables, options: EthosUOptions, config: Configuration
) -> VelaReport:
    operators = {unit: int(count) for unit, count in re.findall(r"^(CPU|NPU) operators = (\d+) ", output, re.MULTILINE)}
    _check_operators(operators.get("CPU", 0), options)
    memories = {
        name: MemoryUse(round(float(row[f"{column}_memory_used"]) * _KIB), int(row[f"{column}_total_bytes"]))
        for name, column in _COLUMNS.items()
    }
    total = int(row["cycles_total"])
    return VelaReport(
        npu_cycles=int(row["cycles_npu"]),
        total_cycles=total,
        milliseconds=1e3 * total / config.core_clock,
        multiplications=int(row["nn_macs"]),
        npu_operators=operators.get("NPU", 0),
        encoded_weights=int(row["total_npu_encoded_weights"]),
        memories={name: use for name, use in memories.items() if use.peak},
        operators=operator_estimates(tables),
    )


def _check_operators(on_cpu: int, options: EthosUOptions) -> None:
    """Raise an error if Vela left operators to a CPU, because the delegate on a device runs only NPU commands."""
    if on_cpu:
        raise CompileError(f"Vela cannot compile {on_cpu} operators of the TOSA graph for {options.target}")


def _refused(message: str, options: EthosUOptions) -> CompileError:
    """Convert Vela's message to an error: join its lines (titles such as `Const:`, and reasons after a `-`)."""
    entries: list[str] = []
    for line in message.removeprefix("Compilation failed: ").splitlines():
        reason = line.strip().removeprefix("- ")
        if reason == line.strip() or not entries:
            entries.append(reason)
        else:
            entries[-1] += f"{'' if entries[-1].endswith(':') else ','} {reason}"
    text = "; ".join(dict.fromkeys(filter(None, entries))).replace(":; ", ": ")
    return CompileError(f"Vela cannot compile the TOSA graph for {options.target}: {text}")


def _crashed(done: Ended, options: EthosUOptions) -> CompileError:
    return CompileError(
        f"Vela ended with {exit_text(done.status)} while it compiled the TOSA graph for {options.target}, which is a "
        "fault of Vela; dump_intermediate_artifacts_to keeps the graph"
    )


def _arena_limit(flags: Flags, config: Configuration) -> int:
    for limit in (flags.arena_cache_size, config.arena_cache_size):
        if limit is not None:
            return limit
    return config.address_range


def _check_memory(report: VelaReport, options: EthosUOptions, flags: Flags, config: Configuration) -> None:
    """Raise an error if a run needs more SRAM than the memory mode allows, because Vela does not enforce the limit."""
    limit, use = _arena_limit(flags, config), report.memories.get("Sram")
    if use is not None and use.peak > limit:
        raise CompileError(
            f"the model needs {use.peak:,} bytes of SRAM and {options.mode} of {options.target} has {limit:,}: try "
            "extra_flags=['--optimise=Size'], a memory mode with a dedicated SRAM, or a larger --arena-cache-size"
        )
