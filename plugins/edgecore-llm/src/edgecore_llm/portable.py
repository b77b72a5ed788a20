"""Export a checkpoint for ExecuTorch's text runner or for a backend: `edgecore llm export --backend NAME`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch

import edgecore
from edgecore_llm.checkpoints.open import Checkpoint
from edgecore_llm.errors import ConfigError
from edgecore_llm.export import check_context, check_folder, check_group
from edgecore_llm.model.layers import Precision
from edgecore_llm.model.portable import Form, load_portable
from edgecore_llm.model.portable_layers import PortableMatrix
from edgecore_llm.runner.portable_files import KEEPS_ALL

EXECUTORCH = "executorch"


@dataclass(frozen=True)
class Target:
    """The variant of the decoder that a backend supports.

    Attributes:
        form: The operators of attention, see `Form`.
        is_dynamic: A call takes 1 to `chunk` tokens; otherwise exactly one.
        has_bits: The backend supports linear layers with integer weights; otherwise weights stay float32.
    """

    form: Form = "aten"
    is_dynamic: bool = False
    has_bits: bool = False


TARGETS = {
    EXECUTORCH: Target("llama", is_dynamic=True, has_bits=True),
    "xnnpack": Target(is_dynamic=True, has_bits=True),
    "openvino": Target(is_dynamic=True),
    "vulkan": Target(),
    "qnn": Target("products"),
    "coreml": Target("products"),
}
"""The values of `--backend`. `executorch`: its operators for attention, and XNNPACK for layers with integer weights."""


@dataclass(frozen=True)
class PortableOptions:
    """The options of an export for a backend.

    Attributes:
        backend: A key of `TARGETS`.
        context: Maximum number of positions of a sequence, prompt and answer together.
        chunk: Maximum number of tokens per call.
        precision: The bits of the weights, see `Precision`.
        bos_id: The token that begins a text; None if ExecuTorch's runner finds the id in the tokenizer.
    """

    backend: str
    context: int = 2048
    chunk: int = 128
    precision: Precision = field(default_factory=Precision)
    bos_id: int | None = None


def export_portable(checkpoint: Checkpoint, file: str | Path, options: PortableOptions) -> str:
    """Write a `.pte` that runs on edgecore and on ExecuTorch 1.5, and return the partition report.

    The file's method is `forward(tokens [1, T], input_pos [1]) -> logits [1, vocabulary]` of the last token.

    Raises:
        ConfigError: The backend is not known, or does not support the bits, group, context or chunk; or the folder of
            the file does not exist.
        CheckpointError: A tensor is missing, or has another shape than the configuration asks for.
    """
    target = TARGETS.get(options.backend)
    if target is None:
        raise ConfigError(f"there is no backend {options.backend} for language models; use one of {', '.join(TARGETS)}")
    has_bits = (options.precision.linear, options.precision.output) != (None, None)
    if has_bits and not target.has_bits:
        raise ConfigError(
            f"{options.backend} computes no linear layers with integer weights of this form; use --bits 32 and "
            "--output-bits 32"
        )
    config = checkpoint.config
    check_context(options.context, config)
    check_group(options.precision)
    check_folder(file)
    if options.bos_id is not None and not 0 <= options.bos_id < config.vocab_size:
        raise ConfigError(f"the token {options.bos_id} is outside of the model's vocabulary of {config.vocab_size}")
    chunk = min(options.chunk, options.context) if target.is_dynamic else 1
    if target.is_dynamic and chunk < 2:
        raise ConfigError(f"the chunk {options.chunk} is below 2")
    decoder = load_portable(config, checkpoint, context=options.context, form=target.form, precision=options.precision)
    backends = [options.backend]
    if options.backend == EXECUTORCH:
        backends = ["xnnpack"] if has_bits else []
    program = edgecore.compile(
        decoder,
        (torch.zeros(1, min(2, chunk), dtype=torch.int64), torch.zeros(1, dtype=torch.int64)),
        dynamic_shapes=({1: torch.export.Dim("tokens", min=1, max=chunk)}, None) if target.is_dynamic else None,
        backends=backends,
        constant_methods=_constant_methods(checkpoint, options, chunk, target),
        memory="static" if options.backend == EXECUTORCH else None,  # outputs too: ExecuTorch's runners allocate none
    )
    program.save(file)
    report = str(program.report())
    other = sum(isinstance(module, PortableMatrix) and module.has_more_bits for module in decoder.modules())
    if other:
        report += f"\n{other} matrices have 8 bits: their rows do not divide into groups of {options.precision.group}"
    return report


def _constant_methods(
    checkpoint: Checkpoint, options: PortableOptions, chunk: int, target: Target
) -> dict[str, object]:
    methods: dict[str, object] = {
        "get_max_seq_len": chunk,
        "get_max_context_len": options.context,
        "get_vocab_size": checkpoint.config.vocab_size,
        "get_n_layers": len(checkpoint.config.layers),
        "use_kv_cache": True,
        KEEPS_ALL: True,
        "use_sdpa_with_kv_cache": target.form == "llama",
        "enable_dynamic_shape": target.is_dynamic,
        "get_eos_ids": list(checkpoint.eos_ids) or [-1],
    }
    return methods if options.bos_id is None else {**methods, "get_bos_id": options.bos_id}
