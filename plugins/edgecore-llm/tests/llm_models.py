"""Small models with random weights, of transformers and of this package."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from edgecore_llm.families import decoder_config
from edgecore_llm.runner.session import Session

SMALL = {
    "vocab_size": 211, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 5000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
PAIRS = [1.0 + 0.1 * pair for pair in range(6)]
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama2": ("Llama", {"num_key_value_heads": 4}),
    "llama3": ("Llama", {"rope_parameters": LLAMA3_ROPE, "tie_word_embeddings": True, "attention_bias": True}),
    "smollm2": ("Llama", {"hidden_size": 72, "num_attention_heads": 9, "num_key_value_heads": 3, "mlp_bias": True}),
    "mistral": ("Mistral", {"sliding_window": 40, "head_dim": 24}),
    "qwen2": ("Qwen2", {"use_sliding_window": True, "sliding_window": 50, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {"head_dim": 32, "tie_word_embeddings": True}),
    "gemma2": ("Gemma2", {"head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 33}),
    "gemma3": (
        "Gemma3Text",
        {
            "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 30, "num_hidden_layers": 6,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
    ),
    "phi3": ("Phi3", {"sliding_window": 100}),
    "phi4": (
        "Phi3",
        {
            "tie_word_embeddings": True, "original_max_position_embeddings": 128,
            "rope_parameters": {
                "rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75, "short_factor": [1.0] * 6,
                "long_factor": PAIRS, "original_max_position_embeddings": 128,
            },
        },
    ),
    "smollm3": ("SmolLM3", {"num_hidden_layers": 5}),
    "granite": (
        "Granite",
        {
            "embedding_multiplier": 6.0, "residual_multiplier": 0.3, "attention_multiplier": 0.2, "logits_scaling": 4.0,
        },
    ),
}  # fmt: skip
"""The class of transformers, and how its configuration differs from `SMALL`."""


def random_model(name: str, **more: Any) -> Any:
    """Return a model of transformers with random weights, norms included, in float32; `more` changes its sizes."""
    if find_spec("zoo") and find_spec("torchvision"):
        import zoo  # beside the tests of the core

        zoo.torchvision_models()  # transformers imports it
    import transformers

    prefix, changes = MODELS[name]
    config = getattr(transformers, f"{prefix}Config")(**{**SMALL, **changes, **more})
    config._attn_implementation = "eager"
    generator = torch.Generator().manual_seed(sum(name.encode()))
    model = getattr(transformers, prefix.removesuffix("Text") + "ForCausalLM")(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        scale = 0.2 if parameter.ndim == 1 else 1.2 / parameter.shape[1] ** 0.5
        parameter.copy_(noise * scale + (parameter if parameter.ndim == 1 else 0))
    return model


class StateDict:
    """The weights of a model in memory, for `load_decoder`."""

    has_norm_offset, chat_template = True, None

    def __init__(self, model: torch.nn.Module) -> None:
        self.tensors = {name.removeprefix("model."): value for name, value in model.state_dict().items()}

    def names(self):
        return list(self.tensors)

    def shape(self, name):
        return tuple(self.tensors[name].shape)

    def read(self, name, start=0, stop=None):
        return self.tensors[name][start:stop]


class Checkpoint(StateDict):
    """A small model in memory as a checkpoint."""

    def __init__(self, name: str, eos_ids: tuple[int, ...] = (2,)) -> None:
        self.model = random_model(name)
        super().__init__(self.model)
        self.config, self.eos_ids = decoder_config(self.model.config.to_dict()), eos_ids


def run_in_chunks(decoder: Any, tokens: torch.Tensor, chunk: int) -> torch.Tensor:
    """Return the logits of all tokens of a new sequence, computed in calls of `chunk` tokens."""
    logits = []
    for start in range(0, len(tokens), chunk):
        part = tokens[start : start + chunk]
        logits.append(decoder(part, torch.arange(start, start + len(part)), torch.arange(len(part))))
    return torch.cat(logits)


TOKENS = torch.randint(0, 211, (300,), generator=torch.Generator().manual_seed(1))


def logits(session: Session, chunk: int) -> np.ndarray:
    """Return the logits of all tokens, computed in calls of `chunk` tokens."""
    tokens = TOKENS.tolist()
    return np.concatenate([session.logits(tokens[start : start + chunk]) for start in range(0, len(tokens), chunk)])


META_NAMES = {
    "self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo", "self_attn.q_norm": "attention.q_norm_fn", "self_attn.k_norm": "attention.k_norm_fn",
    "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "feed_forward.w1",
    "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3", "embed_tokens": "tok_embeddings",
    "lm_head": "output",
}  # fmt: skip


def meta_name(name: str) -> str:
    """Return the name of a tensor of Hugging Face in a checkpoint of Meta."""
    for long, short in META_NAMES.items():
        name = name.replace(long, short)
    return name
