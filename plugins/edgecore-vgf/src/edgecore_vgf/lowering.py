"""Convert the TOSA graph of a partition to a VGF file, which becomes the delegate's blob."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.plugin import MemoryNeed, PreprocessResult
from edgecore.sdk import PartitionView, dtype_name
from edgecore_tosa.compiler import LoweredPartition
from edgecore_tosa.graph.blob_graph import blob_graph
from edgecore_tosa.graph.origins import debug_handle_map
from edgecore_vgf.converter import convert
from edgecore_vgf.options import VgfOptions
from edgecore_vgf.vgf import TensorInfo, Vgf, read_vgf

COMPATIBILITY = "vgf 1"
"""The compatibility string, which the `.pte` stores beside the blob. The delegate refuses other formats than this."""


@dataclass(frozen=True)
class VgfResult(PreprocessResult):
    """A compiled partition, with the content of its VGF file for the report."""

    vgf: Vgf | None = None


def compile_graph(partition: LoweredPartition, options: VgfOptions) -> VgfResult:
    """Convert the TOSA graph of a partition into a blob.

    Raises:
        CompileError: Arm's model converter is missing, or cannot convert the graph.
    """
    blob = convert(partition.tosa, options.compiler_flags, folder=partition.folder)
    vgf = read_vgf(blob)
    _check_arguments(PartitionView(partition.program), vgf)
    tensors = (*vgf.inputs, *vgf.outputs, *vgf.constants)
    return VgfResult(
        blob=blob,
        debug_handle_map=debug_handle_map(partition.graph),
        compatibility=COMPATIBILITY,
        memory=(MemoryNeed("persistent", sum(tensor.size for tensor in tensors)),),
        # Give tools the TOSA graph to show, because the operations in the SPIR-V code have no names.
        graph=blob_graph(partition.graph),
        vgf=vgf,
    )


def _check_arguments(partition: PartitionView, vgf: Vgf) -> None:
    """Check that the converter kept all inputs and outputs, their dtypes and shapes: the delegate copies them as is."""
    for kind, nodes, tensors in (
        ("inputs", partition.inputs, vgf.inputs),
        ("outputs", partition.outputs, vgf.outputs),
    ):
        expected = [_tensor_info(partition, node) for node in nodes]
        if expected != list(tensors):
            raise CompileError(
                f"the converter changed the {kind} of the delegate: {', '.join(map(str, tensors))} instead of "
                f"{', '.join(map(str, expected))}"
            )


def _tensor_info(partition: PartitionView, node: Node) -> TensorInfo:
    val = node.meta["val"]
    return TensorInfo(dtype_name(val.dtype), tuple(val.shape), partition.max_bytes(node))
