"""Tokenizers inside GGUF files beside the libraries of the originals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import llm_gguf
import llm_tokenizers
import pytest
import tokenizers
from llm_models import random_model

import edgecore_llm
from edgecore_llm.errors import TokenizerError
from edgecore_llm.export import ExportOptions
from edgecore_llm.tokenizer.open import open_tokenizer

gguf = pytest.importorskip("gguf")
TEXTS = [*llm_tokenizers.random_texts(), "Don't STOP at 12345, it's  \n\n  fine/ok'S\r\n"]

PATTERNS = {
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
    "gpt-4o": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "tekken": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
"""How the originals of these tokenizers split texts."""


def write(path: Path, **values: Any) -> Path:
    """Write a file with the metadata `tokenizer.ggml.KEY` and no tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in values.items():
        name = f"tokenizer.ggml.{key}" if key != "chat_template" else "tokenizer.chat_template"
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, bool):
            writer.add_bool(name, value)
        else:
            writer.add_uint32(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def byte_level(folder: Path, split: str) -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    """Return a tokenizer of the library that splits texts in a way, and its values for `write`."""
    llm_tokenizers.byte_level(folder / "tokenizer.json")
    content = json.loads((folder / "tokenizer.json").read_text())
    is_gpt2 = split == "gpt-2"
    steps = [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": is_gpt2}]
    if not is_gpt2:
        pattern = {"Regex": PATTERNS[split]}
        steps.insert(0, {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False})
    content["model"]["ignore_merges"] = split in ("llama-bpe", "tekken")
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    vocabulary = content["model"]["vocab"] | {token["content"]: token["id"] for token in content["added_tokens"]}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in content["model"]["merges"]]
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    types = [3 if piece in llm_tokenizers.SPECIALS else 1 for piece in pieces]
    values = {"model": "gpt2", "pre": split, "tokens": pieces, "token_type": types, "merges": merges}
    return tokenizers.Tokenizer.from_str(json.dumps(content)), values


@pytest.mark.parametrize("split", ["llama-bpe", "qwen2", "gpt-2", "gpt-4o", "tekken"])
def test_byte_level_tokenizers_are_used_as_the_library_does(split, tmp_path):
    theirs, values = byte_level(tmp_path, split)
    ours = open_tokenizer(write(tmp_path / "model.gguf", **values, bos_token_id=400, eos_token_id=401, eot_token_id=7))
    assert (ours.bos_id, ours.eos_ids, ours.vocabulary) == (400, (401, 7), 402)
    assert ours.adds_bos == (split in ("llama-bpe", "tekken"))
    for text in TEXTS:
        tokens = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, specials=True) == tokens, text
        assert ours.decode(tokens, specials=True) == theirs.decode(tokens, skip_special_tokens=False)


def test_digits_are_split_one_by_one_where_the_file_says_so(tmp_path):
    _, values = byte_level(tmp_path, "gpt-2")
    tokenizer = open_tokenizer(write(tmp_path / "model.gguf", **{**values, "pre": "smollm"}))
    assert [tokenizer.token_bytes(token) for token in tokenizer.encode("1234")] == [b"1", b"2", b"3", b"4"]


def sentence_piece(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return a model of SentencePiece, and its values for `write`."""
    sentencepiece = pytest.importorskip("sentencepiece")
    llm_tokenizers.sentencepiece_model(folder / "piece.model")
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "piece.model"))
    tokens = range(model.vocab_size())
    types = [
        2 if model.is_unknown(token) else 3 if model.is_control(token) else 6 if model.is_byte(token) else 1
        for token in tokens
    ]
    return model, {
        "model": "llama", "tokens": [model.id_to_piece(token) for token in tokens], "token_type": types,
        "scores": [float(model.get_score(token)) for token in tokens], "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip


def test_models_of_sentencepiece_are_used_as_the_library_does(tmp_path):
    theirs, values = sentence_piece(tmp_path)
    ours = open_tokenizer(write(tmp_path / "model.gguf", **values, chat_template="of the file"))
    assert (ours.bos_id, ours.eos_ids, ours.adds_bos, ours.chat_template) == (1, (2,), True, "of the file")
    assert ours.encode("</s>", specials=True)[-1] == 2
    for text in TEXTS:
        if text.lstrip(" ") and "\x00" not in text:
            assert ours.encode(text) == theirs.encode(text), text
            assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text)), text


def test_a_tokenizer_without_a_space_at_the_front(tmp_path):
    _, values = sentence_piece(tmp_path)
    ours = open_tokenizer(write(tmp_path / "model.gguf", **values, add_space_prefix=False, add_bos_token=False))
    assert ours.decode(ours.encode("dog")) == "dog"
    assert not ours.strips_first_space
    assert ours.encode("dog", bos=True) == ours.encode("dog")


def test_what_is_missing_or_unknown_is_said(tmp_path):
    _, values = byte_level(tmp_path, "qwen2")
    _, pieces = sentence_piece(tmp_path)
    for changed, message in (
        ({}, "has no tokenizer; give the folder"),
        ({**values, "pre": "other"}, "splits texts in a way 'other' that is not known"),
        ({**values, "model": "t5"}, "has a tokenizer of kind 't5'; gpt2 and llama are read"),
        ({**values, "token_type": [1]}, "402 tokens and another number of their types"),
        ({**values, "merges": [1]}, "its tokenizer has no merges"),
        ({**values, "merges": ["no pair"]}, "holds no tokenizer of Hugging Face"),
        ({**values, "tokens": ["a"] * 402}, "has a token twice"),
        ({**values, "pre": ["qwen2"]}, r"splits texts in a way \['qwen2'\] that is not known"),
        ({**pieces, "scores": [1.0]}, "tokens and another number of scores"),
        ({**pieces, "scores": ["a"] * len(pieces["tokens"])}, "its tokenizer has a score that is no number"),
    ):
        with pytest.raises(TokenizerError, match=message) as caught:
            open_tokenizer(write(tmp_path / "model.gguf", **changed))
        assert "\n" not in str(caught.value)


def test_a_gguf_file_is_all_that_a_model_needs(tmp_path):
    _, values = byte_level(tmp_path, "qwen2")
    model = random_model("qwen3")

    def add(writer: Any) -> None:
        pieces = [*values["tokens"][:198], "do", "dog", *llm_tokenizers.SPECIALS]
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        writer.add_token_list(pieces)
        writer.add_token_types([1] * 200 + [3, 3])
        writer.add_token_merges(["d o", "do g"])
        writer.add_chat_template("{{ messages[0].content }}<|begin|>")

    llm_gguf.write_gguf(tmp_path / "model.gguf", model, "qwen3", add=add)
    opened = edgecore_llm.from_pretrained(tmp_path / "model.gguf", options=ExportOptions(context=64, chunk=16))
    messages = [{"role": "user", "content": "dog"}]
    text = opened.chat(messages, 8)
    assert opened.tokenizer.encode("dog") == [199]
    assert text == opened.generate([199, 200], 8)
    opened.save_pretrained(tmp_path / "saved")
    assert edgecore_llm.from_pretrained(tmp_path / "saved").chat(messages, 8) == text
