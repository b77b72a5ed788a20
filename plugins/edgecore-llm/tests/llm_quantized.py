"""Small SpinQuant and QAT checkpoints in the form of those of Llama 3.2, and their models in transformers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from llm_models import meta_name, random_model
from scipy.linalg import hadamard

INNER, RANK, LORA_SCALE = 128, 4, 2.0
CHANGES = {"num_hidden_layers": 2, "intermediate_size": INNER}


@dataclass
class Written:
    """A written checkpoint.

    Attributes:
        folder: It holds `consolidated.pth` and `params.json`.
        state: The tensors of the file.
        model: The same model in transformers, in floats; scales are rounded to float16, as the packed layout has them.
    """

    folder: Path
    state: dict[str, torch.Tensor]
    model: Any

    def params(self, **changes: Any) -> None:
        """Change the parameters; None removes one."""
        path = self.folder / "params.json"
        values = {**json.loads(path.read_text()), **changes}
        path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))

    def save(self) -> None:
        torch.save(self.state, self.folder / "consolidated.pth")


def rounded(weight: torch.Tensor, bits: int, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return int8 values and float32 scales, which are no numbers of float16."""
    groups = weight.reshape(len(weight), -1, group)
    limit = 2 ** (bits - 1)
    scales = groups.abs().amax(-1) / (limit - 0.3)
    values = (groups / scales[..., None]).round().clamp(-limit, limit - 1)
    return values.reshape(weight.shape).to(torch.int8), scales


def interleaved(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Return rows in the order of Meta, whose pairs of rotary positions lie together."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)


def write(folder: Path, method: str, *, output_bits: int = 8, rank: int = 0) -> Written:
    """Write a checkpoint as the documentation of ExecuTorch has them."""
    model = random_model("llama2", num_key_value_heads=2, **CHANGES)
    generator = torch.Generator().manual_seed(2)
    state: dict[str, torch.Tensor] = {}
    for name, parameter in model.named_parameters():
        long = name.removeprefix("model.")
        short = meta_name(long)
        if parameter.ndim == 1:
            state[short] = parameter.to(torch.bfloat16)
            parameter.copy_(state[short])
            continue
        bits = {"embed_tokens.weight": 8, "lm_head.weight": output_bits}.get(long, 4)
        values, scales = rounded(parameter, bits, 32 if bits == 4 else parameter.shape[1])
        matrix = (values.reshape(*scales.shape, -1) * scales.half().float()[..., None]).reshape(values.shape)
        adapters = {}
        if rank and long.startswith("layers."):
            a = torch.randn(rank, matrix.shape[1], generator=generator).mul(0.05).to(torch.bfloat16)
            b = torch.randn(len(matrix), rank, generator=generator).mul(0.5).to(torch.bfloat16)
            adapters = {"adaptor.A.weight": a, "adaptor.B.weight": b}
            matrix = matrix + LORA_SCALE * b.float() @ a.float()
        parameter.copy_(matrix)
        found = {"weight": values, "scales": scales if bits == 4 else scales[:, 0], **adapters}
        if bits == 4:
            found["zeros"] = torch.zeros_like(scales)
        for kind, value in found.items():
            is_turned = ("q_proj" in name or "k_proj" in name) and kind != "adaptor.A.weight"
            rows = interleaved(value, 4 if "q_proj" in name else 2) if is_turned else value
            state[f"{short.removesuffix('weight')}{kind}"] = rows.clone()
    if method == "spinquant":
        rotation = torch.from_numpy(hadamard(INNER)).float() / INNER**0.5
        for layer in model.model.layers:
            layer.mlp.down_proj.register_forward_pre_hook(lambda _, inputs: (inputs[0] @ rotation,))
    params = {
        "dim": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 211, "multiple_of": 32,
        "norm_eps": model.config.rms_norm_eps, "rope_theta": model.config.rope_parameters["rope_theta"],
        "quantization_args": {"group_size": 32},
    }  # fmt: skip
    if rank:
        params["lora_args"] = {"rank": rank, "scale": LORA_SCALE}
    (folder / "params.json").write_text(json.dumps(params))
    written = Written(folder, state, model)
    written.save()
    return written
