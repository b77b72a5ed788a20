"""`edgecore extract`: the parts of a file as files of their own. Needs neither torch nor the backends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgecore.cli.common import AnyFile, read_any, read_file
from edgecore.errors import EdgecoreError

if TYPE_CHECKING:
    from edgecore.format import Buffer, PtdFile, PteFile, Tensor


def command(
    file: AnyFile,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="FOLDER", help="A folder to make; by default FILE without its ending."),
    ] = None,
) -> None:
    """Write delegates' blobs, named data and constants as files, and index.json, which says what each one is."""
    from edgecore.format import PtdFile

    content = read_any(file)
    folder = into or file.with_suffix("")
    if folder.exists():
        raise EdgecoreError(f"{folder} exists already; remove it, or choose another folder with --into")
    parts = _of_data(content) if isinstance(content, PtdFile) else _of_program(read_file(file))
    folder.mkdir(parents=True)
    index: dict[str, Any] = {"file": file.name}
    for kind, entries in parts.items():
        (folder / kind).mkdir()
        index[kind] = [_write(folder, kind, number, *entry) for number, entry in enumerate(entries)]
    # Last: a folder without it is not complete.
    (folder / "index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    print(f"{folder}: {', '.join(f'{len(index[kind])} {kind}' for kind in parts)}, index.json")


Entry = tuple[str, "Buffer", dict[str, Any]]
"""A name for people, the bytes, and what the index says of them."""


def _write(folder: Path, kind: str, number: int, name: str, data: Buffer, facts: dict[str, Any]) -> dict[str, Any]:
    import hashlib

    # Names come from the file: nothing of them may lead out of the folder, or be no name of a file.
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:60].strip(".")
    path = f"{kind}/{number:04}{'-' if safe else ''}{safe}.bin"
    (folder / path).write_bytes(data)
    return facts | {"path": path, "bytes": memoryview(data).nbytes, "sha256": hashlib.sha256(data).hexdigest()}


def _of_data(ptd: PtdFile) -> dict[str, list[Entry]]:
    from edgecore.cli.describe import describe_data

    facts = {row.pop("key"): row for row in describe_data(ptd)["data"]}
    return {"data": [(key, ptd.entries[key].data, {"key": key} | facts[key]) for key in sorted(facts)]}


def _of_program(pte: PteFile) -> dict[str, list[Entry]]:
    from edgecore.cli.blobs import blob_users

    blobs: list[Entry] = []
    for number, blob in enumerate(pte.delegate_blobs):
        backend_id, delegates = blob_users(pte, number)
        specs = _specs(pte, number)
        facts: dict[str, Any] = {"backend_id": backend_id, "delegates": delegates, "compile_specs": specs}
        facts |= _origin(pte, delegates[0])
        blobs.append((backend_id, blob, facts))
    named: list[Entry] = [(key, data.data, {"key": key}) for key, data in sorted(pte.named_data.items())]
    users = _users_of_constants(pte)
    constants: list[Entry] = []
    for number, data in enumerate(pte.constants[1:], 1):
        tensor, names = users.get(number, (None, []))
        facts = {"index": number, "values": names} | (_layout(tensor) if tensor else {})
        constants.append((names[0] if names else "", _without_padding(data, tensor), facts))
    return {"blobs": blobs, "named_data": named, "constants": constants}


def _specs(pte: PteFile, index: int) -> dict[str, str]:
    """Compile specs of the first delegate that has this blob: key to hexadecimal digits."""
    for plan in pte.program.execution_plan:
        for delegate in plan.delegates:
            if delegate.processed is not None and delegate.processed.index == index:
                return {spec.key: bytes(spec.value).hex() for spec in delegate.compile_specs}
    return {}


def _origin(pte: PteFile, delegate: str) -> dict[str, str]:
    """Which package compiled a delegate (`method/number`), if the file says so."""
    from edgecore.format import get_meta

    method, _, number = delegate.rpartition("/")
    meta = get_meta(pte)
    made = meta.method(method) if meta else None
    if made is None or int(number) >= len(made.delegates):
        return {}
    one = made.delegates[int(number)]
    return {"made_by": f"{one.distribution} {one.distribution_version}", "compatibility": one.compatibility}


def _users_of_constants(pte: PteFile) -> dict[int, tuple[Tensor, list[str]]]:
    """Of each constant that tensors refer to: the first of them, and their names."""
    from edgecore.format import Tensor

    users: dict[int, tuple[Tensor, list[str]]] = {}
    for plan in pte.program.execution_plan:
        for number, value in enumerate(plan.values):
            tensor = value.val
            if isinstance(tensor, Tensor) and tensor.data_buffer_idx and tensor.allocation_info is None:
                info = tensor.extra_tensor_info
                name = info.fully_qualified_name if info and info.fully_qualified_name else f"{plan.name}/{number}"
                users.setdefault(tensor.data_buffer_idx, (tensor, []))[1].append(name)
    return users


def _layout(tensor: Tensor) -> dict[str, Any]:
    return {
        "dtype": tensor.scalar_type.dtype_name,
        "shape": list(tensor.sizes),
        "dim_order": list(tensor.dim_order),
    }


def _without_padding(data: Buffer, tensor: Tensor | None) -> Buffer:
    """A constant may be followed by up to 15 bytes of padding."""
    from math import prod

    from edgecore.format import SCALAR_TYPE_SIZES

    view = memoryview(data).cast("B")
    if tensor is None or tensor.scalar_type not in SCALAR_TYPE_SIZES:
        return view
    size = prod(tensor.sizes) * SCALAR_TYPE_SIZES[tensor.scalar_type]
    return view[:size] if 0 <= size <= len(view) < size + 16 else view
