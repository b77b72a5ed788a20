"""The decoder for other backends: its logits are those of transformers, and each backend's file computes them."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest
import torch
from llm_models import MODELS, Checkpoint

import edgecore
from edgecore_llm.errors import ConfigError
from edgecore_llm.model.layers import Precision
from edgecore_llm.model.portable import load_portable
from edgecore_llm.portable import TARGETS, PortableOptions, export_portable

pytest.importorskip("transformers")
TOKENS = torch.randint(0, 211, (1, 150), generator=torch.Generator().manual_seed(1))


def logits(forward, lengths):
    """Return the logits after calls of these numbers of tokens."""
    found, start = [], 0
    for length in lengths:
        found.append(forward(TOKENS[:, start : start + length], torch.tensor([start])))
        start += length
    return torch.cat(found)


def test_matrices_that_are_read_in_parts_are_complete(monkeypatch):
    checkpoint = Checkpoint("llama2")
    whole = load_portable(checkpoint.config, checkpoint, context=160, form="aten").state_dict()
    monkeypatch.setattr("edgecore_llm.model.load.PART_ELEMENTS", 1)
    parts = load_portable(checkpoint.config, checkpoint, context=160, form="aten").state_dict()
    torch.testing.assert_close(parts, whole, rtol=0, atol=0)


@pytest.mark.parametrize("form", ["aten", "llama", "products"])
@pytest.mark.parametrize("name", MODELS)
def test_the_decoder_computes_the_logits_of_transformers(name, form):
    if form == "llama" and find_spec("executorch") is None:
        pytest.skip("needs the operators of executorch")
    checkpoint = Checkpoint(name)
    expected = checkpoint.model(TOKENS, use_cache=False).logits[0]
    decoder = load_portable(checkpoint.config, checkpoint, context=160, form=form)
    lengths = [50, 1, 7, 1, 91]
    found = logits(decoder, lengths)
    torch.testing.assert_close(found, expected[torch.tensor(lengths).cumsum(0) - 1], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("backend", "bits"),
    [
        ("xnnpack", 4),
        pytest.param("xnnpack", None, marks=pytest.mark.full),
        pytest.param("openvino", None, marks=pytest.mark.full),
        pytest.param("vulkan", None, marks=pytest.mark.full),
        pytest.param("qnn", None, marks=pytest.mark.full),
        ("coreml", None),
    ],
)
def test_the_file_of_a_backend_computes_the_logits(backend, bits, tmp_path):
    compiler = {"qnn": "onnxruntime_qnn", "coreml": "coremltools"}.get(backend, "edgecore")
    if find_spec(f"edgecore_{backend}") is None or find_spec(compiler) is None:
        pytest.skip(f"needs edgecore-{backend}")
    checkpoint, file = Checkpoint("llama3"), tmp_path / "model.pte"
    precision = Precision(linear=bits, embedding=bits and 8, output=bits and 8)
    report = export_portable(checkpoint, file, PortableOptions(backend, context=160, chunk=64, precision=precision))
    assert f"x {backend}Backend".lower() in report.lower()
    decoder = load_portable(checkpoint.config, checkpoint, context=160, form="aten", precision=precision)
    lengths = [50, 1, 7, 1, 64] if TARGETS[backend].is_dynamic else [1] * 8
    standin = {"coreml": {"standin": sys.executable, "model_cache_folder": str(tmp_path)}}
    forward = edgecore.load(file, options=standin if backend == "coreml" else None).forward
    found = logits(lambda *given: torch.from_numpy(forward(*given).numpy()), lengths)
    expected = logits(decoder, lengths)
    if backend == "coreml":
        assert "operators delegated: 198 of 198" in report
    if backend == "qnn":  # which computes in float16
        torch.testing.assert_close(found, expected, rtol=0, atol=0.03)
    elif bits is None:
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    else:
        # Both round inputs to 8 bits; one that lies between two steps goes here or there by the last bit of a sum.
        assert (found - expected).square().mean() < 1e-3 * expected.square().mean()


def test_errors_of_backends(tmp_path):
    checkpoint, file = Checkpoint("llama3"), tmp_path / "model.pte"
    with pytest.raises(
        ConfigError, match="there is no backend tosa for language models; use one of executorch, xnnpack"
    ):
        export_portable(checkpoint, file, PortableOptions("tosa"))
    with pytest.raises(ConfigError, match="vulkan computes no linear layers with integer weights of this form; use"):
        export_portable(checkpoint, file, PortableOptions("vulkan", precision=Precision(linear=4)))
    with pytest.raises(ConfigError, match="the context 513 does not lie between 2 and the model's 512"):
        export_portable(checkpoint, file, PortableOptions("xnnpack", context=513))
    for group in (-32, 48):
        with pytest.raises(ConfigError, match=f"the group {group} is neither 0 nor a multiple of 32"):
            export_portable(checkpoint, file, PortableOptions("xnnpack", 64, precision=Precision(4, group=group)))
    with pytest.raises(ConfigError, match="the token 211 is outside of the model's vocabulary of 211"):
        export_portable(checkpoint, file, PortableOptions("xnnpack", 64, bos_id=211))
    assert not file.exists()


def test_matrices_that_get_more_bits_than_asked_for_are_reported(tmp_path):
    if find_spec("edgecore_xnnpack") is None:
        pytest.skip("needs edgecore-xnnpack")
    options = PortableOptions("xnnpack", 64, precision=Precision(4, group=512))
    report = export_portable(Checkpoint("llama3"), tmp_path / "model.pte", options)
    assert "matrices have 8 bits: their rows do not divide into groups of 512" in report
