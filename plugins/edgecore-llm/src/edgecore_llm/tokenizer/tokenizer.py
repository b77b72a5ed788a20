"""The interface of tokenizers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

from edgecore_llm.errors import TokenizerError


class Tokenizer(ABC):
    """A tokenizer.

    Attributes:
        vocabulary: The number of ids: one more than the largest.
        bos_id: The token that begins a text; None if there is none.
        adds_bos: Texts really begin with it. Qwen and SmolLM2 name such a token, but do not use it so.
        eos_ids: The tokens that end a text.
        strips_first_space: A text gets a space at its front, which decoding takes away again.
        spaces_after_specials: Text after a special token gets such a space, too.
        chat_template: The Jinja template of a chat that lies beside the tokenizer; None if there is none.
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
            specials: Text that spells a special token, such as `<|eot_id|>`, becomes this token. Wrong for what users
                write.
            is_continued: The text goes on after another one, so it gets no space at its front.
        """

    @abstractmethod
    def token_bytes(self, token: int) -> bytes:
        """Return the bytes that a token stands for within a text, which may be a part of a character.

        An id without a token stands for none.
        """

    @abstractmethod
    def is_special(self, token: int) -> bool:
        """Return if a token is no text: the begin or end of a text, a role, padding."""

    def decode(self, tokens: Sequence[int], *, specials: bool = False) -> str:
        """Return the text of tokens, with special ones spelled only if asked for. Bytes that are no UTF-8 become U+FFFD."""
        shown = [token for token in tokens if specials or not self.is_special(token)]
        data = b"".join(map(self.token_bytes, shown))
        if self.strips_first_space and shown and not self.is_special(shown[0]):
            data = data.removeprefix(b" ")
        return data.decode("utf-8", "replace")

    @cached_property
    def special_texts(self) -> re.Pattern[str]:
        """A pattern of the spellings of special tokens, the longest first."""
        tokens = (self.token_bytes(token) for token in range(self.vocabulary) if self.is_special(token))
        patterns = {re.escape(text.decode("utf-8", "replace")) for text in tokens if text}
        return re.compile("|".join(sorted(patterns, key=lambda text: (-len(text), text))) or "(?!)")

    def check_fit(self, rows: int) -> None:
        """Check that a model whose output layer has `rows` rows can have been made with this tokenizer.

        Raises:
            TokenizerError: The tokenizer has more tokens.
        """
        if self.vocabulary > rows:
            raise TokenizerError(
                f"the tokenizer has {self.vocabulary} tokens and the model only {rows}: it belongs to another model"
            )


def check_text(text: str) -> None:
    """Check that a text has characters only: what is no UTF-8 in a command line has none.

    Raises:
        TokenizerError: It has something else.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TokenizerError(f"the text is no UTF-8: character {error.start} is {text[error.start]!r}") from error


def sentencepiece_bytes(piece: str) -> bytes:
    """Return the bytes of a piece of SentencePiece: `▁` is a space, and `<0x0A>` one byte."""
    if len(piece) == len("<0x00>") and piece.startswith("<0x") and piece.endswith(">"):
        try:
            return bytes([int(piece[3:5], 16)])
        except ValueError:
            pass
    return piece.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode("utf-8", "surrogatepass")
