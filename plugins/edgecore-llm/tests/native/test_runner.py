"""Sessions of the C++ runner beside those of Python, on the same files."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import llm_cpp
import llm_models
import llm_tokenizers
import numpy as np
import pytest
import torch

import edgecore
from edgecore_llm.runner.answer import answer_text
from edgecore_llm.runner.session import Model
from edgecore_llm.sampler import Sampling
from edgecore_llm.tokenizer.open import open_tokenizer
from edgecore_llm.tokenizer.stream import TextStream

pytest.importorskip("transformers")
pytestmark = pytest.mark.slow  # builds the C++ programs


@pytest.fixture(scope="module")
def pte(tmp_path_factory) -> Path:
    return llm_cpp.exported("llama3", tmp_path_factory.mktemp("llm") / "model.pte")


@pytest.fixture(scope="module")
def ring(tmp_path_factory) -> Path:
    """A model whose layers have windows."""
    return llm_cpp.exported("gemma3", tmp_path_factory.mktemp("llm") / "model.pte", chunk=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return llm_cpp.programs(tmp_path_factory)


def bits(logits: np.ndarray) -> int:
    """Return the hash that the probe prints."""
    found = 1469598103934665603
    for value in logits.astype(np.float32).view(np.uint32).ravel().tolist():
        found = (found ^ value) * 1099511628211 & (1 << 64) - 1
    return found


def words(tokens) -> str:
    return " ".join(map(str, tokens))


def test_logits_have_the_bits_of_python_and_the_sequence_grows_alike(folder, pte):
    tokens = np.random.default_rng(0).integers(0, 211, 100).tolist()
    session = Model(pte, threads=1).new_session()
    first, every, last = session.append(tokens[:40]), session.logits(tokens[40:60]), session.append(tokens[60:61])
    commands = [
        "new 0",
        f"append {words(tokens[:40])}",
        f"logits {words(tokens[40:60])}",
        f"append {tokens[60]}",
        "tokens",
    ]
    found = llm_cpp.probe(folder, pte, commands)
    assert found[1] == f"{bits(first)} {first.argmax()}"
    assert found[2] == f"{bits(every)} {every.size}"
    assert found[3] == f"{bits(last)} {last.argmax()}"
    assert found[4].split() == list(map(str, tokens[:61]))
    assert llm_cpp.probe(folder, pte, commands, threads=2) == found


def test_answers_are_those_of_python(folder, pte):
    model = Model(pte, threads=1)
    drawn = Sampling(temperature=0.9, top_k=50, seed=7)
    expected = [
        list(model.new_session().generate([5, 6, 7], 30, ignore_eos=True)),
        list(model.new_session().generate([5, 6, 7], 30, drawn, ignore_eos=True)),
    ]
    commands = ["new 0", "generate 30 1 0 0 0 0 5 6 7", "new 1", "generate 30 1 0 0.9 50 7 5 6 7"]
    found = llm_cpp.probe(folder, pte, commands)
    assert [list(map(int, found[index].split())) for index in (1, 3)] == expected


def test_an_answer_ends_where_it_is_cancelled_and_goes_on_there(folder, pte):
    whole = list(Model(pte, threads=1).new_session().generate([5], 20, ignore_eos=True))
    commands = ["new 0", "generate 20 1 4 0 0 0 5", f"generate 16 1 0 0 0 0 {whole[3]}", "generate 1 1 1 0 0 0 1"]
    found = llm_cpp.probe(folder, pte, commands)
    assert found[1].split() == list(map(str, whole[:4]))
    assert found[2].split() == list(map(str, whole[4:]))


def test_an_answer_ends_with_a_token_that_ends_a_text(folder, pte, tmp_path):
    answer = list(Model(pte, threads=1).new_session().generate([5], 20, ignore_eos=True))
    llm_cpp.exported("llama3", tmp_path / "other.pte", eos_ids=(answer[3],))
    commands = ["new 0", "generate 20 0 0 0 0 0 5", "new 1", "generate 20 1 0 0 0 0 5"]
    found = llm_cpp.probe(folder, tmp_path / "other.pte", commands)
    assert found[1].split() == list(map(str, answer[: answer.index(answer[3]) + 1]))
    assert found[3].split() == list(map(str, answer))


def test_rewound_and_warmed_sessions_repeat(folder, pte):
    commands = ["new 0", "append 1 2 3 4", "append 5", "rewind 4", "warm", "append 5", "rewind 9", "tokens"]
    found = llm_cpp.probe(folder, pte, commands)
    assert found[5] == found[2]
    assert found[6] == "error The sequence has 5 tokens, so it cannot be rewound to 9."
    assert found[7].split() == ["1", "2", "3", "4", "5"]


def test_a_ring_of_a_window_is_computed_anew_where_too_much_is_taken_back(folder, ring):
    tokens = np.random.default_rng(0).integers(0, 211, 200).tolist()
    for kept in (199, 182, 181, 100):
        commands = ["new 0", f"append {words(tokens)}", f"rewind {kept}", "append 7"]
        commands += ["new 1", f"append {words(tokens[:kept])}", "append 7"]
        found = llm_cpp.probe(folder, ring, commands)
        assert found[3] == found[6]


def test_several_rewinds_count_from_the_last_position_that_was_written(folder, ring, tmp_path):
    tokens = np.random.default_rng(0).integers(0, 211, 200).tolist()
    whole, path = f"append {words(tokens)}", tmp_path / "saved"
    commands = ["new 0", f"append {words(tokens[:170])}", "append 7"]
    commands += ["new 1", whole, "rewind 185", "rewind 170", "append 7"]
    commands += ["new 2", whole, "rewind 185", f"save {path}", "new 3", f"restore {path}", "rewind 170", "append 7"]
    commands += ["new 4", whole, "rewind 185", "warm", "rewind 170", "append 7"]
    found = llm_cpp.probe(folder, ring, commands)
    assert found[7] == found[15] == found[-1] == found[2]


def test_draws_after_a_shift_in_python_go_on_in_cpp(folder, pte, tmp_path):
    session = Model(pte, threads=1).new_session()
    first = list(session.generate([5], 30, Sampling(temperature=0.9, seed=7), ignore_eos=True))
    list(session.generate([5], 400, ignore_eos=True, keep=4))
    (tmp_path / "python").write_bytes(session.save())
    expected = list(session.generate([6], 10, Sampling(temperature=0.9, seed=7), ignore_eos=True))
    generate = "generate {} 1 0 0.9 0 7 {}".format
    restore = f"restore {tmp_path / 'python'}"
    commands = ["new 0", restore, generate(10, 6), restore, f"save {tmp_path / 'cpp'}", "rewind 0", generate(30, 5)]
    found = llm_cpp.probe(folder, pte, commands)
    assert [list(map(int, found[index].split())) for index in (2, 6)] == [expected, first]
    assert (tmp_path / "cpp").read_bytes() == (tmp_path / "python").read_bytes()


@pytest.mark.parametrize("name", ["pte", "ring"])
def test_a_full_context_is_shifted_as_in_python(name, folder, request):
    file, drawn = request.getfixturevalue(name), Sampling(temperature=0.9, seed=7)
    session, long = Model(file, threads=1).new_session(), np.random.default_rng(1).integers(0, 211, 200).tolist()
    expected = [list(session.generate([5], 400, drawn, ignore_eos=True, keep=4))]
    expected += [list(session.generate(long, 30, drawn, ignore_eos=True, keep=9))]
    session.shift(20, 150)
    expected += [list(session.tokens)]
    roll = "roll {} {} 1 0 0.9 0 7 {}".format
    commands = ["new 0", roll(4, 400, 5), roll(9, 30, words(long)), "shift 20 150", "tokens"]
    commands += [
        "shift 321 1",
        "shift 100 221",
        roll(161, 1, 5),
        roll(4, 1, 211),
        roll(4, 1, words([1] * 321)),
        "tokens",
    ]
    found = llm_cpp.probe(folder, file, commands)
    assert [list(map(int, found[index].split())) for index in (1, 2, 4)] == expected
    assert found[5:] == [
        f"error The first 321 tokens cannot be kept: the sequence has {len(session.tokens)}.",
        "error 221 tokens after the 100 that are kept do not fit into the context of 320; shorten the prompt, or keep "
        "fewer.",
        "error 161 kept tokens are more than half of the context of 320.",
        "error Token 211 is outside of the model's vocabulary of 211; does the tokenizer belong to the model?",
        "error 321 tokens after the 4 that are kept do not fit into the context of 320; shorten the prompt, or keep fewer.",
        found[4],
    ]


def test_saved_sessions_go_from_python_to_cpp_and_back(folder, pte, tmp_path):
    model = Model(pte, threads=1)
    session = model.new_session()
    session.append(list(range(20)))
    (tmp_path / "python").write_bytes(session.save())
    expected = session.append([7])
    commands = ["new 0", "new 1", f"restore {tmp_path / 'python'}", "append 7", f"save {tmp_path / 'cpp'}", "tokens"]
    found = llm_cpp.probe(folder, pte, commands)
    assert found[3].split()[0] == str(bits(expected))
    other = model.new_session()
    other.restore((tmp_path / "cpp").read_bytes())
    assert other.tokens == session.tokens == list(map(int, found[5].split()))
    assert np.array_equal(other.append([8]), session.append([8]))


def test_damaged_saved_sessions_are_refused_and_change_nothing(folder, pte, tmp_path):
    model = Model(pte, threads=1)
    session = model.new_session()
    session.append([1, 2, 3])
    saved, start = session.save(), 24 + len(model.metadata.text.encode())
    damaged = {
        "nothing": (b"nothing", "These bytes are no saved session."),
        "other": (saved[:30] + b"x" + saved[31:], "The saved session belongs to another model, or is damaged."),
        "short": (saved[:-1], "error"),
        "token": (saved[:start] + b"\xff" * 8 + saved[start + 8 :], "it has tokens outside of the vocabulary."),
    }
    for name, (content, _) in damaged.items():
        (tmp_path / name).write_bytes(content)
    commands = ["new 0", "append 9", *(f"restore {tmp_path / name}" for name in damaged), "tokens"]
    found = llm_cpp.probe(folder, pte, commands)
    assert found[-1].split() == ["9"]
    for line, (_, message) in zip(found[2:-1], damaged.values(), strict=True):
        assert line.startswith("error") and message in line


def test_sessions_in_threads_do_not_disturb_each_other(folder, pte):
    expected = [list(Model(pte, threads=1).new_session().generate([token], 30, ignore_eos=True)) for token in (3, 4)]
    done = subprocess.run([folder / "probe", pte, "1"], input="new 0\nthreads 2\n", capture_output=True, text=True)
    assert [list(map(int, line.split())) for line in done.stdout.splitlines()[1:3]] == expected
    line = r"load \d+\.\d\d s, prompt 0 tokens at 0\.0/s, answer 0 tokens at 0\.0/s"
    assert re.fullmatch(line, done.stdout.splitlines()[3])


def test_errors_are_one_clear_sentence(folder, pte, tmp_path):
    commands = [
        "new 0",
        "append",
        "append 1 211",
        f"append {words([1] * 321)}",
        f"generate 22 0 0 0 0 0 {words([1] * 300)}",
    ]
    commands += ["generate 2 0 0 -1 0 0 5", "tokens"]
    found = llm_cpp.probe(folder, pte, commands)
    assert found[1:] == [
        "error There are no tokens; a prompt needs at least one.",
        "error Token 211 is outside of the model's vocabulary of 211; does the tokenizer belong to the model?",
        "error 321 tokens do not fit into the context of 320 tokens, of which 0 are used; shorten the prompt, or export "
        "with a longer context.",
        "error A prompt of 300 tokens and an answer of 22 do not fit into the context of 320 tokens, of which 0 are used; "
        "shorten them, or export with a longer context, or shift it.",
        "error temperature does not lie between 0 and 9000000000000000000.",
        "",
    ]
    edgecore.compile(torch.nn.Linear(2, 2).eval(), (torch.ones(1, 2),)).save(tmp_path / "other.pte")
    (line,) = llm_cpp.probe(folder, tmp_path / "other.pte", [])
    assert line.endswith("make it with: edgecore llm export, without --backend.")
    cut = pte.read_bytes()
    (tmp_path / "cut.pte").write_bytes(cut[: len(cut) // 2])
    (line,) = llm_cpp.probe(folder, tmp_path / "cut.pte", [])
    assert line.startswith("error ")


def test_the_example_prints_the_text_of_the_answer(folder, pte, tmp_path, monkeypatch):
    pytest.importorskip("sentencepiece")
    llm_tokenizers.sentencepiece_model(tmp_path / "piece.model")
    llm_tokenizers.llama2c_file(tmp_path / "tokenizer.bin", tmp_path / "piece.model")
    (tmp_path / "piece.model").unlink()
    command = [folder / "llm-cpp" / "llm", pte, tmp_path, "the dog"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "The tokenizer has 420 tokens and the model only 211: it belongs to another model.\n"

    monkeypatch.setitem(llm_models.SMALL, "vocab_size", 450)
    llm_cpp.exported("llama3", tmp_path / "wide.pte")
    tokenizer, model = open_tokenizer(tmp_path), Model(tmp_path / "wide.pte", threads=1)
    prompt = tokenizer.encode("the dog", bos=True)
    tokens = model.new_session().generate(prompt, 64, vocabulary=tokenizer.vocabulary)
    expected = "".join(answer_text(tokens, TextStream(tokenizer), []))
    command[1] = tmp_path / "wide.pte"
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.stdout.decode() == expected + "\n"
    assert re.match(rf"load .* s, prompt {len(prompt)} tokens at ", done.stderr.decode())
