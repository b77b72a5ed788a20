"""Tokenize with the `tokenizer.bin` of llama2.c: the pieces and scores of a SentencePiece BPE model."""

from __future__ import annotations

import heapq
import struct
from pathlib import Path

from edgecore_llm.errors import TokenizerError
from edgecore_llm.tokenizer.tokenizer import Tokenizer

_UNKNOWN, _BOS, _EOS, _FIRST_BYTE = 0, 1, 2, 3
_SMALLEST = _FIRST_BYTE + 256


class Llama2cTokenizer(Tokenizer):
    """A tokenizer of llama2.c; its file has the length of the longest token, then each token's score, length and bytes.

    Token 0 is the unknown token, 1 begins a text, 2 ends a text, and the next 256 tokens stand for bytes.

    Raises:
        TokenizerError: The file is damaged.
    """

    bos_id, eos_ids, strips_first_space = _BOS, (_EOS,), True

    def __init__(self, path: Path) -> None:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise TokenizerError(f"{path} cannot be read: {error.strerror}") from error
        self._pieces: list[bytes] = []
        self._scores: list[float] = []
        place = 4
        while place < len(content):
            try:
                score, length = struct.unpack_from("<fi", content, place)
            except struct.error as error:
                raise TokenizerError(f"{path} is truncated: it ends within token {len(self._pieces)}") from error
            place += 8 + length
            if length < 0 or place > len(content):
                raise TokenizerError(f"{path} is truncated or damaged: token {len(self._pieces)} has {length} bytes")
            self._pieces.append(content[place - length : place])
            self._scores.append(score)
        if len(self._pieces) < _SMALLEST:
            raise TokenizerError(f"{path} is no tokenizer of llama2.c: it has {len(self._pieces)} tokens")
        self._ids = {piece: token for token, piece in enumerate(self._pieces) if token >= _SMALLEST}
        self.vocabulary = len(self._pieces)

    def encode(self, text: str, *, bos: bool = False, specials: bool = False, is_continued: bool = False) -> list[int]:
        """Return the tokens of a text. `specials` has no effect: the format has no spellings of special tokens."""
        tokens: list[int] = []
        for character in f"{'' if is_continued else ' '}{text}" if text else "":
            piece = character.encode("utf-8", "surrogatepass")
            known = self._ids.get(piece)
            tokens += [_FIRST_BYTE + byte for byte in piece] if known is None else [known]
        return [_BOS, *self._merged(tokens)] if bos else self._merged(tokens)

    def token_bytes(self, token: int) -> bytes:
        if _FIRST_BYTE <= token < _SMALLEST:
            return bytes([token - _FIRST_BYTE])
        return self._pieces[token] if 0 <= token < self.vocabulary else b""

    def is_special(self, token: int) -> bool:
        return token in (_UNKNOWN, _BOS, _EOS)

    def _merged(self, tokens: list[int]) -> list[int]:
        """Merge adjacent tokens: the pair whose merged token has the best score first; in a tie, the leftmost."""
        after = [*range(1, len(tokens)), -1]
        before = [*range(-1, len(tokens) - 1)]
        pieces = [self._pieces[token] if token >= _SMALLEST else None for token in tokens]
        waiting: list[tuple[float, int, int, int]] = []

        def offer(left: int, right: int) -> None:
            first, second = (pieces[left], pieces[right]) if left >= 0 and right >= 0 else (None, None)
            if first is not None and second is not None and (merged := self._ids.get(first + second)) is not None:
                heapq.heappush(waiting, (-self._scores[merged], left, right, merged))

        for left, right in enumerate(after):
            offer(left, right)
        while waiting:
            _, left, right, merged = heapq.heappop(waiting)
            first, second = pieces[left], pieces[right]
            if first is None or second is None or after[left] != right or first + second != self._pieces[merged]:
                continue  # skip the pair: one of its two tokens has been merged with another since
            tokens[left], pieces[left], pieces[right] = merged, self._pieces[merged], None
            after[left] = after[right]
            if after[left] >= 0:
                before[after[left]] = left
            tokens[right] = -1
            offer(before[left], left)
            offer(left, after[left])
        return [token for token in tokens if token >= 0]
