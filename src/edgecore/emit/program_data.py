"""What the methods of one program share: constants, delegate blobs and named data, each stored once a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from edgecore import format as fmt
from edgecore.emit.constant_data import ConstantData, equal_bytes
from edgecore.emit.external import Rule
from edgecore.errors import CompileError
from edgecore.ir.dtypes import scalar_type
from edgecore.plugin import PreprocessResult


@dataclass
class ProgramData:
    """The data of a `.pte` in the making, and of the `.ptd` files beside it by name.

    `rule` chooses the constants that go to a `.ptd`.
    """

    rule: Rule | None = None
    constants: list[fmt.Buffer] = field(default_factory=lambda: [b""])
    mutable: list[fmt.Buffer] = field(default_factory=list)
    blobs: list[fmt.Buffer] = field(default_factory=list)
    named_data: dict[str, fmt.NamedBlob] = field(default_factory=dict)
    external: dict[str, fmt.PtdFile] = field(default_factory=dict)
    _constant_data: ConstantData = field(default_factory=ConstantData)
    _digests: dict[int, bytes] = field(default_factory=dict)  # by the identity of named data and external data
    _constant_of: dict[int, int] = field(default_factory=dict)
    _state_of: dict[int, int] = field(default_factory=dict)

    def constant(self, tensor: torch.Tensor, order: tuple[int, ...]) -> int:
        """`data_buffer_idx` of a constant laid out in dim order `order`."""
        return _index(self._constant_data.of(tensor, order), self.constants, self._constant_of)

    def initial_state(self, tensor: torch.Tensor, order: tuple[int, ...]) -> int:
        """`data_buffer_idx` of the initial content of a mutable tensor."""
        if not self.mutable:
            self.mutable.append(b"")
        return _index(self._constant_data.of(tensor, order), self.mutable, self._state_of)

    def external_constant(self, file: str, name: str, method: str, tensor: torch.Tensor, order: tuple[int, ...]) -> str:
        """The key of a constant in the file `file`: its qualified name, unless another constant has it already."""
        layout = fmt.TensorLayout(scalar_type(tensor.dtype), list(tensor.shape), list(order))
        entry = fmt.ExternalData(self._constant_data.of(tensor, order), layout, fmt.CONSTANT_ALIGNMENT)
        for key in (name, f"{name}@{method}"):
            place, known = self._find(key)
            if known is None:
                self.external.setdefault(file, fmt.PtdFile()).entries[key] = entry
                return key
            if known.data is entry.data and known.layout == layout:
                if place != file:
                    raise CompileError(
                        f"external_constants puts {name} into {file}.ptd for method {method}, "
                        f"and for another method into {place}.ptd"
                    )
                return key
        raise CompileError(f"the name {name} stands for three different constants; rename one of the buffers")

    def _find(self, key: str) -> tuple[str, fmt.ExternalData | None]:
        for file, ptd in self.external.items():
            if key in ptd.entries:
                return file, ptd.entries[key]
        return "", None

    def delegate(self, backend_id: str, result: PreprocessResult, files: Mapping[str, str]) -> int:
        """Index of a delegate's blob; its named data join the `.pte`'s, those with a file in `files` that file's."""
        for key, blob in result.named_data.items():
            known = self.named_data.get(key) or self._find(key)[1]
            if known is not None:
                if not equal_bytes(known.data, blob.data):
                    raise CompileError(f"{backend_id} uses the named-data key {key!r}, which holds other bytes already")
            elif key in files:
                entry = fmt.ExternalData(blob.data, None, blob.alignment)
                self.external.setdefault(files[key], fmt.PtdFile()).entries[key] = entry
            else:
                self.named_data[key] = fmt.NamedBlob(blob.data, blob.alignment)
            if known is None and blob.sha256:
                self._digests[id(blob.data)] = blob.sha256
        self.blobs.append(result.blob)
        return len(self.blobs) - 1

    def digests(self) -> list[fmt.DataDigest]:
        """SHA-256 of all named data, of the `.pte` and of its `.ptd` files, by key."""
        entries = {key: blob.data for key, blob in self.named_data.items()}
        entries |= {key: entry.data for ptd in self.external.values() for key, entry in ptd.entries.items()}
        for data in entries.values():
            if id(data) not in self._digests:  # keys may share their bytes
                self._digests[id(data)] = fmt.blob_digest(data)
        return [fmt.DataDigest(key, self._digests[id(entries[key])]) for key in sorted(entries)]


def _index(data: fmt.Buffer, buffers: list[fmt.Buffer], indices: dict[int, int]) -> int:
    if id(data) not in indices:
        indices[id(data)] = len(buffers)
        buffers.append(data)
    return indices[id(data)]
