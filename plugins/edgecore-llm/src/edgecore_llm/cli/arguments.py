"""The arguments of `edgecore llm export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

BITS = "32 for float32, 8 or 4"


@dataclass(frozen=True)
class ExportArguments:
    """The arguments of `edgecore llm export`, as typer reads them; an absent option is None or False."""

    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL] [+SECTION.KEY=VALUE]...",
            help="A folder of Hugging Face, a name on its Hub, a GGUF file, or a .pth file; settings of `LlmConfig`.",
            show_default=False,
        ),
    ] = None
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE.pte", help="The file to write.")] = None
    params: Annotated[
        Path | None, typer.Option(metavar="params.json", help="The parameters that belong to a .pth file.")
    ] = None
    quantized_by: Annotated[
        str | None,
        typer.Option(metavar="METHOD", help="How a quantized .pth file was made: spinquant or qat; its bits stay."),
    ] = None
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.yaml", help="Settings of `LlmConfig`, in place of the options below.")
    ] = None
    context: Annotated[
        int | None, typer.Option(help="Tokens of prompt and answer; by default 2048, or what the model has if less.")
    ] = None
    chunk: Annotated[
        int | None,
        typer.Option(help="The most tokens of a call, by default 128; longer prompts are computed in pieces."),
    ] = None
    bits: Annotated[int | None, typer.Option(help=f"Of the linear layers: {BITS}; by default 4.")] = None
    embedding_bits: Annotated[
        int | None, typer.Option(help=f"Of embeddings and of an output layer tied to them: {BITS}; by default 8.")
    ] = None
    output_bits: Annotated[
        int | None, typer.Option(help=f"Of an output layer of its own, with --backend of any: {BITS}; by default 8.")
    ] = None
    group: Annotated[
        int | None, typer.Option(help="Inputs that share a scale: a multiple of 32, by default 32; 0 for a whole row.")
    ] = None
    window: Annotated[
        int | None, typer.Option(min=1, help="Positions that a token sees, with its own; by default as the model says.")
    ] = None
    sinks: Annotated[
        int | None, typer.Option(min=0, help="First positions that each token sees beside --window (attention sinks).")
    ] = None
    calibration: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.txt",
            exists=True,
            dir_okay=False,
            help="A text; linear layers are rounded by their inputs on it.",
        ),
    ] = None
    calibration_tokens: Annotated[
        int | None, typer.Option(min=1, help="The most tokens of that text that are used; by default 4096.")
    ] = None
    tokenizer: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The tokenizer of that text; by default the one of MODEL.")
    ] = None
    report: Annotated[bool, typer.Option("--report", help="Print the loss of each layer on that text.")] = False
    cache_bits: Annotated[
        int | None, typer.Option(help="Of keys and values: 32 for float32, 16 for float16, or 8; by default 32.")
    ] = None
    backend: Annotated[
        str | None,
        typer.Option(help="Write a file for one backend: xnnpack, openvino, vulkan, qnn or coreml; or for executorch."),
    ] = None
    bos_id: Annotated[
        int | None, typer.Option(help="The token that begins a text, for executorch's runners; only with --backend.")
    ] = None

    @property
    def settings(self) -> list[str]:
        """The arguments of the form `+SECTION.KEY=VALUE`, which set keys of `LlmConfig`."""
        return [argument for argument in self.arguments or () if argument.startswith("+")]

    @property
    def model(self) -> str | None:
        """The argument MODEL, or None if it is absent.

        Raises:
            typer.BadParameter: There is more than one MODEL.
        """
        models = [argument for argument in self.arguments or () if not argument.startswith("+")]
        if len(models) > 1:
            raise typer.BadParameter(f"there is more than one MODEL: {' '.join(models)}")
        return next(iter(models), None)

    def first_present(self, *fields: str) -> str | None:
        """Return the first option of `fields` that the user gave, in the form `--cache-bits`; None if there is none."""
        present = (name for name in fields if getattr(self, name) is not None and getattr(self, name) is not False)
        return next((f"--{name.replace('_', '-')}" for name in present), None)
