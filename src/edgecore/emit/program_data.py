"""Data that all methods of a file share: constants, delegates' blobs and named data. Equal data is stored once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from edgecore import format as fmt
from edgecore.emit.constant_data import ConstantData, equal_bytes
from edgecore.emit.external import Rule
from edgecore.errors import CompileError
from edgecore.ir.dialect.dtypes import scalar_type
from edgecore.plugin import PreprocessResult


@dataclass
class ProgramData:
    """Collects the data of one `.pte` file, and of its `.ptd` files (`external`, by name).

    `rule` chooses the constants to store in a `.ptd` file.
    """

    rule: Rule | None = None
    alignments: fmt.Alignments = fmt.DEFAULT_ALIGNMENTS
    constants: list[fmt.Buffer] = field(default_factory=lambda: [b""])
    mutable: list[fmt.Buffer] = field(default_factory=list)
    blobs: list[fmt.Buffer] = field(default_factory=list)
    named_data: dict[str, fmt.NamedBlob] = field(default_factory=dict)
    external: dict[str, fmt.PtdFile] = field(default_factory=dict)
    _constant_data: ConstantData = field(default_factory=ConstantData)
    _digests: dict[int, bytes] = field(default_factory=dict)  # `id` of a bytes object -> its SHA-256
    _constant_of: dict[int, int] = field(default_factory=dict)  # `id` of a buffer -> its index in `constants`
    _state_of: dict[int, int] = field(default_factory=dict)  # `id` of a buffer -> its index in `mutable`

    def constant(self, tensor: torch.Tensor, order: tuple[int, ...]) -> int:
        """Store a constant in dim order `order`, and return its `data_buffer_idx`."""
        return _index(self._constant_data.of(tensor, order), self.constants, self._constant_of)

    def initial_state(self, tensor: torch.Tensor, order: tuple[int, ...]) -> int:
        """Store the initial content of a mutable buffer, and return its `data_buffer_idx`."""
        if not self.mutable:
            self.mutable.append(b"")
        return _index(self._constant_data.of(tensor, order), self.mutable, self._state_of)

    def external_constant(self, file: str, name: str, method: str, tensor: torch.Tensor, order: tuple[int, ...]) -> str:
        """Store a constant in the `.ptd` file `file`, and return its key.

        The key is the qualified name, or `NAME@METHOD` if another method has a different constant of that name.

        Raises:
            CompileError: Methods put the same constant into different files, or both keys belong to other constants.
        """
        layout = fmt.TensorLayout(scalar_type(tensor.dtype), list(tensor.shape), list(order))
        entry = fmt.ExternalData(self._constant_data.of(tensor, order), layout, self.alignments.constant)
        for key in (name, f"{name}@{method}"):
            other_file, existing = self._find(key)
            if existing is None:
                self._file(file).entries[key] = entry
                return key
            if existing.data is entry.data and existing.layout == layout:
                if other_file != file:
                    raise CompileError(
                        f"external_constants puts {name} into {file}.ptd for method {method}, and into "
                        f"{other_file}.ptd for another method; choose the same file for both"
                    )
                return key
        raise CompileError(f"three different constants have the name {name}; rename one of the buffers")

    def _file(self, name: str) -> fmt.PtdFile:
        return self.external.setdefault(name, fmt.PtdFile(alignments=self.alignments))

    def _find(self, key: str) -> tuple[str, fmt.ExternalData | None]:
        """Return the `.ptd` file that has a key, and the entry; ("", None) if no file has the key."""
        for file, ptd in self.external.items():
            if key in ptd.entries:
                return file, ptd.entries[key]
        return "", None

    def delegate(self, backend_id: str, result: PreprocessResult, files: Mapping[str, str]) -> int:
        """Store a delegate's blob and named data, and return the index of the blob.

        `files` maps keys to `.ptd` files. Named data with any other key is stored in the `.pte`.

        Raises:
            CompileError: The file already has other bytes under a key.
        """
        for key, blob in result.named_data.items():
            existing = self.named_data.get(key) or self._find(key)[1]
            if existing is not None:
                if not equal_bytes(existing.data, blob.data):
                    raise CompileError(
                        f"backend {backend_id} uses the named-data key {key!r}, under which the file has other bytes "
                        "already; keys must be unique, for example by a hash of the bytes"
                    )
            elif key in files:
                entry = fmt.ExternalData(blob.data, None, blob.alignment)
                self._file(files[key]).entries[key] = entry
            else:
                self.named_data[key] = fmt.NamedBlob(blob.data, blob.alignment)
            if existing is None and blob.sha256:
                self._digests[id(blob.data)] = blob.sha256
        self.blobs.append(result.blob)
        return len(self.blobs) - 1

    def digests(self) -> list[fmt.DataDigest]:
        """Return the SHA-256 of all named data of the `.pte` and its `.ptd` files, sorted by key."""
        entries = {key: blob.data for key, blob in self.named_data.items()}
        entries |= {key: entry.data for ptd in self.external.values() for key, entry in ptd.entries.items()}
        for data in entries.values():
            if id(data) not in self._digests:  # several keys may share a bytes object, which is hashed only once
                self._digests[id(data)] = fmt.blob_digest(data)
        return [fmt.DataDigest(key, self._digests[id(entries[key])]) for key in sorted(entries)]


def _index(data: fmt.Buffer, buffers: list[fmt.Buffer], indices: dict[int, int]) -> int:
    """Return the index of `data` in `buffers`; append it if new. Equal data is one object, so `id` identifies it."""
    if id(data) not in indices:
        indices[id(data)] = len(buffers)
        buffers.append(data)
    return indices[id(data)]
