"""Small tokenizers of each format, trained on a few sentences, and random texts."""

from __future__ import annotations

import base64
import io
import json
import random
import struct
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and the dog sleeps on.",
    "Größe, Übung, naïve façade; 1234567 times 89 is 110236463.",
    "for (int i = 0; i < n; ++i) { sum += values[i]; }\n\n\treturn sum;",
    "Привет, мир! 你好,世界。 こんにちは 👋🏽 thanks — it's what they'd said.",
] * 5  # fmt: skip
SPECIALS = ["<|begin|>", "<|end|>"]


def random_texts(count: int = 300) -> list[str]:
    generator = random.Random(0)
    alphabet = ["a", "e", "th", "the ", " ", "  ", "\n", "\t", ".", "'s", "9", "12", "Ü", "ß", "Пр", "你好", "👋🏽", "\u200d",
                "é", "e\u0301", "dog", "<s>", "<|end|>", "\u2581", "\x00", "\ufffd", "\U0001d518"]  # fmt: skip
    return ["", " ", *("".join(generator.choices(alphabet, k=generator.randint(1, 20))) for _ in range(count))]


def byte_level(path: Path) -> None:
    """Write a `tokenizer.json` as Llama 3 and Qwen have it."""
    tokenizer = tokenizers.Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.save(str(path))


def byte_fallback(path: Path, has_metaspace: bool = False) -> None:
    """Write a `tokenizer.json` as Llama 2 and Gemma have it, or with Metaspace, as later conversions do."""
    trained = tokenizers.Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=200, show_progress=False)
    trained.train_from_iterator([text.replace(" ", "\u2581") for text in SENTENCES], trainer)
    model = json.loads(trained.to_str())["model"]
    first = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = [*first, *sorted(model["vocab"], key=model["vocab"].get)]
    content = json.loads(trained.to_str())
    content["model"] |= {
        "vocab": {piece: token for token, piece in enumerate(vocabulary)}, "unk_token": "<unk>", "fuse_unk": True,
        "byte_fallback": True,
    }  # fmt: skip
    space = {"String": " "}
    content["normalizer"] = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": space, "content": "\u2581"},
        ],
    }
    content["decoder"] = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    }  # fmt: skip
    if has_metaspace:
        metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
        content |= {"normalizer": None, "pre_tokenizer": metaspace}
        content["decoder"]["decoders"] = [{"type": "ByteFallback"}, metaspace]
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(content))
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.save(str(path))


def sentencepiece_model(path: Path) -> None:
    """Write a `tokenizer.model` of SentencePiece with the settings of Llama 2."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=model, model_type="bpe", vocab_size=420, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.98, minloglevel=2,
        split_digits=True, allow_whitespace_only_pieces=True,
    )  # fmt: skip
    path.write_bytes(model.getvalue())


def llama2c_file(path: Path, model: Path) -> None:
    """Write a `tokenizer.bin` from a model of SentencePiece, as llama2.c does."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    pieces = []
    for token in range(processor.vocab_size()):
        piece = processor.id_to_piece(token)
        named = {processor.bos_id(): "\n<s>\n", processor.eos_id(): "\n</s>\n"}.get(token, piece)
        pieces.append((named.replace("\u2581", " ").encode(), processor.get_score(token)))
    content = struct.pack("<I", max(len(piece) for piece, _ in pieces))
    path.write_bytes(content + b"".join(struct.pack("<fi", score, len(piece)) + piece for piece, score in pieces))


def tiktoken_ranks(path: Path) -> None:
    """Write ranks: all bytes, then some pairs and words."""
    merged = [b" t", b"he", b" the", b"og", b"dog", b"12", b"123", b"\xf0\x9f", " Пр".encode(), b"  ", b"\n\n"]
    ranks = [*(bytes([byte]) for byte in range(256)), *merged]
    path.write_bytes(b"".join(base64.b64encode(value) + b" %d\n" % rank for rank, value in enumerate(ranks)))
