"""Files of executorch's exporter of language models run here as they run there."""

from __future__ import annotations

import pytest
import torch
from llm_peer_export import PACKED, VOCABULARY, need_peer, peer_file

import edgecore

portable_lib = need_peer()
FORMS = {
    "float32": {},
    "8da4w": PACKED,
    "8da4w, more in XNNPACK": {
        **PACKED, "backend.xnnpack.extended_ops": True, "quantization.embedding_quantize": "4,32",
    },
    "without operators for attention": {"model.use_sdpa_with_kv_cache": False},
    "logits of all tokens": {"debug.generate_full_logits": True},
    "ring with sinks": {"model.use_attention_sink": "2,16"},
    "rings of some layers": {"model.local_global_attention": [16, 0]},
}  # fmt: skip
"""Settings of the peer's exporter."""


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=() if form == "float32" else pytest.mark.full) for form in FORMS]
)
def test_a_file_of_the_peer_gives_its_logits_and_tokens(form, tmp_path):
    file = peer_file(tmp_path, FORMS[form])
    theirs, ours = portable_lib._load_for_executorch(str(file)), edgecore.load(file)
    tokens, position, answers = torch.tensor([[5, 17, 80, 2, 9]]), 0, []
    for length in (5, 1, 3, 7, *[1] * 30):
        given = tokens[:, :length], torch.tensor([position])
        expected = theirs.forward(given)[0]
        found = torch.from_numpy(ours.forward(*given).numpy())
        if "8da4w" in form:
            # Both round inputs to 8 bits; one that lies between two steps goes here or there by the last bit of a sum.
            assert (found - expected).square().mean() < 1e-3 * expected.square().mean()
        else:
            torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
        last = expected.reshape(-1, VOCABULARY)[-1].argmax().item()
        assert found.reshape(-1, VOCABULARY)[-1].argmax().item() == last
        answers.append(last)
        position += length
        tokens = torch.tensor([[last, 4, 60, 33, 7, 21, 90]])
    assert len(set(answers)) > 5  # the model does not repeat one token
