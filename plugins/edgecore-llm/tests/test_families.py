"""Configurations of Hugging Face: two generations of keys, missing and impossible values."""

from __future__ import annotations

import pytest
from llm_models import LLAMA3_ROPE, SMALL

from edgecore_llm.errors import CheckpointError
from edgecore_llm.families import decoder_config
from edgecore_llm.model.config import Layer

LLAMA = {"model_type": "llama", **SMALL}
GEMMA3 = {"model_type": "gemma3_text", **SMALL, "head_dim": 16, "sliding_window": 8, "num_hidden_layers": 7}


def test_both_generations_of_rotary_keys_mean_the_same():
    scaling = {key: value for key, value in LLAMA3_ROPE.items() if key != "rope_theta"}
    old = decoder_config({**LLAMA, "rope_theta": 5000.0, "rope_scaling": scaling})
    assert old == decoder_config({**LLAMA, "rope_parameters": LLAMA3_ROPE})
    linear = {"rope_type": "linear", "factor": 8.0}
    old = decoder_config({**GEMMA3, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": linear})
    new = {"full_attention": {"rope_theta": 1e6, **linear}, "sliding_attention": {"rope_theta": 1e4}}
    assert old == decoder_config({**GEMMA3, "rope_parameters": new})


def test_layers_get_their_window_and_their_rotary_positions():
    assert decoder_config(GEMMA3).layers == (*[Layer(1, 8)] * 5, Layer(0, 0), Layer(1, 8))
    smollm3 = decoder_config({"model_type": "smollm3", **SMALL, "num_hidden_layers": 5})
    assert [layer.rope for layer in smollm3.layers] == [0, 0, 0, None, 0]
    unused = {"model_type": "qwen2", **SMALL, "use_sliding_window": False, "sliding_window": 10}
    assert {layer.window for layer in decoder_config(unused).layers} == {0}
    assert {layer.window for layer in decoder_config({"model_type": "mistral", **SMALL}).layers} == {4096}
    no_window = {"model_type": "mistral", **SMALL, "sliding_window": None}
    assert {layer.window for layer in decoder_config(no_window).layers} == {0}


def test_the_factor_of_embeddings_has_the_precision_of_the_training():
    assert decoder_config({**GEMMA3, "hidden_size": 1152}).embedding_multiplier == pytest.approx(1152**0.5)
    assert decoder_config({**GEMMA3, "hidden_size": 1152, "torch_dtype": "bfloat16"}).embedding_multiplier == 34.0


def test_the_text_part_of_a_multimodal_configuration_is_read():
    whole = {"model_type": "gemma3", "text_config": {key: GEMMA3[key] for key in GEMMA3 if key != "model_type"}}
    assert decoder_config(whole) == decoder_config(GEMMA3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mamba"}, "models of type 'mamba' are not supported; these are: llama, "),
        ({"hidden_size": None}, "the configuration of the model has no hidden_size"),
        ({"vocab_size": 1 << 40}, "vocab_size of the model's configuration is 1099511627776, which is not a possible"),
        ({"num_hidden_layers": -1}, "num_hidden_layers of the model's configuration is -1"),
        ({"num_hidden_layers": 1 << 20}, "num_hidden_layers of the model's configuration is 1048576"),
        ({"num_key_value_heads": 3}, "4 attention heads cannot share 3 heads of keys and values"),
        ({"hidden_act": "relu"}, "the activation 'relu' is not supported"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps of the model's configuration is 'small'"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rotary positions of kind 'dynamic' are not supported"),
        ({"rope_scaling": {"type": "linear"}}, "factor of the model's configuration is None"),
        ({"rope_theta": 0.0}, "rotary positions cannot turn 16 of 16 values with the base 0.0"),
        ({"partial_rotary_factor": 2.0}, "rotary positions cannot turn 32 of 16 values"),
        ({"layer_types": ["full_attention"]}, "layer_types of the model's configuration has 1 entries for 3 layers"),
        ({"quantization_config": {}}, "quantized checkpoints of Hugging Face are not supported"),
        (
            {"rope_scaling": {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}},
            "short_factor of the rotary positions is no list of 8 numbers",
        ),
    ],
)
def test_a_configuration_that_is_not_possible_is_one_clear_sentence(changes, message):
    with pytest.raises(CheckpointError) as caught:
        decoder_config({**LLAMA, **changes})
    assert message in str(caught.value)
