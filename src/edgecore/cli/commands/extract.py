"""`edgecore extract`: write the parts of a file as separate files. Needs neither torch nor backends.

A blob that holds a folder, such as a Core ML model package, is unpacked as well if its backend is installed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgecore.cli.common import AnyFile, Json, print_json, read_any, read_file
from edgecore.errors import EdgecoreError
from edgecore.files import new_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgecore.format import Buffer, PtdFile, PteFile, Tensor


def command(
    file: AnyFile,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into", metavar="FOLDER", help="New folder for the files; by default FILE without its extension."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write delegates' blobs, named data and constants as separate files, and index.json, which describes each file."""
    from edgecore.format import PtdFile

    content = read_any(file)
    folder = into or file.with_suffix("")
    if folder.exists():
        raise EdgecoreError(f"{folder} exists already; remove it, or choose another folder with --into")
    if isinstance(content, PtdFile):
        parts, named_data = _of_data(content), {}
    else:
        program = read_file(file)
        parts, named_data = _of_program(program), program.named_data
    index: dict[str, Any] = {"file": file.name}
    with new_folder(folder) as place:
        for kind, entries in parts.items():
            (place / kind).mkdir()
            index[kind] = [_write(place, kind, number, *entry) for number, entry in enumerate(entries)]
            if kind == "blobs":
                rows = zip(index[kind], entries, strict=True)
                index[kind] = [_unpack(place, row, entry[1], named_data) for row, entry in rows]
        (place / "index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    if as_json:
        print_json({"folder": str(folder), **index})
        return
    print(f"{folder}: {', '.join(f'{len(index[kind])} {kind}' for kind in parts)}, index.json")


Entry = tuple[str, "Buffer", dict[str, Any]]
"""One part of a file, to be written as a file: a readable name, the bytes, and their description in the index."""


def _write(folder: Path, kind: str, number: int, name: str, data: Buffer, facts: dict[str, Any]) -> dict[str, Any]:
    import hashlib

    # The name comes from an untrusted file: replace path separators and all characters that file names may not have.
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:60].strip(".")
    path = f"{kind}/{number:04}{'-' if safe else ''}{safe}.bin"
    (folder / path).write_bytes(data)
    return facts | {"path": path, "bytes": memoryview(data).nbytes, "sha256": hashlib.sha256(data).hexdigest()}


def _unpack(folder: Path, row: dict[str, Any], blob: Buffer, named_data: Mapping[str, Any]) -> dict[str, Any]:
    """Write the files inside a blob NAME.bin into a folder NAME; return `row`, an entry of index.json, plus that
    folder.

    If the backend cannot read the blob, the row says why. If the backend is not installed, the row is unchanged.
    """
    from importlib import import_module

    from edgecore.errors import BackendError
    from edgecore.plugin.registry import find

    try:
        name = find(row["backend_id"]).unpack
        if name is None:
            return row
        module, _, function = name.partition(":")
        files = getattr(import_module(module), function)(bytes(blob), named_data)
    except BackendError:
        return row
    except EdgecoreError as error:
        return row | {"not_unpacked": str(error)}
    inside = row["path"].removesuffix(".bin")
    for path, content in files.items():
        target = (folder / inside / path).resolve()
        if not target.is_relative_to((folder / inside).resolve()):
            raise EdgecoreError(
                f"the backend {row['backend_id']} returned the path {path!r}, which leads out of the folder"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return row | {"unpacked": inside}


def _of_data(ptd: PtdFile) -> dict[str, list[Entry]]:
    from edgecore.devtools.describe import describe_data

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
    """Return the compile specs of the first delegate that uses blob `index`: key to value in hexadecimal digits."""
    for plan in pte.program.execution_plan:
        for delegate in plan.delegates:
            if delegate.processed is not None and delegate.processed.index == index:
                return {spec.key: bytes(spec.value).hex() for spec in delegate.compile_specs}
    return {}


def _origin(pte: PteFile, delegate: str) -> dict[str, str]:
    """Return the package that compiled a delegate (`method/number`), and its compatibility string; {} if unknown."""
    from edgecore.format import get_meta

    method, _, number = delegate.rpartition("/")
    meta = get_meta(pte)
    method_meta = meta.method(method) if meta else None
    if method_meta is None or int(number) >= len(method_meta.delegates):
        return {}
    delegate_meta = method_meta.delegates[int(number)]
    package = f"{delegate_meta.distribution} {delegate_meta.distribution_version}"
    return {"made_by": package, "compatibility": delegate_meta.compatibility}


def _users_of_constants(pte: PteFile) -> dict[int, tuple[Tensor, list[str]]]:
    """Map the index of each constant to the first tensor that refers to it, and to the names of all such tensors."""
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
    """Remove the padding of up to 15 bytes that may follow a constant in the file."""
    from math import prod

    from edgecore.format import SCALAR_TYPE_SIZES

    view = memoryview(data).cast("B")
    if tensor is None or tensor.scalar_type not in SCALAR_TYPE_SIZES:
        return view
    size = prod(tensor.sizes) * SCALAR_TYPE_SIZES[tensor.scalar_type]
    return view[:size] if 0 <= size <= len(view) < size + 16 else view
