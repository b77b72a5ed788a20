"""Checkpoints of Meta: round trips, and damage."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from llm_models import LLAMA3_ROPE, PAIRS, StateDict, meta_name, random_model

from edgecore_llm.checkpoints.open import open_checkpoint
from edgecore_llm.errors import CheckpointError
from edgecore_llm.families import decoder_config
from edgecore_llm.model.load import load_decoder

pytest.importorskip("transformers")


def separate(tensors, config):
    """The tensors, of which fused ones are cut into those of q, k, v, gate and up."""
    for name, value in tensors.items():
        if "qkv_proj" in name:
            head_dim = config.hidden_size // config.num_attention_heads
            sizes = [heads * head_dim for heads in (config.num_attention_heads, *[config.num_key_value_heads] * 2)]
            for part, rows in zip(("q", "k", "v"), value.split(sizes), strict=True):
                yield name.replace("qkv_proj", f"{part}_proj"), rows
        elif "gate_up_proj" in name:
            for part, rows in zip(("gate", "up"), value.chunk(2), strict=True):
                yield name.replace("gate_up_proj", f"{part}_proj"), rows
        else:
            yield name, value


def write(folder, model, is_interleaved: bool, **more):
    config, state = model.config, {}
    for name, value in separate(StateDict(model).tensors, config):
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if is_interleaved and ("q_proj" in name or "k_proj" in name):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            state[meta_name(name)] = value.reshape(heads, 2, -1, *value.shape[1:]).transpose(1, 2).reshape(value.shape)
        else:
            state[meta_name(name)] = value.clone()
    torch.save(state, folder / "consolidated.00.pth")
    params = {
        "dim": config.hidden_size, "n_layers": config.num_hidden_layers, "n_heads": config.num_attention_heads,
        "n_kv_heads": config.num_key_value_heads, "vocab_size": -1, "multiple_of": 32, "norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_parameters["rope_theta"], **more,
    }  # fmt: skip
    (folder / "params.json").write_text(json.dumps(params))


def open_pair(folder):
    return open_checkpoint(folder / "consolidated.00.pth", folder / "params.json")


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("llama2", {}),
        ("qwen2", {"use_hf_rope": True, "attention_qkv_bias": True}),
        ("qwen3", {"use_hf_rope": True, "use_qk_norm": True, "qk_norm_before_rope": True, "head_dim": 32}),
        (
            "phi4",
            {
                "use_hf_rope": True,
                "partial_rotary_factor": 0.75,
                "original_max_position_embeddings": 128,
                "rope_scaling_short_factor": [1.0] * 6,
                "rope_scaling_long_factor": PAIRS,
                "max_position_embeddings": 512,
            },
        ),
        ("smollm3", {"use_hf_rope": True, "no_rope_layer_interval": 4}),
        (
            "granite",
            {
                "use_hf_rope": True,
                "embedding_scale_factor": 6.0,
                "residual_multiplier": 0.3,
                "attention_multiplier": 0.2,
                "logits_scaling": 4.0,
            },
        ),
    ],
)
def test_a_written_model_is_read_as_it_was(name, more, tmp_path):
    model = random_model(name)
    if name == "qwen2":
        model.config.use_sliding_window, model.config.layer_types = False, None
    write(tmp_path, model, not more, **more)
    checkpoint = open_pair(tmp_path)
    expected = load_decoder(decoder_config(model.config.to_dict()), StateDict(model), context=32, chunk=8)
    found = load_decoder(checkpoint.config, checkpoint, context=32, chunk=8)
    same = {"family": expected.config.family, "max_context": expected.config.max_context}
    assert dataclasses.replace(found.config, **same) == expected.config
    assert found.state_dict().keys() == expected.state_dict().keys()
    assert all(torch.equal(found.state_dict()[key], value) for key, value in expected.state_dict().items())


def test_scaled_rotary_positions_are_those_of_llama_3(tmp_path):
    write(tmp_path, random_model("llama2"), True, use_scaled_rope=True, rope_scale_factor=32)
    found = open_pair(tmp_path).config.ropes[0]
    scaling = {**LLAMA3_ROPE, "rope_theta": 10000.0, "factor": 32.0, "original_max_position_embeddings": 8192}
    config = random_model("llama2").config.to_dict()
    assert found == decoder_config({**config, "rope_parameters": scaling}).ropes[0]


def test_damaged_and_missing_files_are_one_clear_sentence(tmp_path):
    write(tmp_path, random_model("llama2"), True)
    path, params = tmp_path / "consolidated.00.pth", tmp_path / "params.json"
    content = path.read_bytes()
    with pytest.raises(CheckpointError, match=r"needs the file with the parameters of the model, such as params.json"):
        open_checkpoint(path)
    for keep in (0, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:keep])
        with pytest.raises(CheckpointError, match="is truncated or no checkpoint of PyTorch"):
            open_pair(tmp_path)
    torch.save([1, 2], path)
    with pytest.raises(CheckpointError, match="holds no tensors by name"):
        open_pair(tmp_path)
    path.write_bytes(content)
    params.write_text(json.dumps({**json.loads(params.read_text()), "use_qk_norm": True}))
    with pytest.raises(CheckpointError, match="normalizes q and k after they are turned, which is not supported"):
        assert open_pair(tmp_path).config
    params.write_text("{}")
    with pytest.raises(CheckpointError, match="have no dim"):
        assert open_pair(tmp_path).config
    params.unlink()
    with pytest.raises(CheckpointError, match=r"params.json cannot be read"):
        open_pair(tmp_path)
