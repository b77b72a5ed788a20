"""Models by the names that `transformers` takes, in the cache of `huggingface_hub`."""

from __future__ import annotations

import re
from pathlib import Path

from edgecore_llm.errors import CheckpointError

PREFIX = "hf:"
"""A name that begins so is never a path."""
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_FILES = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model"]


def model_path(model: str | Path) -> Path:
    """Return the path of a model: a path that exists, or the folder of a name in the cache, to which it is downloaded.

    Raises:
        CheckpointError: There is no such path, and no such model in the cache or on the Hub.
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
            found = Path(snapshot_download(name, allow_patterns=_FILES, local_files_only=is_local))
        except Exception as error:  # the package raises those of its HTTP client, too
            reason = error
            continue
        if (found / "config.json").exists():
            return found
        reason = CheckpointError("it has no config.json")
    raise CheckpointError(
        f"there is no checkpoint {model}, and a model of that name is neither in the cache of huggingface_hub nor can it be "
        f"downloaded ({type(reason).__name__}); with a network: hf download {name}"
    ) from reason
