"""The commands, on a small model in a folder of Hugging Face with a tokenizer of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from llm_commands import TEMPLATE, byte_tokenizer, call
from llm_models import random_model
from typer.testing import CliRunner

from edgecore_llm.cli import command
from edgecore_llm.cli.chat import head_of_chat
from edgecore_llm.cli.evaluate import perplexity
from edgecore_llm.errors import ConfigError, SessionError, TokenizerError
from edgecore_llm.runner.answer import StopText
from edgecore_llm.runner.session import Model
from edgecore_llm.template import ChatTemplate, open_template
from edgecore_llm.tokenizer.open import open_tokenizer

pytest.importorskip("transformers")
pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a checkpoint, its tokenizer of bytes, and the exported file."""
    folder = tmp_path_factory.mktemp("checkpoint")
    random_model("qwen3").save_pretrained(folder)
    byte_tokenizer(3).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    call("export", folder, "-o", folder / "model.pte", "--context", "128", "--chunk", "32", "--bits", "8")
    return folder


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


def test_the_template_of_the_file_serves_a_tokenizer_without_one(folder, tmp_path):
    plain = tmp_path / "tokenizer.json"
    plain.write_text((folder / "tokenizer.json").read_text())
    options = ("--temperature", 0, "--max-new-tokens", 5, "--tokenizer")
    expected = call("chat", folder / "model.pte", *options, folder, text="Hi\n\n")
    assert call("chat", folder / "model.pte", *options, plain, text="Hi\n\n") == expected


def test_a_chat_beyond_the_context_drops_the_oldest_turns_with_shift(folder):
    options = ("--tokenizer", folder, "--temperature", 0, "--max-new-tokens", 40)
    text = "Tell me much\n" * 6 + "\n"
    with pytest.raises(
        SessionError, match="the chat has reached the context of 128 tokens; begin a new one, use --shift"
    ):
        call("chat", folder / "model.pte", *options, text=text)
    assert call("chat", folder / "model.pte", *options, "--shift", "--system", "Be brief.", text=text).count("> ") >= 7


def test_the_head_of_a_chat_is_what_comes_before_the_first_question(folder):
    tokenizer = open_tokenizer(folder)
    template = open_template(tokenizer)
    assert head_of_chat(template, tokenizer, [{"role": "system", "content": "Be brief."}]) == 1 + 9 + 1
    assert head_of_chat(template, tokenizer, []) == 1
    assert head_of_chat(ChatTemplate("always"), tokenizer, []) == 0


def test_the_older_command_has_help():
    assert "export_llama" in call("export-llama", "--help")


def test_a_full_context_is_shifted_with_shift(folder):
    prompt = ("--prompt", "Hello", "--max-new-tokens", 200)
    with pytest.raises(SessionError, match="do not fit into the context of 128 tokens"):
        run(folder, *prompt)
    assert len(run(folder, *prompt, "--shift", "--keep", 2)["tokens"]) == 200


def test_an_empty_prompt_is_one_clear_sentence(folder):
    with pytest.raises(SessionError, match="there are no tokens; a prompt needs at least one"):
        run(folder, "--prompt", "")


def test_eval_puts_the_begin_of_a_text_before_each_window(folder):
    session = Model(folder / "model.pte").new_session()
    tokens, losses = list(range(3, 23)), []
    for start in range(0, 20, 7):
        part = [1, *tokens[start : start + 7]]
        session.rewind(0)
        logits = session.logits(part).astype(float)
        losses += [np.log(np.exp(row).sum()) - row[token] for row, token in zip(logits, part[1:], strict=False)]
    value, count = perplexity(session, tokens, 8, 1)
    assert count == 20
    assert value == pytest.approx(np.exp(np.mean(losses)), rel=1e-9)


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
    for line in lines[2:]:
        with_calibration, without = map(float, line.split()[1:])
        assert with_calibration < without


def test_options_without_effect_are_refused(folder, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.touch()
    export, of_settings = ("export", folder, "-o", tmp_path / "x.pte"), "and settings of LlmConfig exclude each other"
    for arguments, message in (
        ((*export, "--report"), "--report needs --calibration FILE.txt"),
        ((*export, "--tokenizer", folder), "--tokenizer needs --calibration FILE.txt"),
        ((*export, "--calibration-tokens", 9), "--calibration-tokens needs --calibration FILE.txt"),
        ((*export, "--report", "+debug.verbose=true"), f"--report {of_settings}"),
        ((*export, "--calibration-tokens", 9, "+debug.verbose=true"), f"--calibration-tokens {of_settings}"),
        ((*export, "--calibration", empty), "empty.txt is empty"),
        ((*export, "--calibration", tmp_path / "none.txt"), "none.txt' does not exist"),
        (
            ("run", folder / "model.pte", "--tokenizer", folder, "--prompt", "a", "--keep", 2),
            "--keep needs --shift",
        ),
    ):
        result = CliRunner().invoke(command, [*map(str, arguments)], env={"COLUMNS": "400"})
        assert result.exit_code == 2, message
        assert message in " ".join(result.output.replace("│", "").split())
    assert not (tmp_path / "x.pte").exists()


def test_a_short_context_has_a_chunk_that_fits(folder, tmp_path):
    call("export", folder, "-o", tmp_path / "model.pte", "--context", 64)
    metadata = Model(tmp_path / "model.pte").metadata
    assert (metadata.context, metadata.chunk) == (64, 64)


def test_a_missing_folder_is_said_before_the_work(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("edgecore.compile", None)
    for options in ((), ("--backend", "xnnpack")):
        with pytest.raises(ConfigError, match=r"the folder .*none of the file to write does not exist"):
            call("export", folder, "-o", tmp_path / "none" / "x.pte", "--context", 64, *options)


def test_wrong_arguments_are_errors_of_one_sentence(folder, tmp_path):
    with pytest.raises(SessionError, match="512 \\+ 128 tokens do not fit into the context of 128"):
        call("bench", folder / "model.pte")
    other = tmp_path / "tokenizer.json"
    byte_tokenizer(200).save(str(other))
    with pytest.raises(TokenizerError, match="the tokenizer has 296 tokens and the model only 211"):
        call("run", folder / "model.pte", "--tokenizer", other, "--prompt", "x")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "tokenizer.json").write_text((folder / "tokenizer.json").read_text())
    with pytest.raises(TokenizerError, match="neither the tokenizer nor the file has a chat template"):
        open_template(open_tokenizer(tmp_path / "plain"))
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
    for pieces in (["abcd"], ["ab", "cd"], list("abcd")):
        stop = StopText(["bcd", "c", "bc"])
        assert "".join(map(stop.push, pieces)) + stop.finish() == "a", pieces
    stop = StopText(["END"])
    assert stop.push("abENDcd") == "ab"
    assert stop.is_stopped
    assert stop.push("more") == "" == stop.finish()
