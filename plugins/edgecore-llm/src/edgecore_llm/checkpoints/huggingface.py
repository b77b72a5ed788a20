"""Checkpoints in folders of Hugging Face: `config.json`, and safetensors in one file or in shards with an index."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

from edgecore_llm.checkpoints.json_files import chat_template_of, read_json, read_json_if_there, token_ids
from edgecore_llm.errors import CheckpointError
from edgecore_llm.families import decoder_config
from edgecore_llm.model.config import DecoderConfig

_FLOATS = {"F64", "F32", "F16", "BF16"}
_PREFIXES = ("language_model.model.", "model.language_model.", "language_model.", "model.")
"""Prefixes of the decoder's tensor names; multimodal models have longer ones."""


class HuggingFaceFolder:
    """A checkpoint in a folder with `config.json` and safetensors; tensors are read on demand.

    The constructor checks that all files exist, and that each is as long as its header says.

    Raises:
        CheckpointError: A file is missing or damaged.
    """

    has_norm_offset = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.values = read_json(folder / "config.json")
        self._tensors: dict[str, tuple[Path, str, tuple[int, ...], str]] = {}
        for path, header in self._headers().items():
            for name, entry in header.items():
                self._tensors[_short_name(name)] = (path, name, tuple(entry["shape"]), entry["dtype"])
        # Map one file at a time into memory, because all pages read from a mapped file count as memory of the process.
        self._opened: tuple[Path, Any] | None = None

    @cached_property
    def config(self) -> DecoderConfig:
        """The model's configuration."""
        return decoder_config(self.values)

    @cached_property
    def eos_ids(self) -> tuple[int, ...]:
        """The ids of the tokens that end a text."""
        generation = read_json_if_there(self.folder / "generation_config.json")
        return token_ids(generation.get("eos_token_id")) or token_ids(self.values.get("eos_token_id"))

    @property
    def chat_template(self) -> str | None:
        """The model's chat template in Jinja; None if the folder has none."""
        return chat_template_of(self.folder)

    def names(self) -> Sequence[str]:
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name][2]

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Tensor:
        path, full_name, _, dtype = self._tensors[name]
        if dtype not in _FLOATS:
            raise CheckpointError(f"tensor {full_name!r} in {path} has dtype {dtype}, which is not supported")
        if self._opened is None or self._opened[0] != path:
            self._opened = path, safe_open(path, framework="pt")
        rows: Tensor = self._opened[1].get_slice(full_name)[start:stop]
        return rows

    def _headers(self) -> dict[Path, dict[str, dict[str, Any]]]:
        """Return the tensor entries (name -> shape, dtype, offsets) of each safetensors file of the folder."""
        index = self.folder / "model.safetensors.index.json"
        if not index.exists():
            if not (single := self.folder / "model.safetensors").exists():
                raise CheckpointError(f"{self.folder} has no model.safetensors and no {index.name}")
            return {single: _header(single)}
        places = read_json(index).get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(place, str) for place in places.values()):
            raise CheckpointError(f"{index} has no weight_map from tensors to files")
        for name in sorted(set(places.values())):
            if Path(name).name != name:
                raise CheckpointError(f"{index} names a file outside of its folder: {name!r}")
            if not (self.folder / name).exists():
                raise CheckpointError(
                    f"{self.folder} lacks the shard {name!r}, which {index.name} names; download it again"
                )
        headers = {name: _header(self.folder / name) for name in sorted(set(places.values()))}
        for tensor, name in places.items():
            if tensor not in headers[name]:
                raise CheckpointError(f"{self.folder / name} lacks tensor {tensor!r}, which {index.name} places there")
        return {self.folder / name: header for name, header in headers.items()}


def _short_name(name: str) -> str:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _header(path: Path) -> dict[str, dict[str, Any]]:
    """Return the tensor entries of a safetensors file's header, after checking that the file has all of their data.

    Raises:
        CheckpointError: The file is truncated or damaged.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise CheckpointError(f"{path} is truncated or no safetensors file: it ends within its header")
        try:
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
            is_complete = 8 + length + end == size
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise CheckpointError(f"{path} has a damaged header") from error
    if not is_complete:
        raise CheckpointError(
            f"{path} is truncated or damaged: by its header it has {8 + length + end} bytes, but there are {size}; "
            "download it again"
        )
    return dict(header)
