"""Implement `edgecore llm export` and `edgecore llm export-llama`, which compile a checkpoint to a `.pte` file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import typer

from edgecore.sdk.commands import takes
from edgecore_llm.cli.arguments import ExportArguments
from edgecore_llm.cli.options import read_text

if TYPE_CHECKING:
    from edgecore_llm.checkpoints.open import Checkpoint
    from edgecore_llm.config.plan import Plan, QuantizedPlan
    from edgecore_llm.export import ExportOptions
    from edgecore_llm.model.calibrate import RoundedMatrix

_DEFAULTS = {"chunk": 128, "bits": 4, "embedding_bits": 8, "output_bits": 8, "group": 32, "cache_bits": 32}
_EXCLUDED_BY_SETTINGS = (
    "context", *_DEFAULTS, "window", "sinks", "quantized_by", "calibration", "calibration_tokens", "tokenizer",
    "report", "backend", "bos_id",
)  # fmt: skip


@takes(ExportArguments)
def export_command(arguments: ExportArguments) -> None:
    """Compile a checkpoint of a language model to a `.pte` file."""
    if arguments.settings or arguments.config is not None:
        _export_by_settings(arguments)
    else:
        _export_by_options(arguments)


def _export_by_settings(arguments: ExportArguments) -> None:
    # Import torch only in functions that export, because the other commands run without torch.
    from edgecore_llm.config.llm_config import load_config
    from edgecore_llm.config.plan import plan

    model = arguments.model
    if name := arguments.first_present(*_EXCLUDED_BY_SETTINGS):
        raise typer.BadParameter(f"{name} and settings of LlmConfig exclude each other; write it as a setting")
    planned = plan(load_config(arguments.config, arguments.settings))
    _export_plan(planned, model, arguments.params, arguments.output)


def _export_by_options(arguments: ExportArguments) -> None:
    model, output = arguments.model, arguments.output
    if model is None or output is None:
        raise typer.BadParameter("MODEL is missing" if model is None else "the option --output is missing")
    needs_text = arguments.first_present("report", "calibration_tokens", "tokenizer")
    if arguments.calibration is None and needs_text:
        raise typer.BadParameter(f"{needs_text} needs --calibration FILE.txt")
    checkpoint = _open(model, arguments.params, arguments.quantized_by)
    options = _options(arguments, checkpoint)
    if arguments.backend is not None:
        if name := arguments.first_present("cache_bits", "window", "sinks", "calibration"):
            raise typer.BadParameter(f"{name} and --backend exclude each other")
        _export_for(arguments.backend, checkpoint, output, options, arguments.bos_id)
        return
    if arguments.bos_id is not None:
        raise typer.BadParameter("--bos-id needs --backend")
    if arguments.calibration is not None:
        tokens = _tokens(arguments.tokenizer or model, arguments.calibration, checkpoint.config.vocab_size)
        options = replace(options, calibration=tokens[: arguments.calibration_tokens or 4096])
    rounded = _export(checkpoint, output, options)
    if arguments.report:
        typer.echo("share of the squares of a layer's results that is lost: with calibration, without")
        for matrix in rounded:
            typer.echo(f"{matrix.name}: {matrix.loss:.2e}  {matrix.nearest_loss:.2e}")


def export_llama_command(arguments: typer.Context) -> None:
    """Compile a checkpoint with the flags of ExecuTorch's `export_llama`: -c FILE, -p FILE, -qmode 8da4w, ..."""
    from edgecore_llm.config.flags import config_from_flags
    from edgecore_llm.config.plan import plan

    _export_plan(plan(config_from_flags(arguments.args)), None, None, None)


def _export_plan(planned: Plan, model: str | None, params: Path | None, output: Path | None) -> None:
    """Run the export that the settings of `LlmConfig` and the command's other arguments describe together."""
    from edgecore_llm.errors import ConfigError

    if params is not None and planned.params is not None:
        raise ConfigError("--params and base.params exclude each other")
    if output is not None and planned.output is not None:
        raise ConfigError("--output and export.output_name or export.output_dir exclude each other")
    if model is not None and planned.checkpoint is not None:
        raise ConfigError("MODEL and base.checkpoint exclude each other")
    name = model or planned.checkpoint or planned.repository
    if name is None:
        raise ConfigError("no model is named: give MODEL, or base.checkpoint with base.params")
    quantized = planned.quantized
    checkpoint = _open(name, params or planned.params, None if quantized is None else quantized.method)
    config = checkpoint.config
    if planned.family not in (None, config.family):
        raise ConfigError(f"base.model_class asks for the family {planned.family}, and {name} is of {config.family}")
    if planned.needs_tied and not config.tied:
        raise ConfigError("model.use_shared_embedding=True is not possible: the model has an output layer of its own")
    options = planned.options
    if quantized is not None:
        options = _with_stored_precision(options, checkpoint, quantized)
    if planned.tokenizer is not None:
        options = _with_tokenizer(options, checkpoint, planned.tokenizer)
    if planned.is_verbose:
        typer.echo(f"{config.family}, {len(config.layers)} layers, {options}")
    _export(checkpoint, output or planned.output or default_output(name), options)


