"""Tokenize by ranks, the format of Llama 3's `tokenizer.model`, with the package `tiktoken`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path

from edgecore_llm.errors import TokenizerError
from edgecore_llm.tokenizer.tokenizer import Tokenizer

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_LLAMA3_NAMED = {
    0: "begin_of_text", 1: "end_of_text", 4: "finetune_right_pad_id", 6: "start_header_id", 7: "end_header_id",
    8: "eom_id", 9: "eot_id", 10: "python_tag",
}  # fmt: skip
_LLAMA3_COUNT = 256


def llama3_specials() -> list[str]:
    """Return the special tokens of Llama 3.1, which its tokenizer file does not list; their ids follow the ranks."""
    reserved = iter(range(_LLAMA3_COUNT))
    names = (_LLAMA3_NAMED.get(index) or f"reserved_special_token_{next(reserved)}" for index in range(_LLAMA3_COUNT))
    return [f"<|{name}|>" for name in names]


class TiktokenTokenizer(Tokenizer):
    """The tokenizer of a file of lines `BASE64 RANK`. It takes the split pattern and special tokens of Llama 3.

    Raises:
        TokenizerError: The file is damaged, or the package is not installed.
    """

    def __init__(self, path: Path, pattern: str = LLAMA3_PATTERN, specials: Sequence[str] | None = None) -> None:
        try:
            import tiktoken
        except ImportError as error:
            raise TokenizerError(f'{path} needs tiktoken: pip install "edgecore-llm[tiktoken]"') from error
        ranks = _read(path)
        names = llama3_specials() if specials is None else specials
        self._specials = {name: len(ranks) + index for index, name in enumerate(names)}
        try:
            self._encoding = tiktoken.Encoding(
                path.name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=self._specials
            )
        except Exception as error:  # tiktoken raises exceptions of several classes, so catch all
            raise TokenizerError(f"{path} cannot be used: {error}") from error
        self._bytes = {rank: value for value, rank in ranks.items()}
        self._special_names = {token: name for name, token in self._specials.items()}
        self.vocabulary = len(ranks) + len(self._specials)
        self.bos_id = self._specials.get("<|begin_of_text|>")
        ends = ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>")
        self.eos_ids = tuple(self._specials[name] for name in ends if name in self._specials)

    def encode(self, text: str, *, bos: bool = False, specials: bool = False, is_continued: bool = False) -> list[int]:
        if specials:
            tokens = self._encoding.encode(text, allowed_special="all", disallowed_special=())
        else:
            tokens = self._encoding.encode_ordinary(text)
        return [self.bos_id, *tokens] if bos and self.bos_id is not None else tokens

    def token_bytes(self, token: int) -> bytes:
        return self._bytes.get(token) or self._special_names.get(token, "").encode()

    def is_special(self, token: int) -> bool:
        return token in self._special_names


def _read(path: Path) -> dict[bytes, int]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise TokenizerError(f"{path} cannot be read: {error.strerror}") from error
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            text, rank = line.split()
            ranks[base64.b64decode(text, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise TokenizerError(f"line {number} of {path} is not of the form BASE64 RANK") from error
    if sorted(ranks.values()) != list(range(len(ranks))) or not ranks:
        raise TokenizerError(f"{path} does not have each rank from 0 on once; it may be truncated")
    # Each byte needs a rank, because tiktoken panics on a text that has a byte without one.
    missing = [byte for byte in range(0x100) if bytes([byte]) not in ranks]
    if missing:
        raise TokenizerError(f"{path} has no rank for byte {missing[0]}; it may be truncated")
    return ranks
