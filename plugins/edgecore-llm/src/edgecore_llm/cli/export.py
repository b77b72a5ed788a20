"""`edgecore llm export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from edgecore_llm.cli.options import read_text

BITS = "32 for float32, 8 or 4"


def export_command(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A folder of Hugging Face, a GGUF file, or a .pth file.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.pte", help="The file to write.")],
    params: Annotated[
        Path | None, typer.Option(metavar="params.json", help="The parameters that belong to a .pth file.")
    ] = None,
    context: Annotated[
        int | None, typer.Option(help="Tokens of prompt and answer; by default 2048, or what the model has if less.")
    ] = None,
    chunk: Annotated[int, typer.Option(help="The most tokens of a call; longer prompts are computed in pieces.")] = 128,
    bits: Annotated[int, typer.Option(help=f"Of the linear layers: {BITS}.")] = 4,
    embedding_bits: Annotated[
        int, typer.Option(help=f"Of embeddings and of an output layer tied to them: {BITS}.")
    ] = 8,
    output_bits: Annotated[int, typer.Option(help=f"Of an output layer of its own: {BITS}.")] = 8,
    group: Annotated[int, typer.Option(help="Inputs that share a scale: a multiple of 32; 0 for a whole row.")] = 32,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE.txt", help="A text; linear layers are rounded by their inputs on it.")
    ] = None,
    calibration_tokens: Annotated[int, typer.Option(min=1, help="The most tokens of that text that are used.")] = 4096,
    tokenizer: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The tokenizer of that text; by default the one of MODEL.")
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Print the loss of each layer on that text.")] = False,
    cache_bits: Annotated[int, typer.Option(help="Of keys and values: 32 for float32, 16 for float16, or 8.")] = 32,
) -> None:
    """Compile a checkpoint to a file."""
    # torch is imported here: the other commands do without.
    from edgecore_llm.checkpoints.open import open_checkpoint
    from edgecore_llm.export import ExportOptions, export
    from edgecore_llm.model.layers import Precision
    from edgecore_llm.tokenizer.open import open_tokenizer

    if cache_bits not in (8, 16, 32):
        raise typer.BadParameter(f"--cache-bits must be 8, 16 or 32, not {cache_bits}")
    if report and calibration is None:
        raise typer.BadParameter("--report needs --calibration FILE.txt")
    checkpoint = open_checkpoint(model, params)
    tokens: list[int] = []
    if calibration is not None:
        opened = open_tokenizer(model if tokenizer is None else tokenizer)
        opened.check_fit(checkpoint.config.vocab_size)
        tokens = opened.encode(read_text(calibration))[:calibration_tokens]
    options = ExportOptions(
        context=min(2048, checkpoint.config.max_context) if context is None else context,
        chunk=chunk,
        precision=Precision(
            linear=_bits("--bits", bits),
            embedding=_bits("--embedding-bits", embedding_bits),
            output=_bits("--output-bits", output_bits),
            group=group,
            cache=cast("Literal[8, 16, 32]", cache_bits),
        ),
        calibration=tokens,
    )
    found = export(checkpoint, output, options)
    if report:
        typer.echo("share of the squares of a layer's results that is lost: with calibration, without")
        for matrix in found:
            typer.echo(f"{matrix.name}: {matrix.loss:.2e}  {matrix.nearest_loss:.2e}")
    typer.echo(f"{output}: {output.stat().st_size / 1e6:.1f} MB, context {options.context}")


def _bits(name: str, value: int) -> Literal[4, 8] | None:
    if value not in (4, 8, 32):
        raise typer.BadParameter(f"{name} must be 4, 8 or 32, not {value}")
    return None if value == 32 else cast("Literal[4, 8]", value)
