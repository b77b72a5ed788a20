"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
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
Threads = Annotated[int | None, typer.Option(min=1, help="Number of threads; by default one for each core.")]
Temperature = Annotated[float, typer.Option(help="0 takes the most probable token; higher values vary more.")]
TopK = Annotated[int, typer.Option(help="Only the most probable tokens are drawn; 0 for all.")]
TopP = Annotated[float, typer.Option(help="Only the most probable tokens with this sum are drawn; 1 for all.")]


@dataclass(frozen=True, kw_only=True)
class AnswerArguments:
    """The arguments that `edgecore llm run` and `edgecore llm chat` share, in the form that typer reads."""

    file: File
    tokenizer: TokenizerPath
    temperature: Temperature = 0.0
    top_k: TopK = 0
    top_p: TopP = 1.0
    min_p: Annotated[float, typer.Option(help="Only tokens with this share of the largest probability are drawn.")] = (
        0.0
    )
    repetition_penalty: Annotated[float, typer.Option(help="Above 1: recent tokens occur less.")] = 1.0
    seed: Annotated[int, typer.Option(help="Equal seeds draw equal tokens.")] = 0
    shift: Annotated[
        bool,
        typer.Option(
            "--shift", help="Go on when the context is full: drop the oldest tokens and compute the others anew."
        ),
    ] = False
    threads: Threads = None

    @property
    def sampling(self) -> Sampling:
        """The settings for drawing the next token: temperature, top-k and the other arguments.

        Raises:
            typer.BadParameter: A value is outside of its range.
        """
        try:
            return Sampling(
                temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p,
                repetition_penalty=self.repetition_penalty, seed=self.seed,
            )  # fmt: skip
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error


def open_model(file: Path, tokenizer: Path, threads: int | None) -> tuple[Model, Tokenizer]:
    """Load a model and its tokenizer, and check that the tokenizer fits the model's vocabulary."""
    opened = open_tokenizer(tokenizer)
    model = Model(file, threads=threads)
    opened.check_fit(model.metadata.vocabulary)
    return model, opened


def read_text(path: Path) -> str:
    """Return the content of a text file.

    Raises:
        SessionError: The file is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SessionError(f"{path} is no text in UTF-8") from error
