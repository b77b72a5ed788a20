"""SpinQuant and QAT checkpoints: their integers stay, and their logits are those of an eager model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from llm_commands import call
from llm_models import run_in_chunks
from llm_quantized import INNER, RANK, write

import edgecore
from edgecore_llm.checkpoints.open import open_checkpoint, stored_precision
from edgecore_llm.errors import CheckpointError, ConfigError
from edgecore_llm.export import ExportOptions, export
from edgecore_llm.model.layers import Precision
from edgecore_llm.model.load import load_decoder
from edgecore_llm.model.portable import load_portable
from edgecore_llm.quantize.hadamard import factors, transform
from edgecore_llm.quantize.packed import unpack
from edgecore_llm.runner.session import Model

pytest.importorskip("transformers")
hadamard = pytest.importorskip("scipy.linalg").hadamard
TOKENS = torch.randint(0, 211, (60,), generator=torch.Generator().manual_seed(1))
KINDS = {
    "spinquant": {"method": "spinquant"},
    "spinquant, output of 4 bits": {"method": "spinquant", "output_bits": 4},
    "qat": {"method": "qat"},
    "qat with adapters": {"method": "qat", "rank": RANK},
}


def opened(written, method=None):
    return open_checkpoint(written.folder / "consolidated.pth", written.folder / "params.json", method)


@pytest.fixture(params=KINDS)
def written(request, tmp_path):
    made = write(tmp_path, **KINDS[request.param])
    made.method = KINDS[request.param]["method"]
    return made


def test_logits_are_those_of_an_eager_model(written, tmp_path):
    checkpoint = opened(written, written.method)
    expected = written.model(TOKENS[None], use_cache=False).logits[0]
    decoder = load_decoder(checkpoint.config, checkpoint, context=64, chunk=16)
    torch.testing.assert_close(run_in_chunks(decoder, TOKENS, 16), expected, rtol=0, atol=1e-4)
    kept = stored_precision(checkpoint)
    export(checkpoint, tmp_path / "model.pte", ExportOptions(context=64, chunk=16, precision=kept))
    model = Model(tmp_path / "model.pte", threads=1)
    found = model.new_session().logits(TOKENS.tolist())
    # Inputs are rounded to 8 bits.
    assert np.square(found - expected.numpy()).mean() < 1e-3 * expected.square().mean()
    reference = run_in_chunks(
        load_decoder(checkpoint.config, checkpoint, context=64, chunk=16, precision=kept), TOKENS, 16
    )
    assert np.square(found - reference.numpy()).mean() < 1e-4 * reference.square().mean()
    session = model.new_session()
    one_by_one = np.concatenate([session.logits([token]) for token in TOKENS.tolist()])
    if not checkpoint.config.adapter_rank:  # whose products are floats
        assert np.array_equal(one_by_one, found)
    np.testing.assert_allclose(one_by_one, found, rtol=0, atol=1e-3)


def test_integers_and_scales_stay(written):
    checkpoint = opened(written, written.method)
    precision = stored_precision(checkpoint)
    output = 4 if written.state["output.scales"].ndim == 2 else 8
    assert precision == Precision(4, 8, output, 32)
    decoder = load_decoder(checkpoint.config, checkpoint, context=64, chunk=16, precision=precision)
    for ours, theirs, columns in (
        (decoder.layers[1].mlp.down_proj, "layers.1.feed_forward.w2", INNER),
        (decoder.layers[0].self_attn.o_proj, "layers.0.attention.wo", 64),
        (decoder.embed_tokens, "tok_embeddings", 64),
        (decoder.lm_head, "output", 64),
    ):
        found = unpack(ours.value, ours.rows, columns)
        assert torch.equal(found.values, written.state[f"{theirs}.weight"])
        scales = written.state[f"{theirs}.scales"].reshape(ours.rows, -1)
        assert torch.equal(found.scales, scales.half().expand(-1, columns // 32))
    gates = unpack(decoder.layers[0].mlp.gate_up_proj.value, 2 * INNER, 64).values.reshape(-1, 2, 16, 64)
    assert torch.equal(gates[:, 0].flatten(0, 1), written.state["layers.0.feed_forward.w1.weight"])
    assert torch.equal(gates[:, 1].flatten(0, 1), written.state["layers.0.feed_forward.w3.weight"])


@pytest.mark.parametrize("form", ["aten", "llama"])
def test_other_backends_get_the_same_integers(written, form):
    if form == "llama":
        pytest.importorskip("executorch")
    checkpoint = opened(written, written.method)
    expected = written.model(TOKENS[None], use_cache=False).logits[0]
    for precision, share in ((Precision(), 1e-5), (stored_precision(checkpoint), 1e-2)):
        decoder = load_portable(checkpoint.config, checkpoint, context=64, form=form, precision=precision)
        found = torch.cat(
            [decoder(TOKENS[None, :40], torch.tensor([0])), decoder(TOKENS[None, 40:], torch.tensor([40]))]
        )
        assert (found - expected[[39, 59]]).square().mean() < share * expected.square().mean()
    matrix = decoder.layers[0].mlp.up_proj
    assert torch.equal(matrix.value, written.state["layers.0.feed_forward.w3.weight"])
    torch.testing.assert_close(matrix.scales, written.state["layers.0.feed_forward.w3.scales"], rtol=2**-7, atol=0)


def test_a_checkpoint_is_exported_by_options_and_by_settings(tmp_path):
    write(tmp_path, "spinquant")
    pair = (tmp_path / "consolidated.pth", "--params", tmp_path / "params.json")
    call("export", *pair, "--quantized-by", "spinquant", "--context", 64, "--chunk", 16, "-o", tmp_path / "a.pte")
    settings = (
        f"+base.checkpoint={pair[0]}", f"+base.params={pair[2]}", "+base.preq_mode=8da4w_output_8da8w",
        "+base.preq_embedding_quantize=8,0", "+base.preq_group_size=32", "+export.max_context_length=64",
        "+export.max_seq_length=16",
    )  # fmt: skip
    call("export", *settings, "+quantization.use_spin_quant=native", "-o", tmp_path / "b.pte")
    call("export", *settings, "+quantization.use_qat=true", "-o", tmp_path / "c.pte")
    logits = [Model(tmp_path / f"{name}.pte").new_session().logits(TOKENS[:20].tolist()) for name in "abc"]
    assert np.array_equal(logits[0], logits[1])
    assert not np.allclose(logits[0], logits[2], atol=1e-2)  # without the rotation
    with pytest.raises(ConfigError, match=r"the checkpoint has .*group=32.* ask for .*group=64"):
        call("export", *settings, "+quantization.use_qat=true", "+base.preq_group_size=64", "-o", tmp_path / "d.pte")
    with pytest.raises(ConfigError, match="adapters of rank 0; .* ask for .* and 16"):
        call("export", *settings, "+quantization.use_qat=true", "+base.use_lora=16", "-o", tmp_path / "d.pte")


def test_the_parameters_may_say_how_a_checkpoint_was_quantized(tmp_path):
    written = write(tmp_path, "spinquant")
    with pytest.raises(
        CheckpointError, match="is quantized, and its parameters do not say how; export with --quantized"
    ):
        opened(written)
    written.params(quantization_args={"group_size": 32, "spinquant": True})
    assert opened(written).config.rotates_inner
    with pytest.raises(CheckpointError, match="name SpinQuant as the method, not qat"):
        opened(written, "qat")
    written.params(quantization_args={"group_size": 32, "spinquant": False})
    assert not opened(written).config.rotates_inner
    written.params(lora_args=None, quantization_args={"group_size": 32, "spinquant": None})
    with pytest.raises(CheckpointError, match="is quantized, and its parameters do not say how"):
        opened(written)
    written.params(lora_args={"rank": 4}, quantization_args=None)
    assert opened(written).config.adapter_rank == 4
    with pytest.raises(CheckpointError, match="describe adapters, which checkpoints of SpinQuant do not have"):
        opened(written, "spinquant")


def test_errors_of_quantized_checkpoints(tmp_path):
    written = write(tmp_path, "qat", rank=RANK)
    checkpoint = opened(written, "qat")
    with pytest.raises(ConfigError, match="the checkpoint is quantized already, so there is nothing to calibrate"):
        export(checkpoint, tmp_path / "x.pte", ExportOptions(64, 16, calibration=[1, 2]))
    written.params(lora_args=None)
    with pytest.raises(CheckpointError, match="has adapters, and its parameters lack lora_args with their rank"):
        opened(written, "qat")
    for wrong in ({"rank": -1}, {"rank": 10**9}, {"rank": "4"}, {"scale": 1}, {"rank": 4, "scale": None}, [4]):
        written.params(lora_args=wrong)
        with pytest.raises(CheckpointError, match=r"lora_args .* have no possible rank and scale"):
            opened(written, "qat")
    written.params(lora_args={"rank": RANK})
    original = dict(written.state)

    def damaged(name, value, message):
        written.state = {**original, name: value}
        if value is None:
            del written.state[name]
        written.save()
        with pytest.raises(CheckpointError, match=message):
            found = opened(written, "qat")
            load_decoder(found.config, found, context=64, chunk=16, precision=Precision(4, 8, 8))

    scales = original["layers.1.feed_forward.w2.scales"]
    damaged("layers.1.feed_forward.w2.zeros", torch.ones_like(scales), "has zero points other than 0")
    damaged("layers.1.feed_forward.w2.scales", scales * float("nan"), "has scales that are not finite")
    damaged("layers.1.feed_forward.w2.scales", scales[1:], "is no matrix of int8 with scales for its rows")
    damaged("layers.1.feed_forward.w2.scales", scales[:, :0], "is no matrix of int8 with scales for its rows")
    damaged("layers.1.feed_forward.w2.zeros", torch.tensor(0), "has zero points that are not those of its rows")
    damaged("layers.0.attention.wq.zeros", scales[:1, :2], "has zero points that are not those of its rows")
    damaged("layers.1.feed_forward.w2.scales", torch.tensor(1.0), "is no matrix of int8 with scales for its rows")
    damaged("layers.1.feed_forward.w2.scales", scales[:, :3], "has groups of other than a multiple of 32 columns")
    damaged("layers.1.feed_forward.w2.scales", None, r"has integers without layers.1.mlp.down_proj.scales")
    w2 = original["layers.1.feed_forward.w2.weight"]
    damaged("layers.1.feed_forward.w2.weight", w2 + torch.tensor(8, dtype=torch.int8), "has values beyond 4 bits")
    damaged("layers.0.attention.wq.adaptor.A.weight", None, r"has no tensor layers.0.self_attn.q_proj.adaptor.A.weight")
    damaged(
        "output.adaptor.A.weight", torch.ones(4, 64), "has the adapter lm_head.adaptor.A.weight; adapters belong to"
    )
    written.state = {name: value for name, value in original.items() if "adaptor" not in name}
    for layer in range(2):
        for name in ("w1", "w3"):
            for kind in ("weight", "scales", "zeros"):
                full = f"layers.{layer}.feed_forward.{name}.{kind}"
                written.state[full] = written.state[full][:96]
        for kind, columns in (("weight", 96), ("scales", 3), ("zeros", 3)):
            full = f"layers.{layer}.feed_forward.w2.{kind}"
            written.state[full] = written.state[full][:, :columns]
    written.save()
    written.params(lora_args=None)
    with pytest.raises(
        CheckpointError, match="needs a rotation of 96 values, and rotations are supported for powers of"
    ):
        assert opened(written, "spinquant").config
    assert opened(written, "qat").config


def test_floats_are_not_quantized_by_anything(tmp_path):
    written = write(tmp_path, "qat")
    is_float = {name: value.float() for name, value in written.state.items() if name.endswith("weight")}
    written.state = is_float
    written.save()
    assert stored_precision(opened(written)) is None
    with pytest.raises(CheckpointError, match="is not quantized, so qat is no method of it"):
        opened(written, "qat")
    with pytest.raises(CheckpointError, match=r"is no \.pth file with --params, so qat is no method of it"):
        open_checkpoint(tmp_path, None, "qat")


@pytest.mark.parametrize("size", [1, 2, 16, 128, 2048])
def test_the_rotation_is_the_hadamard_transform(size, tmp_path):
    x = torch.randn(5, size, generator=torch.Generator().manual_seed(0))
    expected = x @ torch.from_numpy(hadamard(size)).float() / size**0.5
    torch.testing.assert_close(transform(x, *factors(size)), expected)

    class Rotation(torch.nn.Module):
        def forward(self, x):
            return torch.ops.edgecore_llm.rotate(x)

    rows = torch.export.Dim("rows", min=1, max=5)
    edgecore.compile(Rotation().eval(), (x,), dynamic_shapes=({0: rows},), runtime="edgecore").save(
        tmp_path / "model.pte"
    )
    forward = edgecore.load(tmp_path / "model.pte").forward
    for count in (5, 1):
        torch.testing.assert_close(torch.from_numpy(np.array(forward(x[:count].numpy()))), expected[:count])


def test_a_rotation_needs_a_power_of_two():
    for size in (0, 3, 96):
        with pytest.raises(ValueError, match=f"a Hadamard transform needs a power of two, not {size}"):
            factors(size)
