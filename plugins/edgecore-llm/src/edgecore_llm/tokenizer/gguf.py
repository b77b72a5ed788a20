"""Convert the tokenizer inside a GGUF file to the content of Hugging Face's `tokenizer.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgecore_llm.checkpoints.gguf_file import GgufFile
from edgecore_llm.errors import CheckpointError, TokenizerError
from edgecore_llm.tokenizer.hugging_face import HuggingFaceTokenizer
from edgecore_llm.tokenizer.sentence_piece_json import added_tokens, sentence_piece_json
from edgecore_llm.tokenizer.tiktoken_ranks import LLAMA3_PATTERN

_ENDINGS = r"'s|'t|'re|'ve|'m|'ll|'d"
_GPT2_PATTERN = rf"{_ENDINGS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
_QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = r"[^\r\n\p{L}\p{N}]?"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT4O_PATTERN = (
    rf"{_CASED}{_UPPER}*{_LOWER}+(?i:{_ENDINGS})?|{_CASED}{_UPPER}+{_LOWER}*(?i:{_ENDINGS})?|\p{{N}}{{1,3}}|{_REST}"
)
_TEKKEN_PATTERN = rf"{_CASED}{_UPPER}*{_LOWER}+|{_CASED}{_UPPER}+{_LOWER}*|\p{{N}}|{_REST}"
_LLAMA3 = ("llama-bpe", "llama3", "llama-v3", "smaug-bpe", "dbrx")
_SINGLE_DIGITS = ("smollm", "refact", "starcoder", "command-r")
_PATTERNS = {
    "gpt-2": _GPT2_PATTERN, "qwen2": _QWEN2_PATTERN, "deepseek-r1-qwen": _QWEN2_PATTERN, "gpt-4o": _GPT4O_PATTERN,
    "tekken": _TEKKEN_PATTERN, **dict.fromkeys(_LLAMA3, LLAMA3_PATTERN), **dict.fromkeys(_SINGLE_DIGITS, _GPT2_PATTERN),
}  # fmt: skip
"""Patterns that split a text, by the value of `tokenizer.ggml.pre`."""
_IGNORES_MERGES = (*_LLAMA3, "tekken")


def open_gguf_tokenizer(path: Path) -> HuggingFaceTokenizer:
    """Open the tokenizer of a GGUF file: a byte-level BPE or a SentencePiece BPE.

    Raises:
        TokenizerError: The file is damaged, or has no tokenizer of these kinds.
    """
    try:
        metadata = GgufFile(path).metadata
    except CheckpointError as error:
        raise TokenizerError(str(error)) from error
    prefix = "tokenizer.ggml."
    values = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    kind, pieces = values.get("model"), values.get("tokens")
    if not isinstance(pieces, list) or not pieces or not all(isinstance(piece, str) for piece in pieces):
        raise TokenizerError(f"{path} has no tokenizer; give the folder of the original one")
    kinds = values.get("token_type", [1] * len(pieces))
    if not isinstance(kinds, list) or len(kinds) != len(pieces):
        raise TokenizerError(
            f"{path} is damaged: its tokenizer has {len(pieces)} tokens and another number of their types"
        )
    if len(set(pieces)) != len(pieces):
        raise TokenizerError(f"{path} is damaged: its tokenizer has a token twice")
    if kind == "gpt2":
        content = _byte_level(path, pieces, values)
    elif kind == "llama":
        content = _sentence_piece(path, pieces, kinds, values)
    else:
        raise TokenizerError(
            f"{path} has a tokenizer of kind {kind!r}; gpt2 and llama are read, so give the original one"
        )
    content["added_tokens"] = added_tokens(pieces, kinds)
    tokenizer = HuggingFaceTokenizer(path, json.dumps(content))
    is_beginning = kind == "llama" or values.get("pre") in _IGNORES_MERGES
    tokenizer.bos_id = _id(values.get("bos_token_id"), len(pieces))
    tokenizer.adds_bos = bool(values.get("add_bos_token", is_beginning))
    ends = (_id(values.get(f"{name}_token_id"), len(pieces)) for name in ("eos", "eot", "eom"))
    tokenizer.eos_ids = tuple(dict.fromkeys(token for token in ends if token is not None))
    template = metadata.get("tokenizer.chat_template")
    tokenizer.chat_template = template if isinstance(template, str) else None
    return tokenizer


def _id(value: Any, count: int) -> int | None:
    return value if isinstance(value, int) and 0 <= value < count else None


def _byte_level(path: Path, pieces: Sequence[str], values: dict[str, Any]) -> dict[str, Any]:
    split, merges = values.get("pre"), values.get("merges")
    if not isinstance(split, str) or split not in _PATTERNS:
        raise TokenizerError(
            f"{path} splits texts in a way {split!r} that is not known ({', '.join(_PATTERNS)} are); give the original "
            "tokenizer"
        )
    if not isinstance(merges, list) or not all(isinstance(merge, str) for merge in merges):
        raise TokenizerError(f"{path} is damaged: its tokenizer has no merges")
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": _PATTERNS[split]}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    ]
    if split in _SINGLE_DIGITS:
        steps.insert(0, {"type": "Digits", "individual_digits": True})
    return {
        "version": "1.0",
        "model": {
            "type": "BPE",
            "vocab": {piece: token for token, piece in enumerate(pieces)},
            "merges": merges,
            "ignore_merges": split in _IGNORES_MERGES,
        },
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    }


def _sentence_piece(path: Path, pieces: Sequence[str], kinds: Sequence[Any], values: dict[str, Any]) -> dict[str, Any]:
    scores = values.get("scores")
    if not isinstance(scores, list) or len(scores) != len(pieces):
        raise TokenizerError(f"{path} is damaged: its tokenizer has {len(pieces)} tokens and another number of scores")
    if not all(isinstance(score, int | float) for score in scores):
        raise TokenizerError(f"{path} is damaged: its tokenizer has a score that is no number")
    return sentence_piece_json(pieces, kinds, scores, has_prefix=bool(values.get("add_space_prefix", True)))
