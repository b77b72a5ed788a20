"""The decoder beside transformers, in calls of different lengths, and exported."""

from __future__ import annotations

import pytest
import torch
from llm_models import MODELS, StateDict, random_model, run_in_chunks

from edgecore_llm.families import decoder_config
from edgecore_llm.model.load import load_decoder

pytest.importorskip("transformers")
TOKENS = 300


@pytest.mark.parametrize("name", MODELS)
def test_logits_agree_with_transformers_at_every_position(name):
    model = random_model(name)
    tokens = torch.randint(0, 211, (TOKENS,), generator=torch.Generator().manual_seed(1))
    expected = model(tokens[None], use_cache=False).logits[0]
    assert expected.abs().max() > 0.5  # the model computes something
    config = decoder_config(model.config.to_dict())
    for chunk in (1, 7, 128):
        decoder = load_decoder(config, StateDict(model), context=320, chunk=chunk)
        torch.testing.assert_close(run_in_chunks(decoder, tokens, chunk), expected, rtol=0, atol=1e-4)


def small_decoder(name: str, chunk: int = 16):
    model = random_model(name)
    return load_decoder(decoder_config(model.config.to_dict()), StateDict(model), context=64, chunk=chunk)


@pytest.mark.parametrize("name", ["llama3", "gemma3"])
def test_the_exported_decoder_takes_any_number_of_tokens_and_rows(name):
    decoder = small_decoder(name)
    tokens = torch.randint(0, 211, (40,), generator=torch.Generator().manual_seed(1))
    expected = run_in_chunks(decoder, tokens, 16)
    for cache in decoder.buffers():
        if cache.ndim in (4, 5):
            cache.zero_()
    count, picked = torch.export.Dim("T", min=1, max=16), torch.export.Dim("R", min=1, max=16)
    example = (tokens[:4], torch.arange(4), torch.arange(3))
    program = torch.export.export(decoder, example, dynamic_shapes=({0: count}, {0: count}, {0: picked}))
    used = {str(node.target) for node in program.graph.nodes if "edgecore_llm" in str(node.target)}
    assert used == {f"edgecore_llm.{operator}.default" for operator in ("rope_update_cache", "attend")}
    module, start = program.module(), 0
    for length in (1, 16, 7, 1, 15):
        part, rows = tokens[start : start + length], torch.arange(length - 1, -1, -2)
        logits = module(part, torch.arange(start, start + length), rows)
        torch.testing.assert_close(logits, expected[start : start + length][rows], rtol=0, atol=1e-5)
        start += length


def test_layers_with_a_window_keep_no_more_rows_than_they_need():
    decoder = load_decoder(
        decoder_config(random_model("gemma3").config.to_dict()), StateDict(random_model("gemma3")), context=300, chunk=8
    )
    assert [layer.self_attn.v_cache.shape[2] for layer in decoder.layers] == [48] * 5 + [304]


def test_longrope_takes_the_list_for_the_context_of_the_decoder():
    rope = decoder_config(random_model("phi4").config.to_dict()).ropes[0]
    assert rope.divisors_for(128) == (1.0,) * 6
    assert rope.divisors_for(129) == pytest.approx([1.0, 1.1, 1.2, 1.3, 1.4, 1.5])


def test_the_functional_form_of_the_exported_decoder_computes_the_same():
    decoder = small_decoder("llama3")
    tokens, rows = torch.arange(5), torch.tensor([4])
    expected = decoder(tokens, torch.arange(5), rows)
    program = torch.export.export(decoder, (tokens, torch.arange(5), rows)).run_decompositions()
    written = {buffer for buffer in program.graph_signature.buffers_to_mutate.values() if "cache" in buffer}
    assert len(written) == 2 * len(decoder.layers)
    torch.testing.assert_close(program.module()(tokens, torch.arange(5), rows), expected, rtol=0, atol=1e-5)


def test_a_call_of_too_many_tokens_is_an_error():
    with pytest.raises(ValueError, match="a call has 17 tokens, but the decoder was made for 16"):
        small_decoder("llama2")(torch.zeros(17, dtype=torch.int64), torch.arange(17), torch.tensor([0]))
