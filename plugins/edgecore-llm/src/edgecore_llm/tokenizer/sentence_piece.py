"""Tokenize with SentencePiece's `tokenizer.model`, which the package `sentencepiece` reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from edgecore_llm.errors import TokenizerError
from edgecore_llm.tokenizer.tokenizer import Tokenizer, check_text, sentencepiece_bytes

_NO_SPACE = b"\x1a\x02\x18\x00"
"""Protobuf bytes of `normalizer_spec { add_dummy_prefix: false }`; appended to a model, they override its field."""


class SentencePieceTokenizer(Tokenizer):
    """The tokenizer of a SentencePiece model.

    Raises:
        TokenizerError: The file is damaged, or the package is not installed.
    """

    def __init__(self, path: Path) -> None:
        try:
            import sentencepiece
        except ImportError as error:
            raise TokenizerError(f'{path} needs sentencepiece: pip install "edgecore-llm[sentencepiece]"') from error
        self._model: Any = sentencepiece.SentencePieceProcessor()
        self._continued: Any = sentencepiece.SentencePieceProcessor()
        try:
            content = path.read_bytes()
            self._model.LoadFromSerializedProto(content)
            self._continued.LoadFromSerializedProto(content + _NO_SPACE)
            self._pieces: list[str] = self._model.id_to_piece(list(range(self._model.vocab_size())))
        except OSError as error:
            raise TokenizerError(f"{path} cannot be read: {error.strerror}") from error
        except (RuntimeError, UnicodeDecodeError) as error:
            raise TokenizerError(f"{path} is no model of SentencePiece") from error
        self.vocabulary = len(self._pieces)
        bos, eos = self._model.bos_id(), self._model.eos_id()
        self.bos_id, self.eos_ids = bos if bos >= 0 else None, (eos,) if eos >= 0 else ()
        pieces = self._model.encode("a", out_type=str)
        self.strips_first_space = bool(pieces) and pieces[0].startswith("\N{LOWER ONE EIGHTH BLOCK}")

    def encode(self, text: str, *, bos: bool = False, specials: bool = False, is_continued: bool = False) -> list[int]:
        check_text(text)
        tokens = [self.bos_id] if bos and self.bos_id is not None else []
        # sentencepiece encodes a special token's spelling as plain text, so split the text at special tokens. Each part
        # is encoded as a new text, with a space before it.
        for index, part in enumerate(self._specials.split(text) if specials else [text]):
            if specials and part in self._special_ids:
                tokens.append(self._special_ids[part])
            else:
                tokens += (self._continued if is_continued and index == 0 else self._model).encode(part)
        return tokens

    def token_bytes(self, token: int) -> bytes:
        return sentencepiece_bytes(self._pieces[token]) if 0 <= token < self.vocabulary else b""

    def is_special(self, token: int) -> bool:
        return 0 <= token < self.vocabulary and bool(self._model.is_control(token) or self._model.is_unknown(token))

    def facts(self) -> tuple[list[str], list[int], list[float]]:
        """Return the spellings, kinds (SentencePiece's numbers) and scores of all tokens."""
        proto: bytes = self._model.serialized_model_proto()
        kinds = [dict(_fields(value)).get(3, 1) for field, value in _fields(proto) if field == 1]
        return self._pieces, kinds, [self._model.get_score(token) for token in range(self.vocabulary)]

    @cached_property
    def _special_ids(self) -> dict[str, int]:
        return {piece: token for token, piece in enumerate(self._pieces) if self.is_special(token)}

    @cached_property
    def _specials(self) -> re.Pattern[str]:
        longest_first = sorted(map(re.escape, self._special_ids), key=len, reverse=True)
        return re.compile(f"({'|'.join(longest_first)})" if longest_first else "(?!)")


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (number, content) of each field of a protobuf message, which must be valid (parsed before)."""
    place = 0

    def number() -> int:
        nonlocal place
        value, shift = 0, 0
        while True:
            byte = message[place]
            place, value, shift = place + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    while place < len(message):
        key = number()
        field, wire = key >> 3, key & 7
        if wire == 0:
            yield field, number()
            continue
        size = {1: 8, 5: 4}.get(wire) or number()
        yield field, message[place : place + size]
        place += size
