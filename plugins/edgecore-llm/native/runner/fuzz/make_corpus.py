"""Write the seed inputs of tokenizer_fuzz into corpus/: one small tokenizer of each kind, each with a text."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "corpus"
TEXT = "It's the 12 dogs <s>\u00e9\u4f60!"
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
PATTERN = r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"


def write(name: str, kind: str, content: bytes) -> None:
    text = TEXT.encode()
    CORPUS.joinpath(name).write_bytes(kind.encode() + bytes([len(text)]) + content + text)


def write_json(name: str, pieces: list[str], merges: list[Any], model: dict[str, Any], **parts: Any) -> None:
    vocabulary = {piece: token for token, piece in enumerate(pieces)}
    whole = {"model": {"type": "BPE", "vocab": vocabulary, "merges": merges, **model}, **parts}
    write(name, "j", json.dumps(whole, ensure_ascii=False).encode())


def main() -> None:
    CORPUS.mkdir(exist_ok=True)
    letters = [*"abcdefghijklmnopqrstuvwxyzIT'!<>0123456789", "\u0120"]
    added = [
        {"content": "<s>", "special": True},
        {"content": "dog", "normalized": True, "lstrip": True, "rstrip": True, "single_word": True},
    ]
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    write_json(
        "level", [*letters, "th", "the", "do"], ["t h", ["th", "e"], "d o"], {"ignore_merges": True}, decoder=LEVEL,
        pre_tokenizer=LEVEL, added_tokens=added, normalizer={"type": "NFC"},
    )  # fmt: skip
    write_json(
        "split", [*letters, "12"], ["1 2"], {"unk_token": "a"}, decoder=LEVEL, added_tokens=added,
        pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Digits"}, split, {**LEVEL, "use_regex": False}]},
    )  # fmt: skip
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    model = {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters, "\u2581", "\u2581t"]
    write_json("metaspace", pieces, [["\u2581", "t"]], model, decoder=metaspace, pre_tokenizer=metaspace)
    steps = [
        {"type": "Prepend", "prepend": "\u2581"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
    ]
    decoder = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Strip", "start": 1}]}
    write_json(
        "fallback", pieces, [["\u2581", "t"]], model, decoder=decoder,
        normalizer={"type": "Sequence", "normalizers": steps},
        post_processor={"single": [{"SpecialToken": {"id": "a"}}], "special_tokens": {"a": {"ids": [1]}}},
    )  # fmt: skip
    ranks = [*(bytes([byte]) for byte in range(256)), b" t", b"he", b" the", b"12"]
    write("ranks", "t", b"".join(base64.b64encode(value) + b" %d\n" % rank for rank, value in enumerate(ranks)))
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"adeghost", " ", " t", "he"]
    content = b"".join(struct.pack("<fi", -token, len(name)) + name.encode() for token, name in enumerate(names))
    write("llama2c", "l", struct.pack("<I", 8) + content)


if __name__ == "__main__":
    main()
