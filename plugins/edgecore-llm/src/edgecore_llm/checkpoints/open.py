"""Open a checkpoint of a language model in any supported format."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from edgecore_llm.checkpoints.gguf import GgufCheckpoint
from edgecore_llm.checkpoints.huggingface import HuggingFaceFolder
from edgecore_llm.checkpoints.meta import MetaCheckpoint, QuantizationMethod
from edgecore_llm.errors import CheckpointError
from edgecore_llm.model.config import DecoderConfig
from edgecore_llm.model.layers import Precision
from edgecore_llm.model.load import QuantizedWeights, Weights


class Checkpoint(Weights, Protocol):
    """A language model in files: its weights, configuration, end-of-text tokens and chat template."""

    @property
    def config(self) -> DecoderConfig:
        """The model's configuration."""
        ...

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The ids of the tokens that end a text; () if the files do not tell them."""
        ...

    @property
    def chat_template(self) -> str | None:
        """The model's chat template in Jinja; None if there is none."""
        ...


def open_checkpoint(
    path: str | Path, params: str | Path | None = None, method: QuantizationMethod | None = None
) -> Checkpoint:
    """Open a checkpoint: a Hugging Face folder, a GGUF file, or (with `params`) a `.pth` file.

    Args:
        path: The folder or file.
        params: The file with the parameters of a `.pth` file.
        method: How a `.pth` file was quantized, if the file with its parameters does not tell.

    Raises:
        CheckpointError: A file is missing or damaged.
    """
    path = Path(path)
    if not path.exists():
        raise CheckpointError(f"there is no checkpoint {path}")
    if params is not None:
        return MetaCheckpoint(Path(params), path, method)
    if method is not None:
        raise CheckpointError(f"{path} is no .pth file with --params, so {method} is no method of it")
    if path.is_dir():
        return HuggingFaceFolder(path)
    if path.suffix in (".pth", ".pt"):
        raise CheckpointError(f"{path} needs the file with the parameters of the model, such as params.json")
    return GgufCheckpoint(path)


def stored_precision(checkpoint: Checkpoint) -> Precision | None:
    """Return the bits of a quantized checkpoint, whose integers an export keeps; None if it is not quantized."""
    return checkpoint.precision if isinstance(checkpoint, QuantizedWeights) else None
