"""Compile the TOSA graph of a partition with Vela, and write the compiled graph as a blob."""

from __future__ import annotations

from dataclasses import dataclass

from edgecore.errors import CompileError
from edgecore.plugin import MemoryNeed, NamedBlob, PreprocessResult
from edgecore.sdk import PartitionView
from edgecore_ethosu.blob import tosa_key, write_blob
from edgecore_ethosu.options import EthosUOptions
from edgecore_ethosu.vela.compile import VelaReport, VelaResult, compile_tosa
from edgecore_ethosu.vela.layers import Layer, layers_of, write_layers
from edgecore_tosa.compiler import LoweredPartition
from edgecore_tosa.graph.blob_graph import blob_graph
from edgecore_tosa.graph.origins import debug_handle_map

FORMAT = "ethosu-vela 1"
"""First words of the compatibility string; the delegates refuse others.

The target follows, then `fast BYTES` for a command stream with a fast scratch, which the delegate on a device reads.
"""

_CACHE_LINE = 32
"""Bytes of a cache line. The arena is aligned to cache lines, because the driver cleans and invalidates whole lines."""

_FAST_SPACE = 1
"""Memory space of the fast scratch; the arena is in space 0, the processor's memory."""


@dataclass(frozen=True)
class EthosUResult(PreprocessResult):
    """A compiled partition, with Vela's estimates for the whole graph and for each operator."""

    target: str = ""
    report: VelaReport | None = None
    layers: tuple[Layer, ...] = ()


def compile_graph(partition: LoweredPartition, options: EthosUOptions) -> EthosUResult:
    """Compile the TOSA graph of a partition into a blob.

    Raises:
        CompileError: Vela is missing, or cannot compile the graph.
    """
    graph, tosa, folder = partition.graph, partition.tosa, partition.folder
    compiled = compile_tosa(tosa, options, folder=folder)
    _check_arguments(PartitionView(partition.program), compiled)
    blob = write_blob(compiled.program)
    layers = layers_of(graph, compiled.report.operators)
    if folder is not None:
        (folder / "delegate.bin").write_bytes(blob)
        write_layers(layers, folder / "operators.csv")
    arena = -(-compiled.program.scratch_size // _CACHE_LINE) * _CACHE_LINE
    memory = [MemoryNeed("scratch", arena, alignment=_CACHE_LINE)]
    compatibility = f"{FORMAT} {options.target}"
    if compiled.fast_scratch_size:
        memory.append(MemoryNeed("scratch", compiled.fast_scratch_size, space=_FAST_SPACE))
        compatibility += f" fast {compiled.fast_scratch_size}"
    if options.include_tosa:
        memory.append(MemoryNeed("persistent", len(tosa)))  # the simulator copies the graph's constants
    return EthosUResult(
        blob=blob,
        named_data={tosa_key(blob): NamedBlob(tosa, repeats_blob=True)} if options.include_tosa else {},
        debug_handle_map=debug_handle_map(graph),
        compatibility=compatibility,
        memory=tuple(memory),
        estimated_cycles={layer.operator: layer.estimate.cycles for layer in layers if layer.estimate.cycles},
        graph=None if options.include_tosa else blob_graph(graph),
        target=options.target,
        report=compiled.report,
        layers=layers,
    )


def _check_arguments(partition: PartitionView, compiled: VelaResult) -> None:
    """Check that Vela kept the sizes of inputs and outputs, which the delegate on a device copies in order."""
    for kind, nodes, tensors in (
        ("inputs", partition.inputs, compiled.program.inputs),
        ("outputs", partition.outputs, compiled.program.outputs),
    ):
        expected, sizes = [partition.max_bytes(node) for node in nodes], [tensor.size for tensor in tensors]
        if expected != sizes:
            raise CompileError(f"Vela changed the {kind} of the delegate: sizes of {sizes} bytes instead of {expected}")
