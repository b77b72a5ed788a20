"""Tokenize with Hugging Face's `tokenizer.json`, which the package `tokenizers` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from edgecore_llm.errors import TokenizerError
from edgecore_llm.tokenizer.tokenizer import Tokenizer, check_text, sentencepiece_bytes

_SEQUENCES = ("normalizers", "pretokenizers", "decoders")


class HuggingFaceTokenizer(Tokenizer):
    """The tokenizer of a `tokenizer.json`: a byte-level BPE, or a BPE of SentencePiece with `▁` for spaces.

    Args:
        path: The file.
        text: The content of a `tokenizer.json`; None: read it from the file `path`.

    Attributes:
        text: The content of the `tokenizer.json`.

    Raises:
        TokenizerError: The file is damaged, or its decoder is neither byte-level nor SentencePiece's.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        try:
            self.text = text = path.read_text(encoding="utf-8") if text is None else text
            content = json.loads(text)
            # Make two tokenizers: recognition of special tokens is a setting of a tokenizer, and changing it for a call
            # would affect calls of other threads.
            self._plain, self._with_specials = (tokenizers.Tokenizer.from_str(text) for _ in range(2))
        except OSError as error:
            raise TokenizerError(f"{path} cannot be read: {error.strerror}") from error
        except Exception as error:  # the package raises plain Exception
            raise TokenizerError(
                f"{path} holds no tokenizer of Hugging Face: {' '.join(str(error).split())}"
            ) from error
        self._plain.encode_special_tokens = True
        self._added = self._plain.get_added_tokens_decoder()
        self.vocabulary = 1 + max([*self._plain.get_vocab(with_added_tokens=True).values(), -1])
        decoders = list(_parts(content.get("decoder")))
        kinds = {part.get("type") for part in decoders}
        self._is_byte_level = "ByteLevel" in kinds
        if not self._is_byte_level and not kinds & {"ByteFallback", "Metaspace", "Replace"}:
            raise TokenizerError(f"{path} has a decoder of an unknown kind: {', '.join(map(str, kinds)) or 'none'}")
        steps = [part for key in ("normalizer", "pre_tokenizer") for part in _parts(content.get(key))]
        self._has_prefix = any(step != _without_prefix(step) for step in steps)
        self.spaces_after_specials = not any(step.get("prepend_scheme") == "first" for step in steps)
        self.strips_first_space = any(
            (part.get("type") == "Strip" and part.get("start"))
            or (part.get("type") == "Metaspace" and part.get("prepend_scheme", "always") != "never")
            for part in decoders
        )

    def encode(self, text: str, *, bos: bool = False, specials: bool = False, is_continued: bool = False) -> list[int]:
        check_text(text)
        plain, with_specials = self._continued if is_continued else (self._plain, self._with_specials)
        tokenizer = with_specials if specials else plain
        tokens: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return [self.bos_id, *tokens] if bos and self.adds_bos and self.bos_id is not None else tokens

    def begin(self) -> int | None:
        """Return the token that the `tokenizer.json` puts before every text; None if it puts none."""
        tokens: list[int] = self._plain.encode("", add_special_tokens=True).ids
        return tokens[0] if tokens else None

    def token_bytes(self, token: int) -> bytes:
        if token in self._added:
            content: str = self._added[token].content
            return content.encode()
        piece = self._plain.id_to_token(token) if 0 <= token < self.vocabulary else None
        if piece is None:
            return b""
        if self._is_byte_level:
            return bytes(self._alphabet[character] for character in piece if character in self._alphabet)
        return sentencepiece_bytes(piece)

    def is_special(self, token: int) -> bool:
        return token in self._added and self._added[token].special

    def id_of(self, text: str) -> int | None:
        """Return the id of the token with the spelling `text`; None if the tokenizer has no such token."""
        token: int | None = self._plain.token_to_id(text)
        return token

    @cached_property
    def _continued(self) -> tuple[Any, Any]:
        """Variants of `_plain` and `_with_specials` that put no space before a text, because it continues another."""
        if not self._has_prefix:
            return self._plain, self._with_specials
        content = json.loads(self.text)
        for key in ("normalizer", "pre_tokenizer"):
            content[key] = _without_prefix(content.get(key))
        plain, with_specials = (tokenizers.Tokenizer.from_str(json.dumps(content)) for _ in range(2))
        plain.encode_special_tokens = True
        return plain, with_specials

    @cached_property
    def _alphabet(self) -> dict[str, int]:
        """Map GPT-2's characters to bytes: a printable one to itself, those from U+0100 on to the other bytes."""
        printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        others = [byte for byte in range(0x100) if byte not in printable]
        shifted = {chr(0x100 + index): byte for index, byte in enumerate(others)}
        return {**{chr(byte): byte for byte in printable}, **shifted}


def _parts(step: Any) -> Iterator[dict[str, Any]]:
    if isinstance(step, dict):
        yield step
        for part in _inner(step):
            yield from _parts(part)


def _inner(step: dict[str, Any]) -> list[Any]:
    """Return the parts of a normalizer, pre-tokenizer or decoder that is a sequence; [] for a single step."""
    return next((step[key] for key in _SEQUENCES if isinstance(step.get(key), list)), [])


def _without_prefix(step: Any) -> Any:
    """Return a normalizer or pre-tokenizer of a `tokenizer.json` without the steps that put a space before a text."""
    if not isinstance(step, dict):
        return step
    kind = step.get("type")
    if kind == "Metaspace":
        return {**step, "prepend_scheme": "never"}
    if kind == "ByteLevel":
        return {**step, "add_prefix_space": False}
    if kind == "Sequence":
        parts = [_without_prefix(part) for part in _inner(step) if part.get("type") != "Prepend"]
        return {key: parts if key in _SEQUENCES else value for key, value in step.items()}
    return None if kind == "Prepend" else step
