"""Find models by their names on the Hugging Face Hub: in the cache of `huggingface_hub`, or by download."""

from __future__ import annotations

import json
import re
from pathlib import Path

from edgecore_llm.errors import CheckpointError

PREFIX = "hf:"
"""A name with this prefix is never taken for a path."""
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
_FILES = ["*.json", "model*.safetensors", "*.jinja", "tokenizer.model"]
"""Files to download, without `consolidated.safetensors`, in which some models store their weights a second time."""


def model_path(model: str | Path) -> Path:
    """Return the path if it exists; else the folder of the Hub's model of that name, downloading it if necessary.

    Raises:
        CheckpointError: The path does not exist, and neither the cache nor the Hub has a model of this name.
    """
    name = str(model).removeprefix(PREFIX)
    if name == str(model) and Path(model).exists():
        return Path(model)
    if not _NAME.fullmatch(name) or Path(name).suffix in (".gguf", ".pth", ".pt", ".pte"):
        raise CheckpointError(f"there is no checkpoint {model}")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise CheckpointError(
            f"there is no checkpoint {model}; for a model of that name on the Hub: pip install huggingface_hub"
        ) from error
    for is_local in (True, False):
        try:
            folder = Path(snapshot_download(name, allow_patterns=_FILES, local_files_only=is_local))
        except Exception as error:  # huggingface_hub also raises exceptions of its HTTP client
            reason = error
            continue
        if not is_local or _is_complete(folder):
            return folder
    raise CheckpointError(
        f"there is no checkpoint {model}, and a model of that name is neither in the cache of huggingface_hub nor can "
        f"it be downloaded ({type(reason).__name__}); with a network: hf download {name}"
    ) from reason


def _is_complete(folder: Path) -> bool:
    """Return True if the cache has all files of a model; other programs may have downloaded only some of them."""
    if not (folder / "config.json").is_file():
        return False
    if (folder / _WEIGHTS).is_file():
        return True
    try:
        names = json.loads((folder / _INDEX).read_text(encoding="utf-8"))["weight_map"].values()
        return all((folder / name).is_file() for name in names)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False
