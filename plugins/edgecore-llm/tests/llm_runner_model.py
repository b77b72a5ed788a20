"""A small model of characters, trained on a module of Python in some seconds."""

from __future__ import annotations

import argparse
import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from llm_characters import train
from llm_models import StateDict

from edgecore_llm.families import decoder_config

CONTEXT, FIRST = 288, 259
"""FIRST is the token of the first character: before it are three special tokens and the bytes."""
CHARACTERS = [chr(code) for code in range(32, 127)] + ["\n"]


def text() -> str:
    """Return a text that is on every machine: a module of Python."""
    return Path(argparse.__file__).read_text("utf-8")


def tokens_of(characters: str) -> list[int]:
    return [FIRST + CHARACTERS.index(character) for character in characters if character in CHARACTERS]


def tokenizer_file(path: Path) -> None:
    """Write the `tokenizer.json` of these tokens; those before FIRST are spelled by their numbers."""
    names = {" ": "\u0120", "\n": "\u010a"}  # as pieces of bytes have them
    spellings = [f"<{token}>" for token in range(FIRST)] + [names.get(one, one) for one in CHARACTERS]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    vocabulary = {spelling: token for token, spelling in enumerate(spellings)}
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    content = {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level, "model": model}
    path.write_text(json.dumps(content))


class CharacterModel(StateDict):
    """The trained model as a checkpoint."""

    def __init__(self) -> None:
        self.model = _trained()
        super().__init__(self.model)
        self.config, self.eos_ids = decoder_config(self.model.config.to_dict()), (2,)


@cache
def _trained() -> Any:
    sizes = {
        "vocab_size": FIRST + len(CHARACTERS), "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT, "eos_token_id": 2,
        "bos_token_id": 1,
    }  # fmt: skip
    return train(sizes, torch.tensor(tokens_of(text())), 200)
