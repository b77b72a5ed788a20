"""Folders of Hugging Face, written by transformers: round trips, and damage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from llm_models import MODELS, StateDict, random_model

from edgecore_llm.checkpoints.open import open_checkpoint
from edgecore_llm.errors import CheckpointError
from edgecore_llm.families import decoder_config
from edgecore_llm.model.load import load_decoder

pytest.importorskip("transformers")


def load(checkpoint, config=None):
    return load_decoder(config or checkpoint.config, checkpoint, context=32, chunk=8)


@pytest.fixture
def folder(tmp_path):
    random_model("llama2").save_pretrained(tmp_path, max_shard_size="100KB")
    return tmp_path


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_is_read_as_it_was(name, tmp_path):
    model = random_model(name)
    model.save_pretrained(tmp_path, max_shard_size="60KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.config == decoder_config(model.config.to_dict())
    assert checkpoint.eos_ids == (2,)
    expected = load_decoder(checkpoint.config, StateDict(model), context=32, chunk=8).state_dict()
    found = load(checkpoint).state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)


def test_tensors_keep_their_dtype_and_are_read_by_rows(tmp_path):
    model = random_model("llama3").to(torch.bfloat16)
    model.save_pretrained(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    rows = checkpoint.read("layers.1.mlp.up_proj.weight", 5, 9)
    assert rows.dtype == torch.bfloat16
    assert torch.equal(rows, model.model.layers[1].mlp.up_proj.weight[5:9])


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell the mapped files so")
def test_one_shard_at_a_time_is_mapped(folder):
    checkpoint = open_checkpoint(folder)
    assert len(list(folder.glob("model-*.safetensors"))) > 2
    for name in checkpoint.names():
        checkpoint.read(name)
        mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
        assert len(mapped & {str(shard) for shard in folder.glob("model-*.safetensors")}) == 1


def test_several_tokens_may_end_a_text(folder):
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9]}))
    assert open_checkpoint(folder).eos_ids == (7, 9)


def last_shard(folder):
    return sorted(folder.glob("*.safetensors"))[-1]


def test_a_missing_shard_is_named(folder):
    last_shard(folder).unlink()
    with pytest.raises(CheckpointError, match=r"lacks the shard 'model-0000\d-of-0000\d.safetensors', which model"):
        open_checkpoint(folder)


@pytest.mark.parametrize("keep", [0, 5, 8, 200, -1])
def test_a_truncated_shard_is_found_before_any_weight_is_read(folder, keep):
    path = last_shard(folder)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="is truncated"):
        open_checkpoint(folder)


def test_a_damaged_header_is_one_sentence(folder):
    path = last_shard(folder)
    for content in (b"[]", b'{"a": 1}', b'{"a": {"data_offsets": []}}', b"{nonsense"):
        path.write_bytes(len(content).to_bytes(8, "little") + content)
        with pytest.raises(CheckpointError, match="has a damaged header"):
            open_checkpoint(folder)


def test_an_index_that_does_not_fit_its_files_is_an_error(folder):
    index = folder / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    places = content["weight_map"]
    for name, place, message in (
        ("model.norm.bias", last_shard(folder).name, "lacks tensor 'model.norm.bias', which"),
        ("model.norm.bias", "../other.safetensors", "names a file outside of its folder"),
        ("model.norm.bias", 3, "has no weight_map"),
    ):
        index.write_text(json.dumps({**content, "weight_map": {**places, name: place}}))
        with pytest.raises(CheckpointError, match=message):
            open_checkpoint(folder)
    index.unlink()
    with pytest.raises(CheckpointError, match="has no model.safetensors and no model.safetensors.index.json"):
        open_checkpoint(folder)


def test_a_checkpoint_that_does_not_fit_its_configuration_is_an_error(folder):
    config = folder / "config.json"
    values = json.loads(config.read_text())
    for changes, message in (
        ({"intermediate_size": 97}, "gate_proj.weight of the checkpoint has shape [96, 64], not [97, 64]"),
        ({"num_hidden_layers": 4}, "the checkpoint has no tensor layers.3.self_attn.q_proj.weight"),
    ):
        config.write_text(json.dumps({**values, **changes}))
        with pytest.raises(CheckpointError) as caught:
            load(open_checkpoint(folder))
        assert message in str(caught.value)
    config.write_text("[1]")
    with pytest.raises(CheckpointError, match="holds no JSON object"):
        open_checkpoint(folder)
    config.unlink()
    with pytest.raises(CheckpointError, match="cannot be read: No such file"):
        open_checkpoint(folder)


def test_a_checkpoint_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        open_checkpoint(tmp_path / "none")
