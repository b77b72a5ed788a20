"""Files of executorch's exporter of language models run here, and files of ours run there, with the same tokens."""

from __future__ import annotations

import pytest
import torch
from llm_peer_export import CONTEXT, PACKED, VOCABULARY, need_peer, peer_answer, peer_file
from llm_runner_model import CHARACTERS, FIRST, CharacterModel, tokenizer_file, tokens_of
from llm_runner_model import CONTEXT as CONTEXT_OF_CHARACTERS

import edgecore
from edgecore_llm.errors import SessionError
from edgecore_llm.model.layers import Precision
from edgecore_llm.model.portable import load_portable
from edgecore_llm.portable import PortableOptions, export_portable
from edgecore_llm.runner.session import Model

portable_lib = need_peer()
FORMS = {
    "float32": {},
    "8da4w": PACKED,
    "8da4w, more in XNNPACK": {
        **PACKED, "backend.xnnpack.extended_ops": True, "quantization.embedding_quantize": "4,32",
    },
    "without operators for attention": {"model.use_sdpa_with_kv_cache": False},
    "logits of all tokens": {"debug.generate_full_logits": True},
    "ring with sinks": {"model.use_attention_sink": "2,16", "export.max_seq_length": 32},
    "rings of some layers": {"model.local_global_attention": [16, 0], "export.max_seq_length": 32},
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
        check_close(found, expected, form)
        last = expected.reshape(-1, VOCABULARY)[-1].argmax().item()
        if form != "8da4w, more in XNNPACK":
            assert found.reshape(-1, VOCABULARY)[-1].argmax().item() == last
        answers.append(last)
        position += length
        tokens = torch.tensor([[last, 4, 60, 33, 7, 21, 90]])
    assert len(set(answers)) > 1  # the model does not repeat one token
    theirs, session = portable_lib._load_for_executorch(str(file)), Model(file).new_session()
    long = [7 + 5 * place % 80 for place in range(60)]
    session.append(long)
    session.rewind(25)
    found = torch.from_numpy(session.append([9]))
    theirs.forward((torch.tensor([long[:25]]), torch.tensor([0])))
    expected = theirs.forward((torch.tensor([[9]]), torch.tensor([25])))[0]
    check_close(found, expected.reshape(-1, VOCABULARY)[-1], form)


def check_close(found, expected, form):
    if "8da4w" in form:
        # Both round inputs to 8 bits; one that lies between two steps goes here or there by the last bit of a sum.
        # A row of a 4-bit table often lies there as a whole: if its values range over 10 steps of the table, which
        # become 255 steps of 8 bits, every odd value is 25.5 steps times an odd number. Such rows (5 of the 96 here)
        # move a logit by 2 % of the largest, which can change the order of the first two.
        assert (found - expected).square().mean() < 1e-3 * expected.square().mean()
    else:
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.slow
def test_a_session_runs_a_file_of_the_peer(tmp_path):
    file = peer_file(tmp_path)
    theirs, session = portable_lib._load_for_executorch(str(file)), Model(file).new_session()
    assert (session.metadata.context, session.metadata.eos_ids) == (CONTEXT, (2, 3))
    prompt = [5, 17, 80, 2, 9]
    found = list(session.generate(prompt, 40, ignore_eos=True))
    assert found == greedy(lambda tokens, place: theirs.forward((tokens, place))[0], prompt, 40)
    whole = Model(file).new_session().logits([*prompt, *found[:5]])
    assert whole[len(prompt) - 1 :].argmax(-1).tolist() == found[:6]
    with pytest.raises(SessionError, match="do not fit into the context of 64 tokens"):
        session.append([1] * 30)


def greedy(forward, prompt: list[int], count: int) -> list[int]:
    """Return the tokens of largest logits."""
    tokens = [forward(torch.tensor([prompt]), torch.tensor([0])).argmax().item()]
    while len(tokens) < count:
        place = torch.tensor([len(prompt) + len(tokens) - 1])
        tokens.append(forward(torch.tensor([tokens[-1:]]), place).argmax().item())
    return tokens


PRECISIONS = {"float32": Precision(), "8da4w": Precision(linear=4, embedding=8, output=8)}
PROMPT = "    def __init__(self, "


@pytest.mark.slow
@pytest.mark.parametrize("name", PRECISIONS)
def test_200_greedy_tokens_are_equal_in_eager_here_and_on_the_peer(name, tmp_path):
    checkpoint, file, prompt = CharacterModel(), tmp_path / "model.pte", tokens_of(PROMPT)
    options = PortableOptions(
        "executorch", context=CONTEXT_OF_CHARACTERS, chunk=64, precision=PRECISIONS[name], bos_id=1
    )
    export_portable(checkpoint, file, options)
    eager = load_portable(
        checkpoint.config, checkpoint, context=options.context, form="llama", precision=options.precision
    )
    expected = greedy(eager, prompt, 200)
    assert len(set(expected)) > 10  # the model learned something
    theirs = portable_lib._load_for_executorch(str(file))
    assert greedy(lambda tokens, place: theirs.forward((tokens, place))[0], prompt, 200) == expected
    assert list(Model(file).new_session().generate(prompt, 200, ignore_eos=True)) == expected
    tokenizer_file(tmp_path / "tokenizer.json")
    answer = peer_answer(file, tmp_path / "tokenizer.json", PROMPT, 200)
    assert answer == "".join(CHARACTERS[token - FIRST] for token in expected)
