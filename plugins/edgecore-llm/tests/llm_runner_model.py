"""A small model of characters, trained on a module of Python in some seconds."""

from __future__ import annotations

import argparse
import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch
from llm_models import StateDict
from torch.nn import functional as F

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
def _trained():
    if find_spec("zoo") and find_spec("torchvision"):
        import zoo  # beside the tests of the core

        zoo.torchvision_models()  # transformers imports it
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=FIRST + len(CHARACTERS), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=CONTEXT, eos_token_id=2, bos_token_id=1,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    data = torch.tensor(tokens_of(text()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(400):
        starts = torch.randint(0, len(data) - 65, (16,), generator=generator)
        batch = torch.stack([data[start : start + 65] for start in starts.tolist()])
        loss = F.cross_entropy(model(batch[:, :-1]).logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval().requires_grad_(False)
