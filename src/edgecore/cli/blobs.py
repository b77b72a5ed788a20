"""Describe the delegate blobs of a file for `edgecore inspect --blobs`. Each backend's compiler describes its blobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgecore.cli.common import sentence
from edgecore.errors import BackendError, EdgecoreError

if TYPE_CHECKING:
    from edgecore.format import PteFile


def describe_blobs(pte: PteFile, index: int | None) -> list[dict[str, Any]]:
    """Describe the delegate blobs of a file.

    Args:
        pte: The file.
        index: Index of the only blob to describe; None for all blobs.

    Returns:
        One dict for each blob, with the keys `blob` (its index), `backend_id`, `bytes` (its size), `delegates`, `lines`
        (the description) and `problem` (why there is no description).

    Raises:
        EdgecoreError: The file has no blob with this index.
    """
    count = len(pte.delegate_blobs)
    if index is not None and not 0 <= index < count:
        raise EdgecoreError(f"there is no blob {index}: the file has {f'0 to {count - 1}' if count else 'none'}")
    selected = range(count) if index is None else [index]
    return [_describe(pte, number) for number in selected]


def blob_users(pte: PteFile, index: int) -> tuple[str, list[str]]:
    """Return the backend id of a blob, and the delegates that use the blob, as `METHOD/INDEX_IN_METHOD`."""
    users = [
        (delegate.id, f"{plan.name}/{number}")
        for plan in pte.program.execution_plan
        for number, delegate in enumerate(plan.delegates)
        if delegate.processed is not None and delegate.processed.index == index
    ]
    return users[0][0], [name for _, name in users]


def _describe(pte: PteFile, index: int) -> dict[str, Any]:
    blob = bytes(pte.delegate_blobs[index])
    backend_id, delegates = blob_users(pte, index)
    row: dict[str, Any] = {"blob": index, "backend_id": backend_id, "bytes": len(blob), "delegates": delegates}
    lines, row["problem"] = _open(backend_id, blob, pte.named_data)
    return row | {"lines": lines}


def _open(backend_id: str, blob: bytes, named_data: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return the description of a blob by its backend, or the reason why there is no description."""
    from edgecore.plugin.registry import find, load_compiler

    try:
        compiler = load_compiler(find(backend_id))
    except BackendError as error:
        return [], sentence(error)
    from edgecore.plugin import BlobReader

    if not isinstance(compiler, BlobReader):
        return [], f"backend {backend_id!r} cannot describe its blobs"
    try:
        return list(compiler.describe_blob(blob, named_data)), ""
    except EdgecoreError as error:
        return [], sentence(error)
    except Exception as error:
        return [], f"backend {backend_id!r} failed to describe the blob: {type(error).__name__}: {error}"
