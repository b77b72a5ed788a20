"""Shapes of language models, and checkpoints with random weights of these shapes."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

CONTEXT = 1024
PROMPT = 500
NEW = 128
SEED = 21
HEAD = 64


@dataclass(frozen=True)
class Shape:
    """A decoder of the family Llama, whose output layer shares its weight with the embedding table."""

    width: int
    inner: int
    heads: int
    kv_heads: int
    layers: int
    vocabulary: int

    def matrices(self) -> list[tuple[str, int, int]]:
        """Return (name, outputs, inputs) of each weight matrix of a decoder layer."""
        q, kv = self.heads * HEAD, self.kv_heads * HEAD
        return [
            ("self_attn.q_proj", q, self.width),
            ("self_attn.k_proj", kv, self.width),
            ("self_attn.v_proj", kv, self.width),
            ("self_attn.o_proj", self.width, q),
            ("mlp.gate_proj", self.inner, self.width),
            ("mlp.up_proj", self.inner, self.width),
            ("mlp.down_proj", self.width, self.inner),
        ]

    def weights(self) -> int:
        """Return the number of weights that a token multiplies."""
        return self.layers * sum(rows * columns for _, rows, columns in self.matrices()) + self.vocabulary * self.width

    def cached(self) -> int:
        """Return the number of values that the caches of all layers hold for one position: keys and values."""
        return 2 * self.layers * self.kv_heads * HEAD


def drawn_shape(seed: int = SEED) -> Shape:
    """Draw a shape at random with `seed`."""
    draw = random.Random(seed)
    kv_heads = draw.choice((4, 5))
    heads = kv_heads * draw.choice((3, 4))
    return Shape(
        width=heads * HEAD,
        inner=draw.choice((3, 4)) * heads * HEAD,
        heads=heads,
        kv_heads=kv_heads,
        layers=draw.randint(10, 18),
        vocabulary=draw.randrange(32000, 64000, 64),
    )


SHAPES = {
    "135m": Shape(width=576, inner=1536, heads=9, kv_heads=3, layers=30, vocabulary=49152),
    "drawn": drawn_shape(),
    "1b": Shape(width=2048, inner=8192, heads=32, kv_heads=8, layers=16, vocabulary=128256),
}
"""The shapes of SmolLM2-135M and Llama-3.2-1B, and a shape that is drawn with SEED."""


def make_checkpoint(shape: Shape, folder: Path) -> None:
    """Write a checkpoint in the format of Hugging Face: random weights, and a tokenizer with one token per byte."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": HEAD,
        "tie_word_embeddings": True,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(shape.vocabulary, folder)
    generator = torch.Generator().manual_seed(0)

    def weight(rows: int, columns: int) -> torch.Tensor:
        return (torch.randn(rows, columns, generator=generator) / columns**0.5).to(torch.bfloat16)

    ones = {"model.norm.weight": torch.ones(shape.width, dtype=torch.bfloat16)}
    tensors = {"model.embed_tokens.weight": weight(shape.vocabulary, shape.width), **ones}
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}."
        for name, rows, columns in shape.matrices():
            tensors[f"{prefix}{name}.weight"] = weight(rows, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{name}.weight"] = torch.ones(shape.width, dtype=torch.bfloat16)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def write_tokenizer(vocabulary: int, folder: Path) -> None:
    """Write a tokenizer with a token for each byte, and unused tokens up to the size of the vocabulary."""
    pieces = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces += [f"<|{token}|>" for token in range(len(pieces), vocabulary)]
    tokenizer = Tokenizer(models.BPE({piece: token for token, piece in enumerate(pieces)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": pieces[1], "eos_token": pieces[2]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def describe(shape: Shape) -> str:
    """Return the sizes in words."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in asdict(shape).items())
