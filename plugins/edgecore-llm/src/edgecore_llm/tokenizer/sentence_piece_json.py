"""Convert a BPE model of SentencePiece to the content of Hugging Face's `tokenizer.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgecore_llm.errors import TokenizerError
from edgecore_llm.tokenizer.hugging_face import HuggingFaceTokenizer
from edgecore_llm.tokenizer.sentence_piece import SentencePieceTokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
"""Kinds of pieces, numbered as in SentencePiece's models."""
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
_TEXTS = (
    "",
    " ",
    "  two  spaces ",
    "\n\t\r\n",
    "ﬁne Ⅷ e\u0301 \u3000",
    "你好 👋🏽 \x00\u200d",
    "1234567 it's (a+b)*c;",
    "\ufffd",
)


def sentence_piece_json(
    pieces: Sequence[str], kinds: Sequence[Any], scores: Sequence[float], *, has_prefix: bool
) -> dict[str, Any]:
    """Return the content of a `tokenizer.json`, without `added_tokens`, for a BPE model of SentencePiece.

    Args:
        pieces: The spellings of the tokens.
        kinds: The kinds of the tokens, such as `BYTE`.
        scores: The scores of the tokens; merges with higher scores come first.
        has_prefix: The tokenizer puts a space before each text.
    """
    space: dict[str, Any] = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    normalizers = [{"type": "Prepend", "prepend": _SPACE}, space] if has_prefix else [space]
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    ]  # fmt: skip
    if has_prefix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {
        "version": "1.0",
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "model": {
            "type": "BPE",
            "vocab": {piece: token for token, piece in enumerate(pieces)},
            "merges": _merges(pieces, kinds, scores),
            "unk_token": next((piece for piece, kind in zip(pieces, kinds, strict=True) if kind == UNKNOWN), None),
            "fuse_unk": True,
            "byte_fallback": True,
        },
        "decoder": {"type": "Sequence", "decoders": decoders},
    }


def added_tokens(pieces: Sequence[str], kinds: Sequence[Any]) -> list[dict[str, Any]]:
    """Return `added_tokens` of a `tokenizer.json`: special and user-defined tokens, which no merge produces."""
    return [
        {
            "id": token, "content": piece, "special": kind != USER_DEFINED, "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": False,
        }
        for token, (piece, kind) in enumerate(zip(pieces, kinds, strict=True))
        # Leave out user-defined pieces with spaces, because merges produce them like normal pieces.
        if piece and (kind in (CONTROL, UNKNOWN) or (kind == USER_DEFINED and _SPACE not in piece))
    ]  # fmt: skip


def _merges(pieces: Sequence[str], kinds: Sequence[Any], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Return all pairs of pieces whose concatenation is a piece, ordered by the score of that piece."""
    usable = {piece: token for token, piece in enumerate(pieces) if kinds[token] not in (UNKNOWN, CONTROL, BYTE)}
    merges = []
    for piece, token in usable.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in usable and right in usable:
                merges.append((-scores[token], usable[left], usable[right], left, right))
    return [(left, right) for *_, left, right in sorted(merges)]


def convert(path: Path, folder: Path) -> None:
    """Write a SentencePiece model as a `tokenizer.json`, and a `tokenizer_config.json` if the folder has none.

    Raises:
        TokenizerError: The model is damaged, or a `tokenizer.json` cannot reproduce its tokens.
    """
    model = SentencePieceTokenizer(path)
    pieces, kinds, scores = model.facts()
    content = sentence_piece_json(pieces, kinds, scores, has_prefix=model.strips_first_space)
    content["added_tokens"] = added_tokens(pieces, kinds)
    text = json.dumps(content, ensure_ascii=False)
    other = HuggingFaceTokenizer(path, text)
    words = [
        piece.replace(_SPACE, " ") for piece, kind in zip(pieces, kinds, strict=True) if kind in (NORMAL, USER_DEFINED)
    ]
    for sample in (*_TEXTS, *words, "".join(words[::3]), " ".join(words[::2])):
        if model.encode(sample) != other.encode(sample):
            raise TokenizerError(
                f"{path} cannot become a tokenizer.json: {sample[:40]!r} would have other tokens; it is no BPE, or it "
                "changes texts"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(text, "utf-8")
        if not (folder / "tokenizer_config.json").exists():
            names = {"bos_token": model.bos_id, "eos_token": next(iter(model.eos_ids), None)}
            config = {name: None if token is None else pieces[token] for name, token in names.items()}
            (folder / "tokenizer_config.json").write_text(
                json.dumps({**config, "add_bos_token": model.adds_bos}), "utf-8"
            )
    except OSError as error:
        raise TokenizerError(f"{folder} cannot be written: {error.strerror}") from error
