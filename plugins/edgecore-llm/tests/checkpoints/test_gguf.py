"""GGUF files: round trips, blocks beside the package of llama.cpp, and damage."""

from __future__ import annotations

import dataclasses
import struct

import numpy as np
import pytest
import torch
from llm_models import StateDict, random_model

from edgecore_llm.checkpoints.gguf_blocks import BLOCKS, decode_rows
from edgecore_llm.checkpoints.gguf_file import GgufFile
from edgecore_llm.checkpoints.open import open_checkpoint
from edgecore_llm.errors import CheckpointError
from edgecore_llm.families import decoder_config
from edgecore_llm.model.load import load_decoder

gguf = pytest.importorskip("gguf")
pytest.importorskip("transformers")
llm_gguf = pytest.importorskip("llm_gguf")


@pytest.mark.parametrize("name", llm_gguf.ARCHITECTURES)
def test_a_written_model_is_read_as_it_was(name, tmp_path):
    model, path = random_model(name), tmp_path / "model.gguf"
    if name == "mistral":  # a GGUF file of a Mistral says llama, which has no window
        model.config.sliding_window = None
    if name.startswith("qwen"):
        model.config.use_sliding_window, model.config.layer_types = False, None
    if name == "gemma2":  # the files do not have it
        model.config.query_pre_attn_scalar = 16
    llm_gguf.write_gguf(path, model, llm_gguf.ARCHITECTURES[name])
    checkpoint = open_checkpoint(path)
    assert checkpoint.eos_ids == (2,)
    expected = load_decoder(decoder_config(model.config.to_dict()), StateDict(model), context=300, chunk=8)
    found = load_decoder(checkpoint.config, checkpoint, context=300, chunk=8)
    same = {"family": expected.config.family, "max_context": expected.config.max_context}
    assert dataclasses.replace(found.config, norm_offset=0, ropes=(), **same) == dataclasses.replace(
        expected.config, norm_offset=0, ropes=(), o_bias=found.config.o_bias, attention_scale=found.config.attention_scale,
        norm_eps=found.config.norm_eps, residual_multiplier=found.config.residual_multiplier,
    )  # fmt: skip
    for attribute in ("attention_scale", "norm_eps", "residual_multiplier"):  # float32 in the file
        assert getattr(found.config, attribute) == pytest.approx(getattr(expected.config, attribute))
    assert found.state_dict().keys() == expected.state_dict().keys()
    for key, value in expected.state_dict().items():
        torch.testing.assert_close(found.state_dict()[key], value, rtol=0, atol=2e-6 if "rope" in key else 0)


@pytest.mark.parametrize("kind", sorted(BLOCKS))
def test_blocks_have_the_sizes_of_llama_cpp_and_stand_for_numbers(kind):
    block, kind = BLOCKS[kind], gguf.GGMLQuantizationType(kind)
    assert (block.name, (block.size, block.nbytes)) == (kind.name, gguf.GGML_QUANT_SIZES[kind])
    rows = np.zeros((5, 4 * block.nbytes), np.uint8)
    rows.flags.writeable = False  # as those of a mapped file
    values = decode_rows(block, rows)
    assert (values.shape, values.dtype, values.flags.writeable) == ((5, 4 * block.size), np.float32, True)
    assert not values.any()


@pytest.mark.parametrize(
    ("name", "steps"), [("F32", 0), ("F16", 0), ("BF16", 0), ("Q8_0", 0.5), ("Q4_0", 1), ("Q5_1", 1)]
)
def test_quantized_values_come_back_within_a_step(name, steps):
    kind = gguf.GGMLQuantizationType[name]
    values = np.linspace(-8, 8, 32, dtype=np.float32)[None]
    if steps == 0:
        values = np.round(values)
    step = {"Q8_0": 8 / 127, "Q4_0": 1, "Q5_1": 16 / 31}.get(name, 0)
    found = decode_rows(BLOCKS[kind], gguf.quants.quantize(values, kind).view(np.uint8))
    assert np.abs(found - values).max() <= steps * step * 1.01


