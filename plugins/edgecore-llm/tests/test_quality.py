"""Quality of exported files, on a model that is trained in the test."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from llm_characters import CONTEXT, TRAINING, CharacterCheckpoint, text_tokens
from llm_models import Checkpoint

from edgecore_llm.cli.evaluate import perplexity
from edgecore_llm.errors import CheckpointError, ConfigError
from edgecore_llm.export import ExportOptions, export
from edgecore_llm.model.calibrate import calibrate
from edgecore_llm.model.layers import Precision
from edgecore_llm.quantize.gptq import loss, quantize_by_inputs
from edgecore_llm.quantize.rounding import quantize
from edgecore_llm.runner.session import Model

pytest.importorskip("transformers")
pytest.importorskip("zoo")
PACKED = Precision(linear=4, embedding=8, output=8)


@pytest.fixture(
    scope="module",
    params=[pytest.param((256, 4, 120), id="large", marks=pytest.mark.full), pytest.param((96, 2, 150), id="small")],
)
def checkpoint(request) -> CharacterCheckpoint:
    """2.4 million parameters, or 0.17 million in quick tests."""
    return CharacterCheckpoint(*request.param)


def exported(checkpoint, path, precision=Precision(), calibration=()) -> Model:
    options = ExportOptions(context=CONTEXT, chunk=128, precision=precision, calibration=calibration)
    export(checkpoint, path, options)
    return Model(path, threads=1)


def test_greedy_answers_are_those_of_transformers(checkpoint, tmp_path):
    prompt = text_tokens()[TRAINING : TRAINING + 20]
    session = exported(checkpoint, tmp_path / "model.pte").new_session()
    found = torch.tensor(list(session.generate(prompt.tolist(), 200)))
    assert len(found) == 200
    assert len(found.unique()) > 3  # it writes something
    logits = checkpoint.model(torch.cat([prompt, found[:-1]])[None]).logits[0, 19:]
    assert torch.equal(found, logits.argmax(1))


def measure(checkpoint, folder, precision=Precision(), calibration=()) -> float:
    """Return the perplexity of a file on text that was not in the training."""
    model = exported(checkpoint, folder / "model.pte", precision, calibration)
    return perplexity(model.new_session(), text_tokens()[TRAINING : TRAINING + 4096].tolist(), CONTEXT)[0]


def test_few_bits_cost_little_perplexity(checkpoint, tmp_path):
    best = measure(checkpoint, tmp_path)
    assert best < 25  # of 100 characters: it has learnt
    packed = Precision(linear=4, embedding=8, output=8, cache=8)
    assert measure(checkpoint, tmp_path, packed, text_tokens()[:2048].tolist()) < 1.05 * best


@pytest.mark.full
def test_each_kind_of_few_bits_costs_little_perplexity(checkpoint, tmp_path):
    best = measure(checkpoint, tmp_path)
    assert measure(checkpoint, tmp_path, PACKED) < 1.05 * best
    assert measure(checkpoint, tmp_path, PACKED, text_tokens()[:2048].tolist()) < 1.01 * best
    assert measure(checkpoint, tmp_path, Precision(4, 8, 8, group=256)) < 1.05 * best
    assert measure(checkpoint, tmp_path, Precision(8, 8, 8)) < 1.01 * best
    assert measure(checkpoint, tmp_path, Precision(cache=16)) < 1.001 * best
    assert measure(checkpoint, tmp_path, Precision(cache=8)) < 1.01 * best


def test_calibration_lowers_the_loss_of_every_layer(checkpoint):
    tokens = text_tokens()[:1024].tolist()
    for group in (32, 128):
        precision = Precision(4, 8, 8, group)
        found = list(calibrate(checkpoint.config, checkpoint, tokens, CONTEXT, precision))
        names = {matrix.name for matrix in found}
        assert len(found) == 4 * len(checkpoint.config.layers) == len(names)
        assert "layers.1.mlp.down_proj" in names
        assert all(matrix.loss < 0.7 * matrix.nearest_loss for matrix in found)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("group", [32, 64, 0])
def test_rounding_by_inputs_of_matrices_of_any_size(bits, group):
    torch.manual_seed(0)
    weight, x = torch.randn(20, 72), torch.randn(300, 72) @ torch.randn(72, 72)
    x[:, 70:] = 0  # inputs that are never used
    products = x.T @ x
    rounded = quantize_by_inputs(weight, products, bits, group)
    nearest = quantize(weight, bits, group)
    assert rounded.scales.shape == nearest.scales.shape
    assert loss(weight, rounded.dequantize(), products) < 0.7 * loss(weight, nearest.dequantize(), products)
    change = (rounded.dequantize() - weight) @ x.T
    share = np.square(change.numpy()).sum() / np.square((weight @ x.T).numpy()).sum()
    assert loss(weight, rounded.dequantize(), products) == pytest.approx(share, rel=1e-3)


def test_errors_of_calibration(checkpoint):
    with pytest.raises(ConfigError, match="the linear layers stay in float32, so there is nothing to calibrate"):
        list(calibrate(checkpoint.config, checkpoint, [1], CONTEXT, Precision()))
    with pytest.raises(ConfigError, match="calibration needs tokens of the model's vocabulary"):
        list(calibrate(checkpoint.config, checkpoint, [128], CONTEXT, PACKED))


def test_a_damaged_checkpoint_is_no_error_of_the_rounding():
    checkpoint = Checkpoint("llama3")
    tensors = checkpoint.tensors
    name = "layers.1.self_attn.o_proj.weight"
    checkpoint.tensors = {**tensors, name: torch.full_like(tensors[name], float("nan"))}
    with pytest.raises(
        CheckpointError, match=r"the matrix layers\.1\.self_attn\.o_proj or its inputs have values that are"
    ):
        list(calibrate(checkpoint.config, checkpoint, [1, 2], CONTEXT, PACKED))
    checkpoint.tensors = {name: value for name, value in tensors.items() if "embed_tokens" not in name}
    with pytest.raises(CheckpointError, match=r"the checkpoint has no tensor embed_tokens\.weight"):
        list(calibrate(checkpoint.config, checkpoint, [1, 2], CONTEXT, PACKED))
