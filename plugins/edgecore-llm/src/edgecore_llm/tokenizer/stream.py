"""Text from tokens that come one at a time."""

from __future__ import annotations

import codecs

from edgecore_llm.tokenizer.tokenizer import Tokenizer


class TextStream:
    """The text of a growing sequence of tokens, in whole characters.

    A character whose bytes are spread over tokens comes with the last of them.

    Args:
        tokenizer: The tokenizer.
        is_start: The first token begins a text, so that a space which the tokenizer puts there is taken away.
        specials: Special tokens are spelled.
    """

    def __init__(self, tokenizer: Tokenizer, *, is_start: bool = False, specials: bool = False) -> None:
        self._tokenizer, self._specials = tokenizer, specials
        self._strips = is_start and tokenizer.strips_first_space
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """Take a token and return the text that it completes."""
        is_special = self._tokenizer.is_special(token)
        if is_special and not self._specials:
            return ""
        data = self._tokenizer.token_bytes(token)
        if self._strips and not is_special:
            data = data.removeprefix(b" ")
        self._strips = False
        return self._decoder.decode(data)

    def finish(self) -> str:
        """Return what is left: U+FFFD for a character that stays incomplete."""
        return self._decoder.decode(b"", final=True)
