"""Tokens of texts, and draws, which `units`, a program of the C++ tests, computes."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgecore_llm.sampler import Sampling


def encode(
    program: Path, tokenizer: Path, texts: Sequence[bytes], *, bos: bool = False, specials: bool = False
) -> list[tuple[list[int], str]]:
    """Return the tokens of texts, and the text of these tokens."""
    done = subprocess.run(
        [program, "encode", tokenizer, str(int(bos)), str(int(specials))], capture_output=True, timeout=600,
        input=b"".join(struct.pack("<I", len(text)) + text for text in texts),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    found, place = [], 0
    for _ in texts:
        (count,) = struct.unpack_from("<I", done.stdout, place)
        tokens = np.frombuffer(done.stdout, np.int32, count, place + 4).tolist()
        place += 4 + 4 * count
        (size,) = struct.unpack_from("<I", done.stdout, place)
        found.append((tokens, done.stdout[place + 4 : place + 4 + size].decode()))
        place += 4 + size
    assert place == len(done.stdout)
    return found


def failure(program: Path, tokenizer: Path) -> str:
    """Return the message of a tokenizer that cannot be opened; an empty one if it can."""
    done = subprocess.run(
        [program, "encode", tokenizer, "1", "1"], capture_output=True, input=b"\3\0\0\0the", timeout=60
    )
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    return done.stderr.decode().strip()


def facts(program: Path, tokenizer: Path) -> tuple[list[int], list[int], list[tuple[int, bool, bytes]]]:
    """Return (vocabulary, bos, adds_bos, strips_first_space), the ends, and (token, is_special, bytes) of all tokens."""
    done = subprocess.run([program, "facts", tokenizer], capture_output=True, timeout=60, text=True)
    assert done.returncode == 0, done.stderr
    first, ends, *rest = done.stdout.split("\n")
    tokens = []
    for line in filter(None, rest):
        token, is_special, text = line.split(" ")
        tokens.append((int(token), is_special == "1", bytes.fromhex(text)))
    return list(map(int, first.split())), list(map(int, ends.split())), tokens


def draw(program: Path, cases: Sequence[tuple[np.ndarray, Sampling, int, Sequence[int], int]]) -> list[int]:
    """Return the tokens that are drawn for the arguments of `edgecore_llm.sampler.sample`."""
    content = b""
    for logits, sampling, position, history, vocabulary in cases:
        content += struct.pack(
            "<qQqqqqq6d", len(logits), sampling.seed, position, len(history), sampling.top_k, sampling.penalty_window,
            vocabulary, sampling.temperature, sampling.top_p, sampling.min_p, sampling.repetition_penalty,
            sampling.presence_penalty, sampling.frequency_penalty,
        )  # fmt: skip
        content += logits.astype(np.float32).tobytes() + np.asarray(history, np.int32).tobytes()
    done = subprocess.run([program, "sample"], input=content, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, np.int32).tolist()
