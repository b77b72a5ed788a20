"""Compile a partition into a blob: lower it to a TOSA graph, and compile that with Vela."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.plugin import CompileSpec, MemoryNeed, NamedBlob, PreprocessResult
from edgecore.sdk import PartitionView
from edgecore_ethosu import lowering
from edgecore_ethosu.blob import tosa_key, write_blob
from edgecore_ethosu.layers import Layer, layers_of, write_layers
from edgecore_ethosu.options import EthosUOptions
from edgecore_ethosu.vela import VelaReport, VelaResult, compile_tosa
from edgecore_tosa.artifacts import artifact_folder
from edgecore_tosa.blob_graph import blob_graph
from edgecore_tosa.origins import debug_handle_map

FORMAT = "ethosu-vela 1"
"""Start of the compatibility string, which the delegates compare.

The target follows, and `fast BYTES` if the command stream uses a fast scratch, for the delegate on a device.
"""

_CACHE_LINE = 32
"""Bytes: the driver of a device writes back and drops whole lines of the arena."""

_FAST_SPACE = 1
"""The memory of the fast scratch; 0 is that of the processor, which has the arena."""


@dataclass(frozen=True)
class EthosUResult(PreprocessResult):
    """A compiled partition, and Vela's estimates for it and its operators."""

    target: str = ""
    report: VelaReport | None = None
    layers: tuple[Layer, ...] = ()


def preprocess(program: ExportedProgram, specs: Sequence[CompileSpec]) -> EthosUResult:
    """Compile one partition into a blob.

    Raises:
        CompileError: Vela cannot compile the partition.
    """
    options = EthosUOptions.from_specs(specs)
    graph = lowering.lower_to_tosa(program, options.target)
    tosa = graph.to_bytes()
    folder = artifact_folder(options.dump_intermediate_artifacts_to, "ethosu", tosa)
    if folder is not None:
        (folder / "graph.tosa").write_bytes(tosa)  # also if Vela refuses it
    compiled = compile_tosa(tosa, options, folder=folder)
    partition = PartitionView(program)
    _check_arguments(partition, compiled)
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
        memory.append(MemoryNeed("persistent", len(tosa)))  # the simulator copies the constants
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
    """Check that Vela has kept the arguments of the partition: the delegate on a device copies them one by one."""
    for kind, nodes, tensors in (
        ("inputs", partition.inputs, compiled.program.inputs),
        ("outputs", partition.outputs, compiled.program.outputs),
    ):
        expected, found = [partition.max_bytes(node) for node in nodes], [tensor.size for tensor in tensors]
        if expected != found:
            raise CompileError(f"Vela changed the {kind} of the delegate: sizes of {found} bytes instead of {expected}")