def _with_stored_precision(options: ExportOptions, checkpoint: Checkpoint, quantized: QuantizedPlan) -> ExportOptions:
    """Return `options` with the bits of a quantized checkpoint, after checking that the settings agree with them."""
    from edgecore_llm.checkpoints.open import stored_precision
    from edgecore_llm.errors import ConfigError

    config, precision = checkpoint.config, stored_precision(checkpoint)
    if precision is not None and config.tied:  # a tied output layer has the bits of the embedding table
        precision = replace(precision, output=quantized.precision.output)
    if (precision, config.adapter_rank) != (quantized.precision, quantized.adapter_rank):
        raise ConfigError(
            f"the checkpoint has {precision} and adapters of rank {config.adapter_rank}; the settings "
            "base.preq_mode, base.preq_group_size and base.use_lora ask for "
            f"{quantized.precision} and {quantized.adapter_rank}"
        )
    return replace(options, precision=replace(quantized.precision, cache=options.precision.cache))


def _with_tokenizer(options: ExportOptions, checkpoint: Checkpoint, path: str) -> ExportOptions:
    """Return `options` with the chat template and the special tokens' ids of a tokenizer."""
    from edgecore_llm.errors import ConfigError, TokenizerError
    from edgecore_llm.tokenizer.open import open_tokenizer

    tokenizer = open_tokenizer(path)
    try:
        tokenizer.check_fit(checkpoint.config.vocab_size)
    except TokenizerError as error:
        raise ConfigError(f"base.tokenizer_path: {error}") from error
    constants = dict(options.constants)
    if not checkpoint.eos_ids and tokenizer.eos_ids:
        constants.setdefault("get_eos_ids", list(tokenizer.eos_ids))
    if tokenizer.bos_id is not None:
        constants.setdefault("get_bos_id", tokenizer.bos_id)
    return replace(options, constants=constants, chat_template=tokenizer.chat_template)


def default_output(model: str) -> Path:
    """Return the file to write for a model: `Llama-3.2-1B` -> `Llama-3.2-1B.pte`, `a/llama.gguf` -> `llama.pte`."""
    path = Path(model)
    return Path(f"{path.stem if path.suffix in ('.gguf', '.pth', '.pt') else path.name}.pte")


def _open(model: str, params: Path | str | None, method: str | None) -> Checkpoint:
    from edgecore_llm.checkpoints.hub import model_path
    from edgecore_llm.checkpoints.open import open_checkpoint

    if method not in (None, "spinquant", "qat"):
        raise typer.BadParameter(f"--quantized-by must be spinquant or qat, not {method}")
    return open_checkpoint(model_path(model), params, cast("Literal['spinquant', 'qat'] | None", method))


def _options(arguments: ExportArguments, checkpoint: Checkpoint) -> ExportOptions:
    """Return the options of an export; omitted ones are a quantized checkpoint's, or else defaults."""
    from edgecore_llm.checkpoints.open import stored_precision
    from edgecore_llm.export import ExportOptions
    from edgecore_llm.model.layers import Precision

    context = arguments.context
    if context is None:
        context = min(2048, checkpoint.config.max_context)
    values = {**_DEFAULTS, "chunk": max(2, min(_DEFAULTS["chunk"], context))}
    if (stored := stored_precision(checkpoint)) is not None:
        bits = {"bits": stored.linear, "embedding_bits": stored.embedding, "output_bits": stored.output}
        values |= {"group": stored.group, **{name: value or 32 for name, value in bits.items()}}
    values |= {name: value for name in values if (value := getattr(arguments, name)) is not None}
    cache = values["cache_bits"]
    if cache not in (8, 16, 32):
        raise typer.BadParameter(f"--cache-bits must be 8, 16 or 32, not {cache}")
    precision = Precision(
        linear=_bits("--bits", values["bits"]),
        embedding=_bits("--embedding-bits", values["embedding_bits"]),
        output=_bits("--output-bits", values["output_bits"]),
        group=values["group"],
        cache=cast("Literal[8, 16, 32]", cache),
    )
    windows = () if arguments.window is None else (arguments.window,)
    return ExportOptions(context, values["chunk"], precision, windows=windows, sinks=arguments.sinks or 0)


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

    rounded = export(checkpoint, output, options)
    _print_size(output, options)
    return rounded


def _print_size(output: Path, options: ExportOptions) -> None:
    typer.echo(f"{output}: {output.stat().st_size / 1e6:.1f} MB, context {options.context}")


def _bits(name: str, value: int) -> Literal[4, 8] | None:
    if value not in (4, 8, 32):
        raise typer.BadParameter(f"{name} must be 4, 8 or 32, not {value}")
    return None if value == 32 else cast("Literal[4, 8]", value)
