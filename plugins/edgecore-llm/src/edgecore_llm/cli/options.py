"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgecore_llm.errors import SessionError
from edgecore_llm.runner.session import Model
from edgecore_llm.sampler import Sampling
from edgecore_llm.tokenizer.open import open_tokenizer
from edgecore_llm.tokenizer.tokenizer import Tokenizer

File = Annotated[Path, typer.Argument(metavar="FILE.pte", help="A file that `edgecore llm export` made.")]
TokenizerPath = Annotated[
    Path,
    typer.Option(
        "--tokenizer", metavar="PATH", help="Folder or file of the tokenizer: tokenizer.json, .model, .bin, .gguf."
    ),
]
Threads = Annotated[int | None, typer.Option(min=1, help="Number of threads; by default that of the cores.")]
Temperature = Annotated[float, typer.Option(help="0 takes the most probable token; higher values vary more.")]
TopK = Annotated[int, typer.Option(help="Only the most probable tokens are drawn; 0 for all.")]
TopP = Annotated[float, typer.Option(help="Only the most probable tokens with this sum are drawn; 1 for all.")]
MinP = Annotated[float, typer.Option(help="Only tokens with this share of the largest probability are drawn.")]
Penalty = Annotated[float, typer.Option("--repetition-penalty", help="Above 1: tokens of late occur less.")]
Seed = Annotated[int, typer.Option(help="Equal seeds draw equal tokens.")]

Shift = Annotated[
    bool,
    typer.Option("--shift", help="Go on when the context is full: drop the oldest tokens and compute the others anew."),
]


def open_model(file: Path, tokenizer: Path, threads: int | None) -> tuple[Model, Tokenizer]:
    """Load a model and its tokenizer, and check that they belong together."""
    opened = open_tokenizer(tokenizer)
    model = Model(file, threads=threads)
    opened.check_fit(model.metadata.vocabulary)
    return model, opened


def read_text(path: Path) -> str:
    """Return the content of a text file.

    Raises:
        SessionError: It is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SessionError(f"{path} is no text in UTF-8") from error


def make_sampling(
    temperature: float, top_k: int, top_p: float, min_p: float, repetition_penalty: float, seed: int
) -> Sampling:
    """Return the sampling; a value outside of its range is an error of the command line."""
    try:
        return Sampling(
            temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty,
            seed=seed,
        )  # fmt: skip
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
