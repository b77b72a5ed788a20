"""Open a tokenizer file of any supported format."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from edgecore_llm.checkpoints.json_files import chat_template_of, read_json_if_there, token_ids
from edgecore_llm.errors import CheckpointError, TokenizerError
from edgecore_llm.tokenizer.gguf import open_gguf_tokenizer
from edgecore_llm.tokenizer.hugging_face import HuggingFaceTokenizer
from edgecore_llm.tokenizer.llama2c import Llama2cTokenizer
from edgecore_llm.tokenizer.sentence_piece import SentencePieceTokenizer
from edgecore_llm.tokenizer.tiktoken_ranks import TiktokenTokenizer
from edgecore_llm.tokenizer.tokenizer import Tokenizer

_RANK = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?\n")
_NAMES = ("tokenizer.json", "tokenizer.model", "tokenizer.bin")


def open_tokenizer(path: str | Path) -> Tokenizer:
    """Open a tokenizer file, or the tokenizer in a folder; of several files, `tokenizer.json` is preferred.

    Raises:
        TokenizerError: The tokenizer is missing or damaged.
    """
    path = Path(path)
    try:
        tokenizer = _open(path)
        folder = path if path.is_dir() else path.parent
        tokenizer.chat_template = chat_template_of(folder) or tokenizer.chat_template
        if isinstance(tokenizer, HuggingFaceTokenizer) and path.suffix != ".gguf":
            names = ("tokenizer_config.json", "generation_config.json")
            _set_special_tokens(tokenizer, *(read_json_if_there(folder / name) for name in names))
    except CheckpointError as error:
        raise TokenizerError(str(error)) from error
    return tokenizer


def _open(path: Path) -> Tokenizer:
    if path.is_dir():
        present = [path / name for name in _NAMES if (path / name).exists()]
        if not present:
            raise TokenizerError(f"{path} has none of {', '.join(_NAMES)}")
        path = present[0]
    if path.suffix == ".json":
        return HuggingFaceTokenizer(path)
    if path.suffix == ".gguf":
        return open_gguf_tokenizer(path)
    if path.suffix == ".bin":
        return Llama2cTokenizer(path)
    try:
        with path.open("rb") as file:
            has_ranks = _RANK.match(file.read(512)) is not None
    except OSError as error:
        raise TokenizerError(f"{path} cannot be read: {error.strerror}") from error
    return TiktokenTokenizer(path) if has_ranks else SentencePieceTokenizer(path)


def _set_special_tokens(tokenizer: HuggingFaceTokenizer, config: dict[str, Any], generation: dict[str, Any]) -> None:
    """Set the tokens that begin and end a text from the configuration files beside a `tokenizer.json`."""
    tokenizer.bos_id = _id_of(tokenizer, config.get("bos_token"))
    if tokenizer.bos_id is None:
        tokenizer.bos_id = next(iter(token_ids(generation.get("bos_token_id"))), None)
    adds_bos = config.get("add_bos_token")
    tokenizer.adds_bos = adds_bos if isinstance(adds_bos, bool) else tokenizer.begin() == tokenizer.bos_id
    eos = _id_of(tokenizer, config.get("eos_token"))
    tokenizer.eos_ids = token_ids(generation.get("eos_token_id")) or (() if eos is None else (eos,))


def _id_of(tokenizer: HuggingFaceTokenizer, token: Any) -> int | None:
    text = token.get("content") if isinstance(token, dict) else token
    return tokenizer.id_of(text) if isinstance(text, str) else None
