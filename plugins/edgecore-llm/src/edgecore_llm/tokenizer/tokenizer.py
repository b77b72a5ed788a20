"""The interface of tokenizers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

from edgecore_llm.errors import TokenizerError


class Tokenizer(ABC):
    """A tokenizer of any format, which converts between texts and token ids.

    Attributes:
        vocabulary: The number of token ids: one more than the largest id.
        bos_id: The id of the token that begins a text; None if the tokenizer has none.
        adds_bos: Texts must begin with `bos_id`. False for Qwen and SmolLM2, which have the token but do not use it.
        eos_ids: The ids of the tokens that end a text.
        strips_first_space: Encoding puts a space before a text, and decoding removes it.
        spaces_after_specials: Encoding also puts a space before text that follows a special token.
        chat_template: The chat template in Jinja that is stored beside the tokenizer; None if there is none.
    """

    vocabulary: int
    bos_id: int | None = None
    adds_bos: bool = True
    eos_ids: tuple[int, ...] = ()
    strips_first_space: bool = False
    spaces_after_specials: bool = True
    chat_template: str | None = None

    @abstractmethod
    def encode(self, text: str, *, bos: bool = False, specials: bool = False, is_continued: bool = False) -> list[int]:
        """Return the tokens of a text.

        Args:
            text: The text.
            bos: Begin with `bos_id`, if `adds_bos`.
            specials: Encode the spelling of a special token, such as `<|eot_id|>`, as that token. Pass False for text
                that users write.
            is_continued: The text continues another one, so no space is put before it.
        """

    @abstractmethod
    def token_bytes(self, token: int) -> bytes:
        """Return the bytes that a token adds to a text, possibly only a part of a character's bytes.

        An id that belongs to no token gives b"".
        """

    @abstractmethod
    def is_special(self, token: int) -> bool:
        """Return True if a token does not stand for text: if it begins or ends a text, marks a role, or is padding."""

    def decode(self, tokens: Sequence[int], *, specials: bool = False) -> str:
        """Return the text of tokens, without special tokens unless `specials` is True; invalid UTF-8 becomes U+FFFD."""
        shown = [token for token in tokens if specials or not self.is_special(token)]
        data = b"".join(map(self.token_bytes, shown))
        if self.strips_first_space and shown and not self.is_special(shown[0]):
            data = data.removeprefix(b" ")
        return data.decode("utf-8", "replace")

    @cached_property
    def special_texts(self) -> re.Pattern[str]:
        """A regular expression that matches any special token's spelling; longer spellings are tried first."""
        tokens = (self.token_bytes(token) for token in range(self.vocabulary) if self.is_special(token))
        patterns = {re.escape(text.decode("utf-8", "replace")) for text in tokens if text}
        return re.compile("|".join(sorted(patterns, key=lambda text: (-len(text), text))) or "(?!)")

    def check_fit(self, rows: int) -> None:
        """Check that a model whose output layer has `rows` rows can belong to this tokenizer.

        Raises:
            TokenizerError: The tokenizer has more tokens than `rows`.
        """
        if self.vocabulary > rows:
            raise TokenizerError(
                f"the tokenizer has {self.vocabulary} tokens and the model only {rows}: it belongs to another model"
            )


def check_text(text: str) -> None:
    """Check that a text has no lone surrogates, by which Python represents invalid UTF-8 in command-line arguments.

    Raises:
        TokenizerError: The text contains a lone surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TokenizerError(f"the text is no UTF-8: character {error.start} is {text[error.start]!r}") from error


def sentencepiece_bytes(piece: str) -> bytes:
    """Return the bytes of a SentencePiece token's spelling: `▁` is a space, and `<0x0A>` the byte 10."""
    if len(piece) == len("<0x00>") and piece.startswith("<0x") and piece.endswith(">"):
        try:
            return bytes([int(piece[3:5], 16)])
        except ValueError:
            pass
    return piece.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode("utf-8", "surrogatepass")