def test_quantized_rows_of_q_and_k_come_back_in_order(tmp_path):
    model, path = random_model("llama2"), tmp_path / "model.gguf"
    kind = gguf.GGMLQuantizationType.Q8_0

    def quantize(name, value):
        return (gguf.quants.quantize(value, kind), kind) if value.ndim == 2 else (value, None)

    llm_gguf.write_gguf(path, model, "llama", quantize)
    checkpoint = open_checkpoint(path)
    for name, value in StateDict(model).tensors.items():
        expected = value
        if value.ndim == 2:
            expected = torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(value.numpy(), kind), kind))
            assert torch.equal(checkpoint.read(name, 3, 9), expected[3:9])
        assert torch.equal(checkpoint.read(name), expected)


@pytest.fixture
def small(tmp_path):
    """A file with two tensors, a list of strings, and one of numbers."""
    path = tmp_path / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_token_list(["a", "bc", "def"])
    writer.add_token_scores([0.5, 1.5, 2.5])
    writer.add_bool("flag", True)
    writer.add_tensor("token_embd.weight", np.ones((3, 32), np.float32))
    writer.add_tensor("output_norm.weight", np.ones(32, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_metadata_of_all_kinds_is_read(small):
    file = GgufFile(small)
    assert file.metadata["tokenizer.ggml.tokens"] == ["a", "bc", "def"]
    assert file.metadata["tokenizer.ggml.scores"] == [0.5, 1.5, 2.5]
    assert file.metadata["flag"] is True
    assert file.tensors["token_embd.weight"].shape == (3, 32)


def test_a_truncated_file_is_one_clear_sentence_at_every_length(small, tmp_path):
    content, path = small.read_bytes(), tmp_path / "cut.gguf"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="truncated|is no GGUF file|cannot be read"):
            GgufFile(path)


def test_hostile_counts_are_refused_before_they_are_used(small, tmp_path):
    content, path = small.read_bytes(), tmp_path / "hostile.gguf"
    huge = struct.pack("<Q", (1 << 63) - 1)
    tokens = content.index(b"tokenizer.ggml.tokens") + len("tokenizer.ggml.tokens")
    name = content.index(b"token_embd.weight")
    for place, message in (
        (8, "room for fewer than 9223372036854775807 tensors"),
        (16, "room for fewer than 9223372036854775807 entries of metadata"),
        (24, "ends within its header"),  # the length of a key
        (tokens + 8, "room for fewer than 9223372036854775807 strings"),
        (name + 17 + 4, "tensor 'token_embd.weight'"),  # a dimension
        (name + 17 + 4 + 16 + 4, "tensor 'token_embd.weight' ends at byte"),  # its offset
    ):
        path.write_bytes(content[:place] + huge + content[place + 8 :])
        with pytest.raises(CheckpointError, match=message):
            GgufFile(path)


def test_damaged_files_raise_no_other_error(small, tmp_path):
    content, generator = np.frombuffer(small.read_bytes(), np.uint8), np.random.default_rng(0)
    path = tmp_path / "damaged.gguf"
    opened = 0
    for _ in range(600):
        damaged = content.copy()
        places = generator.integers(0, 420, generator.integers(1, 4))
        damaged[places] = generator.choice(np.array([0, 1, 2, 8, 9, 127, 128, 255], np.uint8), len(places))
        path.write_bytes(damaged.tobytes())
        try:
            checkpoint = open_checkpoint(path)
            opened += 1
            load_decoder(checkpoint.config, checkpoint, context=8, chunk=2)
        except CheckpointError as error:
            assert "\n" not in str(error)
    assert opened


def test_what_is_not_supported_is_said(small, tmp_path):
    content, path = small.read_bytes(), tmp_path / "other.gguf"
    for before, after, message in (
        (b"llama", b"mamba", "has architecture 'mamba'; these are supported: llama"),
        (b"GGUF\x03", b"GGUF\x01", "has version 1 of GGUF"),
        (b"token_embd", b"other_embd", "has no tensor token_embd.weight"),
    ):
        path.write_bytes(content.replace(before, after, 1))
        with pytest.raises(CheckpointError, match=message):
            assert open_checkpoint(path).config
