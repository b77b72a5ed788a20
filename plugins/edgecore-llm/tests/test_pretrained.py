"""The Python call from a checkpoint to text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from llm_commands import TEMPLATE, byte_tokenizer
from llm_models import random_model

import edgecore_llm
from edgecore_llm.errors import CheckpointError, ConfigError, SessionError, TokenizerError
from edgecore_llm.export import ExportOptions
from edgecore_llm.pretrained import EdgecoreModelForCausalLM
from edgecore_llm.template import ChatTemplate

pytest.importorskip("transformers")
OPTIONS = ExportOptions(context=128, chunk=32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    random_model("qwen3").save_pretrained(folder)
    byte_tokenizer(3).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return folder


@pytest.fixture(scope="module")
def model(folder) -> EdgecoreModelForCausalLM:
    return edgecore_llm.from_pretrained(folder, options=OPTIONS)


def test_a_checkpoint_is_exported_and_makes_text(model):
    text = model.generate("Hello", 20, ignore_eos=True)
    assert text == model.generate(model.tokenizer.encode("Hello"), 20, ignore_eos=True)
    assert "".join(model.stream("Hello", 20, ignore_eos=True)) == text
    assert model.generate("Hello", 20, ignore_eos=True, stops=[text[5:8]]) == text[: text.index(text[5:8])]


def test_a_stream_does_not_mix_with_a_later_one(model):
    expected = [model.generate(prompt, 8, ignore_eos=True) for prompt in ("Hello", "Other")]
    streams = [model.stream(prompt, 8, ignore_eos=True) for prompt in ("Hello", "Other")]
    assert ["".join(stream) for stream in streams] == expected
    first, second = (model.stream(prompt, 8, ignore_eos=True) for prompt in ("Hello", "Other"))
    next(first)
    start = next(second)
    with pytest.raises(SessionError, match="a later answer has taken the sequence of this model"):
        list(first)
    assert start + "".join(second) == expected[1]


def test_a_chat_is_rendered_by_the_template(model):
    messages = [{"role": "user", "content": "Hi"}]
    tokens = ChatTemplate(TEMPLATE).encode(model.tokenizer, messages)
    assert model.chat(messages, 10) == model.generate(tokens, 10)


def test_an_answer_to_a_long_chat_takes_the_room_that_there_is(model):
    messages = [{"role": "user", "content": "a" * 100}]
    tokens = ChatTemplate(TEMPLATE).encode(model.tokenizer, messages)
    assert model.chat(messages) == model.generate(tokens, 128 - len(tokens) + 1)
    with pytest.raises(SessionError, match="do not fit into the context of 128 tokens"):
        model.chat(messages, 512)


def test_a_saved_model_is_loaded_without_torch(model, tmp_path):
    expected = model.generate("Hello", 5, ignore_eos=True)
    model.save_pretrained(tmp_path / "saved")
    code = (
        "import sys, edgecore_llm\n"
        "model = edgecore_llm.from_pretrained(sys.argv[1], threads=1)\n"
        "print(model.generate('Hello', 5, ignore_eos=True), end='')\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    for path in (tmp_path / "saved", tmp_path / "saved" / "model.pte"):
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout == expected
    again = edgecore_llm.from_pretrained(tmp_path / "saved")
    again.save_pretrained(tmp_path / "saved")
    assert again.generate("Hello", 5, ignore_eos=True) == expected
    with pytest.raises(ConfigError, match="is exported already, so options and file have no effect"):
        edgecore_llm.from_pretrained(tmp_path / "saved", options=OPTIONS)


def test_a_temporary_file_lives_as_long_as_the_model(folder, tmp_path):
    model = edgecore_llm.from_pretrained(folder, options=OPTIONS)
    file = model.file
    assert file.exists()
    del model
    assert not file.parent.exists()
    kept = edgecore_llm.from_pretrained(folder, options=OPTIONS, file=tmp_path / "kept.pte")
    del kept
    assert (tmp_path / "kept.pte").exists()


def test_the_example_exports_once_and_runs(folder, tmp_path):
    example = Path(__file__).resolve().parents[3] / "examples" / "llm.py"
    shown = [
        subprocess.run(
            [sys.executable, example, path, "Hi"], cwd=tmp_path, capture_output=True, check=True, encoding="utf-8"
        ).stdout
        for path in (folder, Path("not needed any more") / folder.name)
    ]
    assert shown[0] == shown[1] != ""
    for arguments, message in (
        ([], "usage: python examples/llm.py"),
        (["a/b/other"], "there is no checkpoint a/b/other"),
    ):
        done = subprocess.run(
            [sys.executable, example, *arguments], cwd=tmp_path, capture_output=True, encoding="utf-8"
        )
        assert done.returncode == 1
        assert message in done.stderr


def test_wrong_arguments_are_errors_of_one_sentence(folder, tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no checkpoint .*missing"):
        edgecore_llm.from_pretrained(tmp_path / "missing")
    with pytest.raises(SessionError, match=r"there is no file .*nope\.pte"):
        edgecore_llm.from_pretrained(tmp_path / "nope.pte")
    with pytest.raises(TokenizerError, match=r"has none of tokenizer\.json"):
        edgecore_llm.from_pretrained(folder, tokenizer=tmp_path)
