"""`edgecore llm export` and `edgecore llm export-llama`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from edgecore_llm.cli.options import read_text

if TYPE_CHECKING:
    from edgecore_llm.checkpoints.open import Checkpoint
    from edgecore_llm.config.plan import Plan
    from edgecore_llm.export import ExportOptions
    from edgecore_llm.model.calibrate import RoundedMatrix

BITS = "32 for float32, 8 or 4"
_DEFAULTS = {"--chunk": 128, "--bits": 4, "--embedding-bits": 8, "--output-bits": 8, "--group": 32, "--cache-bits": 32}


def export_command(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL] [+SECTION.KEY=VALUE]...",
            help="A folder of Hugging Face, a name on its Hub, a GGUF file, or a .pth file; settings of `LlmConfig`.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.pte", help="The file to write.")
    ] = None,
    params: Annotated[
        Path | None, typer.Option(metavar="params.json", help="The parameters that belong to a .pth file.")
    ] = None,
    quantized_by: Annotated[
        str | None,
        typer.Option(metavar="METHOD", help="How a quantized .pth file was made: spinquant or qat; its bits stay."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.yaml", help="Settings of `LlmConfig`, in place of the options below.")
    ] = None,
    context: Annotated[
        int | None, typer.Option(help="Tokens of prompt and answer; by default 2048, or what the model has if less.")
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option(help="The most tokens of a call, by default 128; longer prompts are computed in pieces."),
    ] = None,
    bits: Annotated[int | None, typer.Option(help=f"Of the linear layers: {BITS}; by default 4.")] = None,
    embedding_bits: Annotated[
        int | None, typer.Option(help=f"Of embeddings and of an output layer tied to them: {BITS}; by default 8.")
    ] = None,
    output_bits: Annotated[
        int | None, typer.Option(help=f"Of an output layer of its own, with --backend of any: {BITS}; by default 8.")
    ] = None,
    group: Annotated[
        int | None, typer.Option(help="Inputs that share a scale: a multiple of 32, by default 32; 0 for a whole row.")
    ] = None,
    window: Annotated[
        int | None, typer.Option(min=1, help="Positions that a token sees, with its own; by default as the model says.")
    ] = None,
    sinks: Annotated[
        int | None, typer.Option(min=0, help="First positions that each token sees beside --window (attention sinks).")
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.txt",
            exists=True,
            dir_okay=False,
            help="A text; linear layers are rounded by their inputs on it.",
        ),
    ] = None,
    calibration_tokens: Annotated[
        int | None, typer.Option(min=1, help="The most tokens of that text that are used; by default 4096.")
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The tokenizer of that text; by default the one of MODEL.")
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Print the loss of each layer on that text.")] = False,
    cache_bits: Annotated[
        int | None, typer.Option(help="Of keys and values: 32 for float32, 16 for float16, or 8; by default 32.")
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(help="Write a file for one backend: xnnpack, openvino, vulkan, qnn or coreml; or for executorch."),
    ] = None,
    bos_id: Annotated[
        int | None, typer.Option(help="The token that begins a text, for executorch's runners; only with --backend.")
    ] = None,
) -> None:
    """Compile a checkpoint to a file."""
    # torch is imported here: the other commands do without.
    from edgecore_llm.config.llm_config import load_config
    from edgecore_llm.config.plan import plan

    settings = [argument for argument in arguments or () if argument.startswith("+")]
    models = [argument for argument in arguments or () if not argument.startswith("+")]
    if len(models) > 1:
        raise typer.BadParameter(f"there is more than one MODEL: {' '.join(models)}")
    model = next(iter(models), None)
    values = {
        "--chunk": chunk, "--bits": bits, "--embedding-bits": embedding_bits, "--output-bits": output_bits,
        "--group": group, "--cache-bits": cache_bits,
    }  # fmt: skip
    if settings or config is not None:
        excluded: dict[str, object] = {
            "--context": context, **values, "--window": window, "--sinks": sinks, "--quantized-by": quantized_by,
            "--calibration": calibration, "--calibration-tokens": calibration_tokens, "--tokenizer": tokenizer,
            "--report": report or None, "--backend": backend, "--bos-id": bos_id,
        }  # fmt: skip
        if name := _first_given(excluded):
            raise typer.BadParameter(f"{name} and settings of LlmConfig exclude each other; write it as a setting")
        _export_plan(plan(load_config(config, settings)), model, params, output)
        return
    if model is None or output is None:
        raise typer.BadParameter("MODEL is missing" if model is None else "the option --output is missing")
    of_text = {"--report": report or None, "--calibration-tokens": calibration_tokens, "--tokenizer": tokenizer}
    if calibration is None and (name := _first_given(of_text)):
        raise typer.BadParameter(f"{name} needs --calibration FILE.txt")
    checkpoint = _open(model, params, quantized_by)
    most = min(2048, checkpoint.config.max_context) if context is None else context
    defaults = {**_DEFAULTS, **_stored_bits(checkpoint), "--chunk": max(2, min(_DEFAULTS["--chunk"], most))}
    options = _options(most, {name: defaults[name] if v is None else v for name, v in values.items()})
    options = replace(options, windows=() if window is None else (window,), sinks=sinks or 0)
    if backend is not None:
        of_ours = {"--cache-bits": cache_bits, "--window": window, "--sinks": sinks, "--calibration": calibration}
        if name := _first_given(of_ours):
            raise typer.BadParameter(f"{name} and --backend exclude each other")
        _export_for(backend, checkpoint, output, options, bos_id)
        return
    if bos_id is not None:
        raise typer.BadParameter("--bos-id needs --backend")
    if calibration is not None:
        tokens = _tokens(tokenizer or model, calibration, checkpoint.config.vocab_size)
        options = replace(options, calibration=tokens[: calibration_tokens or 4096])
    found = _export(checkpoint, output, options)
    if report:
        typer.echo("share of the squares of a layer's results that is lost: with calibration, without")
        for matrix in found:
            typer.echo(f"{matrix.name}: {matrix.loss:.2e}  {matrix.nearest_loss:.2e}")


def export_llama_command(arguments: typer.Context) -> None:
    """Compile a checkpoint to a file, with the flags of ExecuTorch's `export_llama`: -c FILE, -p FILE, -qmode 8da4w, ..."""
    from edgecore_llm.config.flags import config_from_flags
    from edgecore_llm.config.plan import plan

    _export_plan(plan(config_from_flags(arguments.args)), None, None, None)


