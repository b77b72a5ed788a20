"""The commands, on a small model in a folder of Hugging Face with a tokenizer of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from llm_models import random_model
from typer.testing import CliRunner

from edgecore_llm.cli import command
from edgecore_llm.errors import SessionError, TokenizerError
from edgecore_llm.runner.answer import StopText
from edgecore_llm.runner.session import Model
from edgecore_llm.tokenizer.open import open_tokenizer

pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a checkpoint, its tokenizer of bytes, and the exported file."""
    folder = tmp_path_factory.mktemp("checkpoint")
    random_model("qwen3").save_pretrained(folder)
    byte_tokenizer(3).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    call("export", folder, "-o", folder / "model.pte", "--context", "128", "--chunk", "32", "--bits", "8")
    return folder


def byte_tokenizer(specials: int):
    """Return a tokenizer whose tokens are characters of ASCII, and some special tokens."""
    alphabet = [*map(chr, range(33, 127)), "\u0120", "\u010a"]  # as ByteLevel writes a space and a line feed
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({text: i for i, text in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|user|>", "<|assistant|>", "<|system|>", *map("<|{}|>".format, range(3, specials))])
    return tokenizer


def call(*arguments: object, text: str | None = None) -> str:
    result = CliRunner().invoke(command, [*map(str, arguments)], input=text, catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def run(folder: Path, *arguments: object) -> dict:
    options = ("--tokenizer", folder, "--ignore-eos", "--json", *arguments)
    return json.loads(call("run", folder / "model.pte", *options).splitlines()[-1])


def test_run_prints_the_answer_and_a_line_of_json(folder):
    first = run(folder, "--prompt", "Hello", "--max-new-tokens", 12)
    assert len(first["tokens"]) == 12
    assert first["stats"]["prompt_tokens"] == 5
    assert first["stats"]["new_tokens"] == 11
    assert run(folder, "--prompt", "Hello", "--max-new-tokens", 12)["text"] == first["text"]
    warm = ("--prompt", "Hello", "--max-new-tokens", 12, "--temperature", 1.5, "--seed", 3)
    assert run(folder, *warm)["tokens"] != first["tokens"]


def test_an_answer_ends_before_a_stop_string(folder):
    whole = run(folder, "--prompt", "Hello", "--max-new-tokens", 20)["text"]
    stop = whole[4:6]
    found = run(folder, "--prompt", "Hello", "--max-new-tokens", 20, "--stop", stop)
    assert found["text"] == whole[: whole.index(stop)]
    assert len(found["tokens"]) < 20


def test_chat_renders_the_template_and_keeps_the_conversation(folder):
    options = ("--tokenizer", folder, "--temperature", 0, "--max-new-tokens", 5)
    shown = call("chat", folder / "model.pte", *options, text="Hi\nAnd now?\n\n")
    first, second = answer(folder, "<|user|>Hi<|assistant|>"), ""
    second = answer(folder, f"<|user|>Hi<|assistant|>{first}<|user|>And now?<|assistant|>")
    assert shown == f"> {first}\n\n> {second}\n\n> "


def answer(folder: Path, chat: str) -> str:
    """Return the answer of five tokens to a rendered chat, in a new session."""
    tokenizer = open_tokenizer(folder)
    tokens = tokenizer.encode(chat, specials=True)
    session = Model(folder / "model.pte").new_session()
    return tokenizer.decode(list(session.generate(tokens, 5, vocabulary=tokenizer.vocabulary)))


def test_the_commands_that_run_files_do_without_torch(folder):
    code = (
        "import sys, edgecore_llm.cli\n"
        "from edgecore_llm.runner.session import Model\n"
        "list(Model(sys.argv[1]).new_session().generate([5], 2))\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, folder / "model.pte"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_bench_prints_a_row_for_prompts_and_one_for_answers(folder):
    table = call("bench", folder / "model.pte", "-p", 20, "-n", 4, "-r", 2)
    assert "| pp20 " in table
    assert "| tg4 " in table
    values = json.loads(call("bench", folder / "model.pte", "-p", 20, "-n", 4, "-r", 2, "--json"))
    assert [row["test"] for row in values] == ["pp20", "tg4"]
    assert all(value > 0 for row in values for value in row["tokens_per_second"])


def test_eval_measures_the_perplexity_of_a_text(folder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog " * 5)
    options = (folder / "model.pte", "--tokenizer", folder, "--text", text, "--json")
    found = json.loads(call("eval", *options))
    assert (
        found["tokens"] == len("the quick brown fox jumps over the lazy dog ") * 5 - 2
    )  # of each window all but the first
    assert found["perplexity"] > 1
    assert json.loads(call("eval", *options, "--window", 64))["window"] == 64
    text.write_bytes(b"\xff\xfe")
    with pytest.raises(SessionError, match=r"text\.txt is no text in UTF-8"):
        call("eval", *options)


def test_export_rounds_with_calibration_and_reports_losses(folder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog " * 5)
    options = ("-o", tmp_path / "model.pte", "--context", 64, "--chunk", 16, "--calibration", text, "--report")
    lines = call("export", folder, *options, "--calibration-tokens", 64).splitlines()
    assert [line.split()[0] for line in lines if line.startswith("layers.0.")] == [
        f"layers.0.{name}:" for name in ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj")
    ]
    for line in lines[1:-1]:
        with_calibration, without = map(float, line.split()[1:])
        assert with_calibration < without
    result = CliRunner().invoke(command, ["export", str(folder), "-o", "x.pte", "--report"])
    assert result.exit_code == 2
    assert "--report needs --calibration FILE.txt" in result.output


def test_errors(folder, tmp_path):
    with pytest.raises(SessionError, match="512 \\+ 128 tokens do not fit into the context of 128"):
        call("bench", folder / "model.pte")
    other = tmp_path / "tokenizer.json"
    byte_tokenizer(200).save(str(other))
    with pytest.raises(TokenizerError, match="the tokenizer has 296 tokens and the model only 211"):
        call("run", folder / "model.pte", "--tokenizer", other, "--prompt", "x")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "tokenizer.json").write_text((folder / "tokenizer.json").read_text())
    with pytest.raises(TokenizerError, match="the tokenizer has no chat template"):
        call("chat", folder / "model.pte", "--tokenizer", tmp_path / "plain", text="Hi\n")
    result = CliRunner().invoke(command, ["export", str(folder), "-o", "x.pte", "--bits", "5"])
    assert result.exit_code == 2
    assert "--bits must be 4, 8 or 32, not 5" in result.output
    result = CliRunner().invoke(command, ["export", str(folder), "-o", "x.pte", "--cache-bits", "4"])
    assert result.exit_code == 2
    assert "--cache-bits must be 8, 16 or 32, not 4" in result.output


def test_the_begin_of_a_stop_string_is_held_back():
    stop = StopText(["END", "stop"])
    assert stop.push("a E") == "a "
    assert stop.push("N") == ""
    assert stop.push("xs") == "ENx"
    assert stop.push("t") == ""
    assert stop.finish() == "st"
    stop = StopText(["END"])
    assert stop.push("abENDcd") == "ab"
    assert stop.is_stopped
    assert stop.push("more") == "" == stop.finish()
