"""Run `.pte` files of ExecuTorch's LLM exporter, and of `edgecore llm export --backend`."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import edgecore
from edgecore_llm.errors import SessionError

KEEPS_ALL = "keeps_all_positions"
"""Constant method that marks a file whose caches keep every position, so that a rewind computes nothing again."""
_IDENTITY_BYTES = 1 << 20
"""Number of bytes at the start of a file that identify it: they hold the graph and digests of delegates' weights."""


def is_portable(program: edgecore.Program) -> bool:
    """Return True if a `.pte` has the methods that ExecuTorch's text runner calls."""
    if not {"forward", "get_max_seq_len"} <= set(program.methods):
        return False
    inputs = program["forward"].inputs
    return len(inputs) == 2 and len(inputs[0].shape) == 2 and len(inputs[1].shape) == 1


def portable_facts(program: edgecore.Program, path: str | Path) -> dict[str, Any]:
    """Return the metadata of a `.pte` for ExecuTorch's text runner, as arguments of `Metadata`.

    Raises:
        SessionError: The file has no key-value cache.
    """
    if not _constant(program, "use_kv_cache", True):
        raise SessionError(f"{path} keeps no keys and values; export it with use_kv_cache")
    forward = program["forward"]
    chunk = int(forward.inputs[0].shape[1])
    eos = _constant(program, "get_eos_ids", _constant(program, "get_eos_id", []))
    with Path(path).open("rb") as file:
        identity = zlib.crc32(file.read(_IDENTITY_BYTES))
    facts: dict[str, Any] = {
        "family": "executorch",
        "context": int(_constant(program, "get_max_context_len", _constant(program, "get_max_seq_len", 128))),
        "chunk": chunk,
        "vocabulary": int(forward.outputs[0].shape[-1]),
        "eos_ids": tuple(token for token in (eos if isinstance(eos, (list, tuple)) else [eos]) if token >= 0),
        # Without the constant method `KEEPS_ALL`, the KV caches may be ring buffers: each new position overwrites an
        # older one, which a shorter sequence would need, so 0 positions may be removed from the end of the sequence.
        "rewindable": None if _constant(program, KEEPS_ALL, False) else 0,
    }
    return {
        **facts,
        "chat_template": None,
        "text": json.dumps({**facts, "identity": identity, "size": Path(path).stat().st_size}),
    }


class PortableForward:
    """Calls ExecuTorch's `forward(tokens [1, T], input_pos)` with the arguments of edgecore's `forward`."""

    def __init__(self, program: edgecore.Program) -> None:
        self._method = program["forward"]
        self._gives_all = len(self._method.outputs[0].shape) == 3
        self._takes_positions = int(self._method.inputs[1].shape[0]) > 1

    def __call__(self, tokens: NDArray[Any], positions: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
        """Run the model on `tokens`, and return the logits [R, vocabulary] after each token that `rows` [R] selects."""
        if self._gives_all:
            logits: NDArray[Any] = self._logits(tokens, positions)[0][rows]
            return logits
        if len(rows) == 1:
            return self._logits(tokens, positions)
        single = [self._logits(tokens[i : i + 1], positions[i : i + 1]) for i in range(len(tokens))]
        picked: NDArray[Any] = np.concatenate(single)[rows]
        return picked

    def _logits(self, tokens: NDArray[Any], positions: NDArray[Any]) -> NDArray[Any]:
        return np.array(self._method(tokens[None], positions if self._takes_positions else positions[:1]), np.float32)


def _constant(program: edgecore.Program, name: str, default: Any) -> Any:
    return program[name]() if name in program.methods else default
