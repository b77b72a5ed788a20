"""`edgecore llm run`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from edgecore_llm.cli.options import (
    File,
    MinP,
    Penalty,
    Seed,
    Shift,
    Temperature,
    Threads,
    TokenizerPath,
    TopK,
    TopP,
    make_sampling,
    open_model,
)  # fmt: skip
from edgecore_llm.runner.answer import answer_text
from edgecore_llm.tokenizer.stream import TextStream


def run_command(
    file: File,
    tokenizer: TokenizerPath,
    prompt: Annotated[str, typer.Option(help="The text that the model goes on with.")],
    max_new_tokens: Annotated[int, typer.Option(min=1, help="The most tokens of the answer.")] = 128,
    temperature: Temperature = 0.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    repetition_penalty: Penalty = 1.0,
    seed: Seed = 0,
    stop: Annotated[list[str] | None, typer.Option(help="The answer ends before this text; may be repeated.")] = None,
    shift: Shift = False,
    keep: Annotated[
        int | None, typer.Option(min=0, help="How many of the first tokens --shift keeps; by default 4.")
    ] = None,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on after tokens that end a text.")] = False,
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a last line with tokens, text and stats.")] = False,
) -> None:
    """Answer one prompt: print the text as it comes, and statistics on stderr."""
    if keep is not None and not shift:
        raise typer.BadParameter("--keep needs --shift")
    sampling = make_sampling(temperature, top_k, top_p, min_p, repetition_penalty, seed)
    model, opened = open_model(file, tokenizer, threads)
    session = model.new_session()
    tokens: list[int] = []

    def collected() -> Iterator[int]:
        inputs = opened.encode(prompt, bos=True)
        for token in session.generate(
            inputs, max_new_tokens, sampling, ignore_eos=ignore_eos, vocabulary=opened.vocabulary,
            keep=min(4 if keep is None else keep, len(inputs)) if shift else None,
        ):  # fmt: skip
            tokens.append(token)
            yield token

    text = ""
    for piece in answer_text(collected(), TextStream(opened), stop or ()):
        typer.echo(piece, nl=False)
        text += piece
    typer.echo()
    typer.echo(session.statistics.line(), err=True)
    if as_json:
        typer.echo(json.dumps({"tokens": tokens, "text": text, "stats": asdict(session.statistics)}))
