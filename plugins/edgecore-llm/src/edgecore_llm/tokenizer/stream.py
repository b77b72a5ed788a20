"""Decode tokens to text, one token at a time."""

from __future__ import annotations

import codecs

from edgecore_llm.tokenizer.tokenizer import Tokenizer


class TextStream:
    """Decodes a growing token sequence to text, in whole characters.

    A character whose bytes come from several tokens is returned when the last of these tokens is pushed.

    Args:
        tokenizer: The tokenizer.
        is_start: The first token begins a text, so the space that the tokenizer puts before a text is removed.
        specials: Include the spellings of special tokens.
    """

    def __init__(self, tokenizer: Tokenizer, *, is_start: bool = False, specials: bool = False) -> None:
        self._tokenizer, self._specials = tokenizer, specials
        self._strips = is_start and tokenizer.strips_first_space
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """Add a token to the sequence, and return the text of the characters that are now complete."""
        is_special = self._tokenizer.is_special(token)
        if is_special and not self._specials:
            return ""
        data = self._tokenizer.token_bytes(token)
        if self._strips and not is_special:
            data = data.removeprefix(b" ")
        self._strips = False
        return self._decoder.decode(data)

    def finish(self) -> str:
        """End the sequence, and return U+FFFD if its last character is incomplete, otherwise ""."""
        return self._decoder.decode(b"", final=True)
