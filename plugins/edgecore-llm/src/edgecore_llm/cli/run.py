"""Implement `edgecore llm run`, which answers one prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from edgecore.sdk.commands import takes
from edgecore_llm.cli.options import AnswerArguments, open_model
from edgecore_llm.runner.answer import answer_text
from edgecore_llm.tokenizer.stream import TextStream


@dataclass(frozen=True, kw_only=True)
class RunArguments(AnswerArguments):
    """The arguments of `edgecore llm run`."""

    prompt: Annotated[str, typer.Option(help="The text that the model goes on with.")]
    max_new_tokens: Annotated[int, typer.Option(min=1, help="The most tokens of the answer.")] = 128
    stop: Annotated[list[str] | None, typer.Option(help="The answer ends before this text; may be repeated.")] = None
    keep: Annotated[
        int | None, typer.Option(min=0, help="How many of the first tokens --shift keeps; by default 4.")
    ] = None
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on after tokens that end a text.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print a last line with tokens, text and stats.")] = False


@takes(RunArguments)
def run_command(arguments: RunArguments) -> None:
    """Answer one prompt: print the text as it comes, and statistics on stderr."""
    keep = arguments.keep
    if keep is not None and not arguments.shift:
        raise typer.BadParameter("--keep needs --shift")
    sampling = arguments.sampling
    model, tokenizer = open_model(arguments.file, arguments.tokenizer, arguments.threads)
    session = model.new_session()
    tokens: list[int] = []

    def collected() -> Iterator[int]:
        inputs = tokenizer.encode(arguments.prompt, bos=True)
        for token in session.generate(
            inputs,
            arguments.max_new_tokens,
            sampling,
            ignore_eos=arguments.ignore_eos,
            vocabulary=tokenizer.vocabulary,
            keep=min(4 if keep is None else keep, len(inputs)) if arguments.shift else None,
        ):
            tokens.append(token)
            yield token

    text = ""
    for piece in answer_text(collected(), TextStream(tokenizer), arguments.stop or ()):
        typer.echo(piece, nl=False)
        text += piece
    typer.echo()
    typer.echo(session.statistics.line(), err=True)
    if arguments.as_json:
        typer.echo(json.dumps({"tokens": tokens, "text": text, "stats": asdict(session.statistics)}))
