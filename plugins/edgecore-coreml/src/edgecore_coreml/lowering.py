"""Compile a partition into a blob: convert the partition to a model with coremltools, and pack the model's files."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.plugin import BlobGraph, CompileSpec, NamedBlob, PreprocessResult
from edgecore.sdk import PartitionView, debug_handles
from edgecore_coreml.conversion.convert import Converted, convert, quiet
from edgecore_coreml.conversion.names import names_by_precision
from edgecore_coreml.options import CoreMLOptions
from edgecore_coreml.package.blob import read_blob
from edgecore_coreml.package.compiled import compile_model
from edgecore_coreml.package.files import pack, write_files
from edgecore_coreml.package.graph import graph_of
from edgecore_coreml.weights.stored import stored_weights

FORMAT = "coreml-package 1"
"""Start of the compatibility string, which the deployment target follows."""
_ALIGNMENT = 16
"""Alignment of initial values in the file, in bytes."""


@dataclass(frozen=True)
class CoreMLResult(PreprocessResult):
    """A compiled partition, with the properties of its Core ML model that the report lists."""

    target: str = ""
    reason: str = ""  # why the model needs this deployment target
    precision: str = ""
    stored: Mapping[str, Sequence[str]] = field(default_factory=dict)  # maps a precision to the weights in it
    weights: int = 0
    # True if the Neural Engine is allowed but cannot run the model, because an input has a range of sizes.
    has_ranges: bool = False
    shared_by: tuple[str, ...] = ()  # the methods whose functions share the model; () for a model of one method
    # If `blob` contains a compiled model, the blob with the model package; empty if `blob` has the model package.
    package: bytes = b""


def preprocess(program: ExportedProgram, specs: Sequence[CompileSpec]) -> CoreMLResult:
    """Compile one partition into a blob.

    Raises:
        CompileError: coremltools cannot convert the partition, or Apple's compiler cannot compile the model.
    """
    options = CoreMLOptions.from_specs(specs)
    partition = PartitionView(program)
    converted = convert(program, options)
    _check_arguments(partition, converted)
    package, graph = pack(converted.package), graph_of(converted.package)
    is_compiled = options.model_type == "COMPILED_MODEL"
    if options.dump_intermediate_artifacts_to is not None:
        _dump(Path(options.dump_intermediate_artifacts_to).expanduser(), package, converted.log)
    return CoreMLResult(
        blob=compile_model(package) if is_compiled else package,
        named_data=_initial_values(partition),
        debug_handle_map={0: debug_handles(*partition.calls), **_operators(partition, graph)},
        graph=graph if is_compiled else None,
        compatibility=f"{FORMAT} {converted.target}",
        target=converted.target,
        reason=converted.reason,
        precision=options.compute_precision or "the model's precision",
        stored=_stored(program, converted),
        weights=len(converted.package.weights),
        has_ranges=_has_ranges(partition, options),
        package=package if is_compiled else b"",
    )


def _operators(partition: PartitionView, graph: BlobGraph) -> dict[int | str, tuple[int, ...]]:
    """Map each operator that coremltools named after a node of the partition to the node's debug handles."""
    names = {operator.operation for operator in graph.nodes}
    return {node.name: handles for node in partition.calls if node.name in names and (handles := debug_handles(node))}


def _has_ranges(partition: PartitionView, options: CoreMLOptions) -> bool:
    """Return True if the options permit the Neural Engine, but an input has a range of sizes, which it cannot run."""
    free = [node for node in partition.inputs if node.name not in (options.enumerated_shapes or {})]
    sizes = [size for node in free for size in node.meta["val"].shape]
    return options.compute_unit in ("ALL", "CPU_AND_NE") and not all(isinstance(size, int) for size in sizes)


def _check_arguments(partition: PartitionView, converted: Converted) -> None:
    """Check that the model has as many inputs and outputs as the partition: the delegate copies them one by one."""
    for kind, nodes, names in (
        ("inputs", partition.inputs, converted.package.inputs),
        ("outputs", partition.outputs, converted.package.outputs),
    ):
        if len(nodes) != len(names):
            raise CompileError(f"coremltools made a model of {len(names)} {kind} instead of {len(nodes)}")


def _initial_values(partition: PartitionView) -> dict[str, NamedBlob]:
    """Return the initial values of the mutable buffers that do not start as zeros, by the buffer's name."""
    return {
        buffer.name: NamedBlob(memoryview(buffer.initial.detach().contiguous().numpy().data).cast("B"), _ALIGNMENT)
        for buffer in partition.buffers
        if buffer.initial.any()
    }


def _stored(program: ExportedProgram, converted: Converted) -> dict[str, list[str]]:
    with quiet(io.StringIO()):
        from coremltools.proto import Model_pb2
    function = Model_pb2.Model.FromString(converted.package.specification).mlProgram.functions["main"]
    return names_by_precision(program, stored_weights(function))


def _dump(folder: Path, blob: bytes, log: str) -> None:
    """Write the files of a blob, and coremltools' log, into a subfolder that is named after the blob's hash."""
    target = folder / f"coreml-{hashlib.sha256(blob).hexdigest()[:12]}"
    write_files(read_blob(blob, {}), target)
    (target / "coremltools.log").write_text(log, encoding="utf-8")
