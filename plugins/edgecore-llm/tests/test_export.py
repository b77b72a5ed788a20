"""Exported files beside transformers and PyTorch, and the sessions that run them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from llm_models import MODELS, TOKENS, Checkpoint, logits, run_in_chunks

import edgecore
from edgecore_llm.errors import CheckpointError, ConfigError, SessionError
from edgecore_llm.export import ExportOptions, export
from edgecore_llm.model.layers import Precision
from edgecore_llm.model.load import load_decoder
from edgecore_llm.runner.session import Model
from edgecore_llm.sampler import Sampling

pytest.importorskip("transformers")
QUICK = ("llama3", "gemma3")
FLOAT = Precision()


def exported(name: str, path: Path, precision: Precision, chunk: int = 128) -> Checkpoint:
    checkpoint = Checkpoint(name)
    export(checkpoint, path, ExportOptions(context=320, chunk=chunk, precision=precision))
    return checkpoint


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in MODELS]
)
def test_the_file_computes_the_logits_of_transformers(name, tmp_path):
    checkpoint = exported(name, tmp_path / "model.pte", FLOAT)
    expected = checkpoint.model(TOKENS[None], use_cache=False).logits[0]
    model = Model(tmp_path / "model.pte")
    for chunk in (1, 7, 128):
        found = torch.from_numpy(logits(model.new_session(), chunk))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
def test_packed_weights_give_the_same_bits_however_the_tokens_are_divided(bits, tmp_path):
    precision = Precision(linear=bits, embedding=8, output=8)
    checkpoint = exported("llama3", tmp_path / "model.pte", precision)
    model = Model(tmp_path / "model.pte")
    found = logits(model.new_session(), 128)
    assert np.array_equal(logits(model.new_session(), 7), found)
    assert np.array_equal(logits(model.new_session(), 1), found)
    decoder = load_decoder(checkpoint.config, checkpoint, context=320, chunk=128, precision=precision)
    expected = run_in_chunks(decoder, TOKENS, 128)
    # Both round inputs to 8 bits; one that lies between two steps goes here or there by the last bit of a sum.
    assert (torch.from_numpy(found) - expected).square().mean() < 1e-3 * expected.square().mean()


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    path = tmp_path_factory.mktemp("llm") / "model.pte"
    exported("llama3", path, Precision(linear=8, embedding=8, output=8), chunk=16)
    return Model(path, threads=1)


def test_greedy_answers_go_on_where_the_last_one_ended(model):
    session = model.new_session()
    first = list(session.generate([5, 6, 7], 10, ignore_eos=True))
    assert len(first) == 10
    assert session.tokens == [5, 6, 7, *first[:-1]]
    whole = list(model.new_session().generate([5, 6, 7, *first, 9], 5, ignore_eos=True))
    assert list(session.generate([first[-1], 9], 5, ignore_eos=True)) == whole


def test_equal_seeds_draw_equal_answers(model):
    sampling = Sampling(temperature=1.0, top_k=50, seed=3)
    first, second = (list(model.new_session().generate([5], 20, sampling, ignore_eos=True)) for _ in range(2))
    assert first == second
    other = list(model.new_session().generate([5], 20, Sampling(temperature=1.0, top_k=50, seed=4), ignore_eos=True))
    assert other != first


def test_a_rewound_session_repeats(model):
    session = model.new_session()
    session.append([1, 2, 3, 4])
    first = session.append([5])
    session.rewind(4)
    assert np.array_equal(session.append([5]), first)
    with pytest.raises(SessionError, match="the sequence has 5 tokens, so it cannot be rewound to 6"):
        session.rewind(6)


def test_rings_of_windows_are_computed_anew_where_too_much_is_taken_back(tmp_path):
    exported("gemma3", tmp_path / "model.pte", FLOAT, chunk=8)
    model = Model(tmp_path / "model.pte")
    assert model.metadata.rewindable == 48 - 30  # rows and window
    tokens = TOKENS.tolist()
    for kept in (199, 182, 181, 100, 0):
        session = model.new_session()
        session.append(tokens[:200])
        session.rewind(kept)
        assert session.tokens == tokens[:kept]
        expected = model.new_session().append([*tokens[:kept], 7])
        np.testing.assert_allclose(session.append([7]), expected, rtol=0, atol=1e-4)


def test_several_rewinds_of_rings_count_from_the_last_position_that_was_written(tmp_path):
    exported("gemma3", tmp_path / "model.pte", FLOAT, chunk=8)
    model = Model(tmp_path / "model.pte")
    tokens = TOKENS.tolist()
    expected = model.new_session().append([*tokens[:170], 7])
    for is_saved in (False, True):
        session = model.new_session()
        session.append(tokens[:200])
        session.rewind(185)
        if is_saved:
            saved, session = session.save(), model.new_session()
            session.restore(saved)
        session.rewind(170)
        np.testing.assert_allclose(session.append([7]), expected, rtol=0, atol=1e-4)
    session.rewind(0)
    session.append(tokens[:172])  # overwrites the rings
    session.rewind(170)
    np.testing.assert_allclose(session.append([7]), expected, rtol=0, atol=1e-4)


def test_draws_after_a_shift_repeat_from_a_saved_session_and_an_empty_one(model):
    sampling = Sampling(temperature=1.0, seed=3)
    session = model.new_session()
    first = list(session.generate([5], 20, sampling, ignore_eos=True))
    list(session.generate([5], 400, ignore_eos=True, keep=4))
    other = model.new_session()
    other.restore(session.save())
    assert other.dropped == session.dropped > 0
    answers = [list(each.generate([5], 20, sampling, ignore_eos=True, keep=4)) for each in (session, other)]
    assert answers[0] == answers[1]
    session.rewind(0)
    assert list(session.generate([5], 20, sampling, ignore_eos=True)) == first


def test_states_of_another_export_are_refused(model, tmp_path):
    exported("llama3", tmp_path / "model.pte", Precision(linear=8, embedding=8, output=8), chunk=16)
    with pytest.raises(SessionError, match="belongs to another model, or is damaged"):
        Model(tmp_path / "model.pte").new_session().restore(model.new_session().save())


def test_a_context_that_is_little_more_than_the_window(tmp_path):
    checkpoint = Checkpoint("gemma3")
    export(checkpoint, tmp_path / "model.pte", ExportOptions(context=40, chunk=32, precision=FLOAT))
    expected = checkpoint.model(TOKENS[None, :40], use_cache=False).logits[0]
    found = Model(tmp_path / "model.pte").new_session().logits(TOKENS[:40].tolist())
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=0, atol=1e-4)


def test_a_saved_session_goes_on_in_another_one(model):
    session = model.new_session()
    session.append(list(range(20)))
    saved = session.save()
    expected = session.append([7])
    other = model.new_session()
    other.restore(saved)
    assert other.tokens == list(range(20))
    assert np.array_equal(other.append([7]), expected)
    with pytest.raises(SessionError, match="these bytes are no saved session"):
        other.restore(b"nothing")
    with pytest.raises(SessionError, match="belongs to another model, or is damaged"):
        other.restore(saved[:30] + b"x" + saved[31:])
    with pytest.raises(SessionError, match="the saved session is damaged"):
        other.restore(saved[:-1])
    start = 24 + len(model.metadata.text.encode())
    with pytest.raises(SessionError, match="it has tokens outside of the vocabulary"):
        other.restore(saved[:start] + b"\xff" * 8 + saved[start + 8 :])
    assert np.array_equal(other.append([8]), session.append([8]))


def test_sessions_in_threads_do_not_disturb_each_other(model):
    def answer(prompt: int) -> list[int]:
        return list(model.new_session().generate([prompt], 30, ignore_eos=True))

    expected = [answer(prompt) for prompt in (3, 4)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(answer, (3, 4))) == expected


def test_an_answer_may_be_cancelled_at_any_token(model):
    session = model.new_session()
    tokens = session.generate([5], 100, ignore_eos=True)
    session.cancel()  # before the first token is taken
    assert list(tokens) == []
    session.rewind(0)
    found = []
    for token in session.generate([5], 100, ignore_eos=True):
        found.append(token)
        if len(found) == 4:
            session.cancel()
    assert len(found) == 4
    assert found == list(model.new_session().generate([5], 4, ignore_eos=True))


def test_a_full_context_is_shifted_and_goes_on_as_a_new_session_would(model):
    session = model.new_session()
    answer = list(session.generate([5, 6, 7], 700, ignore_eos=True, keep=4))
    assert len(answer) == 700
    first = [5, 6, 7, *answer]
    # 316 tokens after the kept ones: half of them go at each shift.
    assert session.dropped == 3 * 158
    assert session.tokens == [*first[:4], *first[4 + 3 * 158 : -1]]
    other = model.new_session()
    other.append(session.tokens)
    assert np.array_equal(other.append([9]), session.append([9]))


def test_a_prompt_that_needs_room_shifts_more_than_half(model):
    session = model.new_session()
    session.append(list(range(100)))
    assert len(list(session.generate([1] * 300, 1, ignore_eos=True, keep=2))) == 1
    assert session.tokens[:20] == [0, 1, *range(82, 100)]
    assert session.dropped == 80
    with pytest.raises(SessionError, match="319 tokens after the 2 that are kept do not fit into the context of 320"):
        session.generate([1] * 319, 1, keep=2)
    with pytest.raises(SessionError, match="161 kept tokens are not between 0 and half of the context of 320"):
        session.generate([1], 1, keep=161)
    with pytest.raises(SessionError, match="the first 7 tokens cannot be kept: the sequence has 0"):
        model.new_session().shift(7)


def test_a_ring_of_a_window_is_shifted(tmp_path):
    exported("gemma3", tmp_path / "model.pte", FLOAT, chunk=8)
    model = Model(tmp_path / "model.pte")
    session = model.new_session()
    assert len(list(session.generate([5], 350, ignore_eos=True, keep=0))) == 350
    other = model.new_session()
    other.append(session.tokens)
    np.testing.assert_allclose(other.append([9]), session.append([9]), rtol=0, atol=1e-4)


def test_draws_after_a_shift_do_not_repeat(model):
    sampling = Sampling(temperature=100.0, seed=3)
    answer = list(model.new_session().generate([5], 700, sampling, ignore_eos=True, keep=0))
    assert answer[319:419] != answer[159:259]  # of the same places in the context


def test_an_answer_ends_with_a_token_that_ends_a_text(tmp_path):
    checkpoint = exported("llama3", tmp_path / "model.pte", FLOAT)
    answer = list(Model(tmp_path / "model.pte").new_session().generate([5], 20))
    checkpoint.eos_ids = (answer[3],)
    export(checkpoint, tmp_path / "other.pte", ExportOptions(context=64, chunk=16, precision=FLOAT))
    model = Model(tmp_path / "other.pte")
    assert list(model.new_session().generate([5], 20)) == answer[: answer.index(answer[3]) + 1]
    assert list(model.new_session().generate([5], 20, ignore_eos=True)) == answer


def test_errors_of_sessions(model, tmp_path):
    session = model.new_session()
    with pytest.raises(SessionError, match="there are no tokens"):
        session.append([])
    with pytest.raises(SessionError, match="token 211 is outside of the model's vocabulary of 211"):
        session.append([1, 211])
    with pytest.raises(SessionError, match="321 tokens do not fit into the context of 320 tokens, of which 0 are used"):
        session.append([1] * 321)
    assert session.tokens == []
    with pytest.raises(SessionError, match="a prompt of 300 tokens and an answer of 22 do not fit"):
        next(session.generate([1] * 300, 22))
    edgecore.compile(torch.nn.Linear(2, 2).eval(), (torch.ones(1, 2),)).save(tmp_path / "other.pte")
    with pytest.raises(SessionError, match=r"other\.pte holds no language model; make it with: edgecore llm export"):
        Model(tmp_path / "other.pte")


def test_errors_of_export(tmp_path):
    checkpoint = Checkpoint("llama3")
    with pytest.raises(ConfigError, match="the group 48 is neither 0 nor a multiple of 32"):
        export(
            checkpoint, tmp_path / "model.pte", ExportOptions(context=64, chunk=16, precision=Precision(4, 8, 8, 48))
        )
    with pytest.raises(ConfigError, match="the context 513 does not lie between 2 and the model's 512"):
        export(checkpoint, tmp_path / "model.pte", ExportOptions(context=513))
    with pytest.raises(ConfigError, match="the chunk 65 does not lie between 2 and the context 64"):
        export(checkpoint, tmp_path / "model.pte", ExportOptions(context=64, chunk=65))
    del checkpoint.tensors["layers.1.mlp.up_proj.weight"]
    with pytest.raises(CheckpointError, match=r"the checkpoint has no tensor layers\.1\.mlp\.up_proj\.weight"):
        export(checkpoint, tmp_path / "model.pte", ExportOptions(context=64, chunk=16))
    assert not (tmp_path / "model.pte").exists()
