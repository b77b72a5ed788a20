"""Call the commands in this process, on models with a tokenizer of bytes."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from edgecore_llm.cli import command

tokenizers = pytest.importorskip("tokenizers")
TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>"


def byte_tokenizer(specials: int):
    """Return a tokenizer whose tokens are characters of ASCII, and some special tokens."""
    alphabet = [*map(chr, range(33, 127)), "\u0120", "\u010a"]  # as ByteLevel writes a space and a line feed
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({text: i for i, text in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|user|>", "<|assistant|>", "<|system|>", *map("<|{}|>".format, range(3, specials))])
    return tokenizer


def call(*arguments: object, text: str | None = None) -> str:
    result = CliRunner().invoke(command, [*map(str, arguments)], input=text, catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout
