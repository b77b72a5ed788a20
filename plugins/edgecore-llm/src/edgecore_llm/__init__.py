"""Language models for edgecore. Running a `.pte` imports this module, so it must not import torch."""

from __future__ import annotations

from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore_llm.export import ExportOptions
    from edgecore_llm.pretrained import EdgecoreModelForCausalLM


def kernels_library() -> str:
    """Return the path of the library with this package's kernels; pyproject.toml names this function."""
    return str(Path(__file__).resolve().parent / "libedgecore_llm.so")


def from_pretrained(
    name_or_path: str | Path,
    *,
    tokenizer: str | Path | None = None,
    options: ExportOptions | None = None,
    file: str | Path | None = None,
    threads: int | None = None,
) -> EdgecoreModelForCausalLM:
    """Load a language model from a `.pte` file, or export a checkpoint to one and load it.

    Args:
        name_or_path: A `.pte` file, a folder with a `model.pte`, or a checkpoint: a Hugging Face folder, a name on its
            Hub, or a GGUF file.
        tokenizer: The folder or file of the tokenizer; by default, the tokenizer in the checkpoint, or beside the
            checkpoint or `.pte` file.
        options: The options of the export; by default 4 bits and a context of at most 2048 tokens.
        file: Where to write the exported file; by default a temporary file, which is deleted with the model.
        threads: The number of threads; by default one for each core.

    Raises:
        CheckpointError: There is no such model, or it is damaged.
        TokenizerError: There is no tokenizer, or it does not fit the model.
        SessionError: The `.pte` file holds no language model.
    """
    from edgecore_llm.pretrained import EdgecoreModelForCausalLM

    return EdgecoreModelForCausalLM.from_pretrained(
        name_or_path, tokenizer=tokenizer, options=options, file=file, threads=threads
    )
