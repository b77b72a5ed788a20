"""A model of characters, trained in the test on the help texts of Python, which every installation of Python has."""

from __future__ import annotations

from importlib.util import find_spec
from pydoc_data import topics
from typing import Any

import torch
from llm_models import StateDict

from edgecore_llm.families import decoder_config

CONTEXT = 256
TRAINING = 190_000
"""Characters of the text that the training takes; those after them are for tests."""


def text_tokens() -> torch.Tensor:
    """Return the text as numbers of characters, below 128."""
    # One space between words: runs of spaces would be easy to guess.
    text = " ".join(" ".join(topics.topics[name] for name in sorted(topics.topics)).split())[: TRAINING + 10_000]
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    return torch.tensor([numbers[character] for character in text])


def trained_model(width: int, layers: int, steps: int) -> Any:
    """Return a small Llama of transformers that was trained on the text."""
    sizes = {
        "vocab_size": 128, "hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": layers,
        "head_dim": 32, "num_attention_heads": width // 32, "num_key_value_heads": max(1, width // 64),
        "max_position_embeddings": 2 * CONTEXT, "tie_word_embeddings": True,
    }  # fmt: skip
    return train(sizes, text_tokens()[:TRAINING], steps)


def train(sizes: dict[str, Any], tokens: torch.Tensor, steps: int) -> Any:
    """Return a Llama of transformers after a short training with a fixed seed.

    Args:
        sizes: Its configuration.
        tokens: The text.
        steps: How often weights are changed.
    """
    if find_spec("zoo") and find_spec("torchvision"):
        import zoo  # beside the tests of the core

        zoo.torchvision_models()  # transformers imports it
    import transformers

    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, steps, pct_start=0.1)
    for _ in range(steps):
        starts = torch.randint(0, len(tokens) - 128, (16,)).tolist()
        batch = torch.stack([tokens[start : start + 128] for start in starts])
        optimizer.zero_grad()
        model(batch, labels=batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval().requires_grad_(False)


class CharacterCheckpoint(StateDict):
    """The trained model as a checkpoint."""

    def __init__(self, width: int, layers: int, steps: int) -> None:
        self.model = trained_model(width, layers, steps)
        super().__init__(self.model)
        self.config, self.eos_ids = decoder_config(self.model.config.to_dict()), ()