def _export_plan(found: Plan, model: str | None, params: Path | None, output: Path | None) -> None:
    """Export what settings and arguments name together."""
    from edgecore_llm.checkpoints.open import stored_precision
    from edgecore_llm.errors import ConfigError, TokenizerError
    from edgecore_llm.tokenizer.open import open_tokenizer

    if params is not None and found.params is not None:
        raise ConfigError("--params and base.params exclude each other")
    if output is not None and found.output is not None:
        raise ConfigError("--output and export.output_name or export.output_dir exclude each other")
    if model is not None and found.checkpoint is not None:
        raise ConfigError("MODEL and base.checkpoint exclude each other")
    name = model or found.checkpoint or found.repository
    if name is None:
        raise ConfigError("no model is named: give MODEL, or base.checkpoint with base.params")
    quantized = found.quantized
    checkpoint = _open(name, params or found.params, None if quantized is None else quantized.method)
    config = checkpoint.config
    if found.family not in (None, config.family):
        raise ConfigError(f"base.model_class asks for the family {found.family}, and {name} is of {config.family}")
    if found.needs_tied and not config.tied:
        raise ConfigError("model.use_shared_embedding=True is not possible: the model has an output layer of its own")
    options = found.options
    if quantized is not None:
        precision = stored_precision(checkpoint)
        if precision is not None and config.tied:  # the bits of the output layer are those of the table
            precision = replace(precision, output=quantized.precision.output)
        if (precision, config.adapter_rank) != (quantized.precision, quantized.adapter_rank):
            raise ConfigError(
                f"the checkpoint has {precision} and adapters of rank {config.adapter_rank}; the settings "
                "base.preq_mode, base.preq_group_size and base.use_lora ask for "
                f"{quantized.precision} and {quantized.adapter_rank}"
            )
        options = replace(options, precision=replace(quantized.precision, cache=options.precision.cache))
    if found.tokenizer is not None:
        tokenizer = open_tokenizer(found.tokenizer)
        try:
            tokenizer.check_fit(config.vocab_size)
        except TokenizerError as error:
            raise ConfigError(f"base.tokenizer_path: {error}") from error
        constants = dict(options.constants)
        if not checkpoint.eos_ids and tokenizer.eos_ids:
            constants.setdefault("get_eos_ids", list(tokenizer.eos_ids))
        if tokenizer.bos_id is not None:
            constants.setdefault("get_bos_id", tokenizer.bos_id)
        options = replace(options, constants=constants, chat_template=tokenizer.chat_template)
    if found.is_verbose:
        typer.echo(f"{config.family}, {len(config.layers)} layers, {options}")
    _export(checkpoint, output or found.output or default_output(name), options)


