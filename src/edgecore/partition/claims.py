"""Decide which mutable buffers a backend may hold inside its delegates, and give a reason for each refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.ir.delegate import delegates, is_delegate_call, module_of
from edgecore.ir.dialect.dtypes import dtype_name
from edgecore.ir.graph import describe
from edgecore.ir.program.mutable_state import MutableBuffer, mutable_buffers
from edgecore.partition.protocol import REFUSED, TAG, PartitionResult


def claimable_buffers(program: ExportedProgram) -> list[MutableBuffer]:
    """List the mutable buffers that a tagged node uses, which a partitioner may claim after it has set its tags.

    If nodes outside of the backend use a claimed buffer, edgecore refuses the claim and reports the reason. Then it
    calls the partitioner again, and this function omits the buffer.

    Args:
        program: The argument of `Partitioner.partition`.

    Returns:
        The buffers. Put the names of those that the backend can hold into `PartitionResult.claimed_buffers`.

    Example:
        >>> claimed = [buffer.name for buffer in claimable_buffers(program) if buffer.initial.dtype == torch.float32]
    """
    return [
        buffer for buffer in mutable_buffers(program) if REFUSED not in buffer.node.meta and any(map(_tag, buffer.uses))
    ]


def _tag(node: Node) -> str | None:
    return node.meta.get(TAG) if node.op == "call_function" else None


def _conflict(buffer: MutableBuffer) -> str | None:
    """Return why a backend cannot keep a mutable buffer's content, given its uses in one program; None if it can."""
    if buffer.update.op == "placeholder" and buffer.is_written:
        return f"its new content is the input {buffer.update.name}, which no operator computes"
    results = buffer.node.graph.output_node().args[0]
    if list(results).count(buffer.node) > (0 if buffer.is_written else 1):  # type: ignore[arg-type]
        return "the method returns it"
    tags = {use: _tag(use) for use in buffer.uses}
    outside = next((use for use, tag in tags.items() if tag is None), None)
    if outside is not None:
        return f"{_user(outside)} uses it outside of the backend"
    names = sorted({str(tag) for tag in tags.values()})
    if buffer.is_written and len(names) > 1:
        return f"{len(names)} partitions use it, {', '.join(names)}, and one of them writes it"
    return None


def _user(node: Node) -> str:
    if not is_delegate_call(node):
        return describe(node)
    return f"a delegate of {module_of(node).backend_id}"


@dataclass
class Claims:
    """The decisions about claims. With a claim, a partitioner asks that its backend keep the state of a mutable buffer.

    Attributes:
        granted: Qualified names of the buffers whose state the backend will keep.
        refused: Qualified name of a claimed buffer -> the reason why the backend will not keep its state.
    """

    granted: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)


def settle_claims(
    programs: Mapping[str, ExportedProgram], results: Mapping[str, PartitionResult | None], refused: Mapping[str, str]
) -> Claims:
    """Grant or refuse each claim: the request of a partitioner that its backend keep the state of a mutable buffer.

    A claim is granted under three conditions. In every method, all uses of the buffer are in one partition of the
    backend, or in several partitions that only read the buffer. The partitioner claims the buffer in every method that
    uses the buffer. The dtype, shape and initial content are the same in all methods.

    Args:
        programs: All methods, with tags.
        results: Method -> result of its partitioner; methods without a partitioner may be missing.
        refused: Buffers that were refused before -> the reasons. Their claims are ignored.

    Raises:
        CompileError: A partitioner claims something other than a mutable buffer.
    """
    by_method = {method: {buffer.name: buffer for buffer in mutable_buffers(programs[method])} for method in programs}
    claimed = {method: set(result.claimed_buffers) if result else set() for method, result in results.items()}
    for method, names in claimed.items():
        for name in sorted(names - by_method[method].keys()):
            raise CompileError(
                f"a partitioner claims {name!r}, which is no mutable buffer of method {method}; claim buffers that "
                "claimable_buffers lists"
            )
    claims = Claims()
    for name in sorted(set().union(*claimed.values()) - refused.keys()):
        reason = _reason(
            {method: buffers[name] for method, buffers in by_method.items() if name in buffers}, results, claimed, name
        )
        if reason is None:
            claims.granted.add(name)
        else:
            claims.refused[name] = reason
    return claims


def _reason(
    buffers: Mapping[str, MutableBuffer],
    results: Mapping[str, PartitionResult | None],
    claimed: Mapping[str, set[str]],
    name: str,
) -> str | None:
    """Return the reason why no backend can keep the state of a buffer, or None; `buffers` maps methods to buffers."""
    backends: dict[str, str] = {}
    first = next(iter(buffers))
    for method, buffer in buffers.items():
        where = f"in method {method} " if len(buffers) > 1 else ""
        result = results.get(method)
        if reason := _conflict(buffer):
            return where + reason
        if buffer.uses and (result is None or name not in claimed[method]):
            return f"method {method} uses it and does not claim it"
        for use in buffer.uses:
            backends.setdefault(result.partition_tags[use.meta[TAG]].backend_id, method)  # type: ignore[union-attr]
        if difference := _difference(buffers[first], buffer):
            return f"its {difference} in method {method} is not that in method {first}"
    if not backends:
        return "no operator uses it"
    if len(backends) > 1:
        return f"partitions of {' and '.join(sorted(backends))} use it"
    return None


def _difference(a: MutableBuffer, b: MutableBuffer) -> str:
    if a.initial.dtype != b.initial.dtype:
        return f"dtype {dtype_name(b.initial.dtype)}"
    if a.initial.shape != b.initial.shape:
        return f"shape {list(b.initial.shape)}"
    same = a.initial is b.initial or torch.equal(a.initial, b.initial)
    return "" if same else "initial content"


def held_buffers(program: ExportedProgram) -> dict[str, tuple[MutableBuffer, str]]:
    """Return qualified name -> (buffer, backend id) of the mutable buffers whose content delegates keep."""
    return {
        buffer.name: (buffer, module.backend_id) for _, module in delegates(program) for buffer in module.held_buffers
    }
