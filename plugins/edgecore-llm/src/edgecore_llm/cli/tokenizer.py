"""Implement `edgecore llm tokenizer`, which converts a SentencePiece model to a `tokenizer.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgecore_llm.tokenizer.sentence_piece_json import convert


def tokenizer_command(
    model: Annotated[Path, typer.Argument(metavar="tokenizer.model", exists=True, dir_okay=False, show_default=False)],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FOLDER", help="Where tokenizer.json is written.", show_default=False),
    ],
) -> None:
    """Convert a model of SentencePiece to a tokenizer.json, which the C++ runner reads."""
    convert(model, output)
