"""Compile a partition into a blob: lower it to a TOSA graph, and convert that to a VGF file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.plugin import CompileSpec, MemoryNeed, PreprocessResult
from edgecore.sdk import PartitionView
from edgecore_tosa.artifacts import artifact_folder
from edgecore_tosa.blob_graph import blob_graph
from edgecore_tosa.origins import debug_handle_map
from edgecore_vgf import lowering
from edgecore_vgf.converter import convert
from edgecore_vgf.options import VgfOptions
from edgecore_vgf.vgf import TensorInfo, Vgf, read_vgf

COMPATIBILITY = "vgf 1"
"""The compatibility string, which the delegate compares."""


@dataclass(frozen=True)
class VgfResult(PreprocessResult):
    """A compiled partition, and the content of its VGF file."""

    vgf: Vgf | None = None


def preprocess(program: ExportedProgram, specs: Sequence[CompileSpec]) -> VgfResult:
    """Compile one partition into a blob.

    Raises:
        CompileError: The converter cannot convert the partition.
    """
    options = VgfOptions.from_specs(specs)
    graph = lowering.lower_to_tosa(program, options.tosa_spec)
    tosa = graph.to_bytes()
    blob = convert(
        tosa, options.compiler_flags, folder=artifact_folder(options.dump_intermediate_artifacts_to, "vgf", tosa)
    )
    vgf = read_vgf(blob)
    partition = PartitionView(program)
    _check_arguments(partition, vgf)
    tensors = (*vgf.inputs, *vgf.outputs, *vgf.constants)
    return VgfResult(
        blob=blob,
        debug_handle_map=debug_handle_map(graph),
        compatibility=COMPATIBILITY,
        memory=(MemoryNeed("persistent", sum(tensor.size for tensor in tensors)),),
        graph=blob_graph(graph),  # the VGF file has SPIR-V, whose operations have no names
        vgf=vgf,
    )


def _check_arguments(partition: PartitionView, vgf: Vgf) -> None:
    """Check that the converter has kept the arguments of the partition, which the delegate copies one by one."""
    for kind, nodes, tensors in (
        ("inputs", partition.inputs, vgf.inputs),
        ("outputs", partition.outputs, vgf.outputs),
    ):
        expected = [TensorInfo(str(node.meta["val"].dtype).removeprefix("torch."), tuple(node.meta["val"].shape),
                               partition.max_bytes(node)) for node in nodes]  # fmt: skip
        if expected != list(tensors):
            raise CompileError(
                f"the converter changed the {kind} of the delegate: {', '.join(map(str, tensors))} instead of "
                f"{', '.join(map(str, expected))}"
            )
