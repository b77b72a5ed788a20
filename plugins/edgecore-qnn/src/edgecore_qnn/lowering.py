"""Compile a partition into a blob: build its ONNX model, and compile it with ONNX Runtime's QNN provider."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.plugin import CompileSpec, MemoryNeed, PreprocessResult
from edgecore.sdk import PartitionView, debug_handles, describe
from edgecore_qnn.blob import Header, encode
from edgecore_qnn.onnx_graph import OnnxGraph, lower
from edgecore_qnn.options import QnnOptions
from edgecore_qnn.partitioner import refused_nodes
from edgecore_qnn.provider.process import Answer, ask, dump, is_installed, profile, versions

FORMAT = "qnn-context 1"
"""First words of a blob's compatibility string; the delegate refuses others. The SDK's version and the SoC follow."""

_LETTERS = 12


@dataclass(frozen=True)
class QnnResult(PreprocessResult):
    """A compiled partition with its target, the provider's log, and the profile of its compilation."""

    soc: str = ""
    sdk_build: str = ""
    context_bytes: int = 0
    log: str = ""
    profile: tuple[str, ...] = ()


def preprocess(program: ExportedProgram, specs: Sequence[CompileSpec]) -> QnnResult:
    """Compile one partition into a blob.

    Raises:
        CompileError: The provider is not installed, or cannot compile the partition.
    """
    versions()  # raises an error if onnx or ONNX Runtime's QNN provider is not installed
    options = QnnOptions.from_specs(specs)
    partition = PartitionView(program)
    graph = lower(partition)
    model = graph.to_bytes()
    try:
        answer = ask("compile", model, options.soc, options.provider_options(), seconds=options.timeout)
    except CompileError as error:
        if is_installed() and (refused := refused_nodes(graph, options)):
            node, reason = next(iter(refused.items()))
            raise CompileError(f"{describe(node)}: {reason}") from error
        raise
    header = _header(graph, answer, options)
    blob = encode(header, answer.context)
    table = ""
    if options.profile_level != "off":
        extra = options.provider_options()
        table = profile(model, options.soc, extra, options.profile_level, seconds=options.timeout)
    if options.dump_intermediate_artifacts_to is not None:
        _dump(model, answer, blob, table, options)
    return QnnResult(
        blob=blob,
        debug_handle_map={0: debug_handles(*partition.calls), **graph.debug_handle_map()},
        graph=graph.blob_graph(),
        compatibility=f"{FORMAT} {header.sdk_build} {header.soc}",
        memory=(MemoryNeed("persistent", len(answer.context)),),
        soc=header.soc,
        sdk_build=header.sdk_build,
        context_bytes=len(answer.context),
        log=answer.log,
        profile=tuple(
            f"{row['Event Identifier']}: {row['Time']} {row['Unit of Measurement'].lower()}"
            for row in csv.DictReader(io.StringIO(table))
        ),
    )


def _dump(model: bytes, answer: Answer, blob: bytes, profile_table: str, options: QnnOptions) -> None:
    """Write a delegate's ONNX model, context binary, blob and profile into a folder named after the model's hash."""
    assert options.dump_intermediate_artifacts_to is not None
    name = f"qnn-{options.soc.name}-{hashlib.sha256(model).hexdigest()[:_LETTERS]}"
    folder = Path(options.dump_intermediate_artifacts_to).expanduser() / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in (("model.onnx", model), ("context.bin", answer.context), ("delegate.bin", blob)):
        (folder / file).write_bytes(content)
    if profile_table:
        (folder / "profile.csv").write_text(profile_table, encoding="utf-8")
    dump(model, options.soc, options.provider_options(), folder, seconds=options.timeout)


def _header(graph: OnnxGraph, answer: Answer, options: QnnOptions) -> Header:
    """Return the header of a blob, after checking that the provider kept all inputs and outputs."""
    result = answer.result
    for kind, tensors in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        expected, returned = [tensor.name for tensor in tensors], list(result[kind])
        if sorted(expected) != sorted(returned):
            raise CompileError(f"the QNN provider changed the {kind} of the graph: {returned} instead of {expected}")
    return Header(
        sdk_build=result["sdk_build"],
        core_api=result["core_api"],
        provider=versions()["onnxruntime-qnn"],
        soc=options.soc.name,
        soc_id=options.soc.number,
        htp_arch=options.soc.htp_arch,
        graph=result["graph"],
        partition_name=result["partition_name"],
        inputs=list(graph.inputs),
        outputs=list(graph.outputs),
    )