def default_output(model: str) -> Path:
    """Return the file for a model that is named `Llama-3.2-1B`, or `folder/llama.gguf`."""
    path = Path(model)
    return Path(f"{path.stem if path.suffix in ('.gguf', '.pth', '.pt') else path.name}.pte")


def _first_given(options: Mapping[str, object]) -> str | None:
    """Return the name of the first option that has a value; None if none has one."""
    return next((name for name, value in options.items() if value is not None), None)


def _open(model: str, params: Path | str | None, method: str | None) -> Checkpoint:
    from edgecore_llm.checkpoints.hub import model_path
    from edgecore_llm.checkpoints.open import open_checkpoint

    if method not in (None, "spinquant", "qat"):
        raise typer.BadParameter(f"--quantized-by must be spinquant or qat, not {method}")
    return open_checkpoint(model_path(model), params, cast("Literal['spinquant', 'qat'] | None", method))


def _stored_bits(checkpoint: Checkpoint) -> dict[str, int]:
    """Return the options that keep the integers of a quantized checkpoint."""
    from edgecore_llm.checkpoints.open import stored_precision

    if (stored := stored_precision(checkpoint)) is None:
        return {}
    bits = {"--bits": stored.linear, "--embedding-bits": stored.embedding, "--output-bits": stored.output}
    return {"--group": stored.group, **{name: value or 32 for name, value in bits.items()}}


def _options(context: int, values: dict[str, int]) -> ExportOptions:
    from edgecore_llm.export import ExportOptions
    from edgecore_llm.model.layers import Precision

    cache = values["--cache-bits"]
    if cache not in (8, 16, 32):
        raise typer.BadParameter(f"--cache-bits must be 8, 16 or 32, not {cache}")
    linear, embedding, output = (_bits(name, values[name]) for name in ("--bits", "--embedding-bits", "--output-bits"))
    precision = Precision(
        linear=linear,
        embedding=embedding,
        output=output,
        group=values["--group"],
        cache=cast("Literal[8, 16, 32]", cache),
    )
    return ExportOptions(context=context, chunk=values["--chunk"], precision=precision)


def _tokens(tokenizer: Path | str, text: Path, vocabulary: int) -> list[int]:
    from edgecore_llm.tokenizer.open import open_tokenizer

    opened = open_tokenizer(tokenizer)
    opened.check_fit(vocabulary)
    tokens = opened.encode(read_text(text))
    if not tokens:
        raise typer.BadParameter(f"--calibration: {text} is empty")
    return tokens


def _export_for(backend: str, checkpoint: Checkpoint, output: Path, options: ExportOptions, bos_id: int | None) -> None:
    from edgecore_llm.portable import PortableOptions, export_portable

    portable = PortableOptions(backend, options.context, options.chunk, options.precision, bos_id)
    typer.echo(export_portable(checkpoint, output, portable))
    _print_size(output, options)


def _export(checkpoint: Checkpoint, output: Path, options: ExportOptions) -> list[RoundedMatrix]:
    from edgecore_llm.export import export

    found = export(checkpoint, output, options)
    _print_size(output, options)
    return found


def _print_size(output: Path, options: ExportOptions) -> None:
    typer.echo(f"{output}: {output.stat().st_size / 1e6:.1f} MB, context {options.context}")


def _bits(name: str, value: int) -> Literal[4, 8] | None:
    if value not in (4, 8, 32):
        raise typer.BadParameter(f"{name} must be 4, 8 or 32, not {value}")
    return None if value == 32 else cast("Literal[4, 8]", value)
