"""Compile a checkpoint to a `.pte` file."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

import edgecore
from edgecore_llm.checkpoints.open import Checkpoint, stored_precision
from edgecore_llm.errors import ConfigError
from edgecore_llm.model.calibrate import RoundedMatrix, calibrate
from edgecore_llm.model.config import DecoderConfig
from edgecore_llm.model.layers import Precision
from edgecore_llm.model.load import load_decoder
from edgecore_llm.quantize.packed import GROUP
from edgecore_llm.runner.session import FORMAT, METADATA_METHOD


@dataclass(frozen=True)
class ExportOptions:
    """The options of an export.

    Attributes:
        context: Maximum number of positions of a sequence, prompt and answer together.
        chunk: Maximum number of tokens per call; longer prompts are computed in chunks.
        precision: The bits of the weights and of the key-value caches.
        calibration: Tokens of a sample text. GPTQ chooses the rounding of all linear layers except the output layer
            from the inputs that they get on this text. Without tokens, each weight is rounded to nearest.
        backends: Backends of edgecore to delegate supported parts to, such as "xnnpack".
        windows: How many positions each layer sees, 0 for all: layer i has windows[i % len(windows)]. Empty: the
            model's own windows.
        sinks: How many positions at the start of a sequence (attention sinks) are also seen by layers with a window of
            `windows`.
        constants: Additional constant methods: numbers, texts, and lists of them. `get_eos_ids` replaces the
            end-of-text tokens of the checkpoint.
        chat_template: The model's chat template in Jinja; None for the checkpoint's.
    """

    context: int = 2048
    chunk: int = 128
    precision: Precision = field(default_factory=lambda: Precision(linear=4, embedding=8, output=8))
    calibration: Sequence[int] = ()
    backends: Sequence[str] = ()
    windows: Sequence[int] = ()
    sinks: int = 0
    constants: Mapping[str, Any] = field(default_factory=dict)
    chat_template: str | None = None


def export(checkpoint: Checkpoint, file: str | Path, options: ExportOptions = ExportOptions()) -> list[RoundedMatrix]:
    """Write a `.pte` with `forward(tokens [T], positions [T], rows [R]) -> logits [R, vocabulary]` and cache updates.

    The weights are read from the checkpoint in parts, so memory stays small. Returns the matrices that were rounded by
    GPTQ, with their losses; [] without calibration.

    Raises:
        ConfigError: The context is longer than the model's, the chunk or group is out of range, or the folder does not
            exist.
        CheckpointError: A tensor is missing, or has another shape than the configuration asks for.
    """
    config = checkpoint.config
    check_context(options.context, config)
    if not 2 <= options.chunk <= options.context:
        raise ConfigError(f"the chunk {options.chunk} does not lie between 2 and the context {options.context}")
    check_group(options.precision)
    check_folder(file)
    config = _with_windows(config, options)
    rounded_matrices: list[RoundedMatrix] = []
    if options.calibration:
        if stored_precision(checkpoint) is not None:
            raise ConfigError("the checkpoint is quantized already, so there is nothing to calibrate")
        rounded_matrices.extend(calibrate(config, checkpoint, options.calibration, options.context, options.precision))
    decoder = load_decoder(
        config, checkpoint, context=options.context, chunk=options.chunk, precision=options.precision, is_lazy=True,
        rounded={matrix.name: matrix.value for matrix in rounded_matrices},
    )  # fmt: skip
    tokens, rows = (torch.export.Dim(name, min=1, max=options.chunk) for name in ("tokens", "rows"))
    program = edgecore.compile(
        decoder,
        (torch.zeros(2, dtype=torch.int64), torch.arange(2), torch.arange(2)),
        dynamic_shapes=({0: tokens}, {0: tokens}, {0: rows}),
        backends=list(options.backends),
        runtime="edgecore",
        constant_tensor_alignment=64,  # 64 bytes: packed weights begin at a cache line
        constant_methods=_constant_methods(checkpoint, options, decoder.rewindable),
    )
    program.save(file)
    return rounded_matrices


def _with_windows(config: DecoderConfig, options: ExportOptions) -> DecoderConfig:
    """Return `config` with the sliding windows and attention sinks of `options` instead of the model's."""
    if options.sinks < 0 or (options.sinks and not any(options.windows)):
        raise ConfigError(f"{options.sinks} attention sinks need a window of positions that tokens see beside them")
    if not options.windows:
        return config
    windows = (options.windows[index % len(options.windows)] for index in range(len(config.layers)))
    layers = (
        replace(layer, window=window, sinks=options.sinks if window else 0)
        for layer, window in zip(config.layers, windows, strict=True)
    )
    return replace(config, layers=tuple(layers))


def check_context(context: int, config: DecoderConfig) -> None:
    """Check that the model supports a context of this many positions.

    Raises:
        ConfigError: The context is below 2 or above the model's maximum.
    """
    if not 2 <= context <= config.max_context:
        raise ConfigError(f"the context {context} does not lie between 2 and the model's {config.max_context}")


def check_group(precision: Precision) -> None:
    """Check that packed matrices can have the group sizes (inputs per scale) of `precision`.

    Raises:
        ConfigError: A group size is neither 0 nor a multiple of 32.
    """
    for group in (precision.group, precision.embedding_group or 0):
        if group < 0 or group % GROUP:
            raise ConfigError(f"the group {group} is neither 0 nor a multiple of {GROUP}")


def check_folder(file: str | Path) -> None:
    """Check before the long export that the folder of `file` exists.

    Raises:
        ConfigError: The folder does not exist.
    """
    if not (folder := Path(file).parent).is_dir():
        raise ConfigError(f"the folder {folder} of the file to write does not exist")


def _constant_methods(checkpoint: Checkpoint, options: ExportOptions, rewindable: int | None) -> dict[str, object]:
    """Return the constant methods of the `.pte`: those that ExecuTorch's runners call, and edgecore's metadata."""
    config = checkpoint.config
    ids = options.constants.get("get_eos_ids", checkpoint.eos_ids)
    eos_ids = [ids] if isinstance(ids, int) else list(ids)
    metadata: dict[str, Any] = {
        "format": FORMAT,
        "export": uuid.uuid4().hex,
        "family": config.family,
        "context": options.context,
        "chunk": options.chunk,
        "vocabulary": config.vocab_size,
        "eos_ids": eos_ids,
        "rewindable": rewindable,
        "chat_template": options.chat_template or checkpoint.chat_template,
        "precision": asdict(options.precision),
    }
    ours = {
        "get_max_seq_len": options.chunk,
        "get_max_context_len": options.context,
        "get_vocab_size": config.vocab_size,
        "get_n_layers": len(config.layers),
        "use_kv_cache": True,
        "enable_dynamic_shape": True,
        METADATA_METHOD: json.dumps(metadata),
    }
    if reserved := sorted(options.constants.keys() & {*ours, "forward"}):
        raise ConfigError(f"the constant {reserved[0]} follows from the model and cannot be given")
    return {**options.constants, **ours, "get_eos_ids": eos_ids or [-1]}
