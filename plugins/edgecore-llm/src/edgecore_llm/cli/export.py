"""`edgecore llm export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

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
    backend: Annotated[
        str | None,
        typer.Option(help="Write a file for one backend: xnnpack, openvino or vulkan; or for executorch."),
    ] = None,
    bos_id: Annotated[
        int | None, typer.Option(help="The token that begins a text, for executorch's runners; only with --backend.")
    ] = None,
) -> None:
    """Compile a checkpoint to a file."""
    # torch is imported here: the other commands do without.
    from edgecore_llm.checkpoints.open import open_checkpoint
    from edgecore_llm.export import ExportOptions, export
    from edgecore_llm.model.layers import Precision

    checkpoint = open_checkpoint(model, params)
    options = ExportOptions(
        context=min(2048, checkpoint.config.max_context) if context is None else context,
        chunk=chunk,
        precision=Precision(
            linear=_bits("--bits", bits),
            embedding=_bits("--embedding-bits", embedding_bits),
            output=_bits("--output-bits", output_bits),
            group=group,
        ),
    )
    if backend is not None:
        from edgecore_llm.portable import PortableOptions, export_portable

        portable = PortableOptions(backend, options.context, chunk, options.precision, bos_id)
        typer.echo(export_portable(checkpoint, output, portable))
    else:
        export(checkpoint, output, options)
    typer.echo(f"{output}: {output.stat().st_size / 1e6:.1f} MB, context {options.context}")


def _bits(name: str, value: int) -> Literal[4, 8] | None:
    if value not in (4, 8, 32):
        raise typer.BadParameter(f"{name} must be 4, 8 or 32, not {value}")
    return None if value == 32 else cast("Literal[4, 8]", value)
