"""Implement `edgecore llm eval`, which measures the perplexity of a model on a text."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from edgecore_llm.cli.options import File, Threads, TokenizerPath, open_model, read_text
from edgecore_llm.errors import SessionError
from edgecore_llm.runner.session import Session


def eval_command(
    file: File,
    tokenizer: TokenizerPath,
    text: Annotated[Path, typer.Option(metavar="FILE.txt", exists=True, help="A text in UTF-8.")],
    window: Annotated[int | None, typer.Option(min=2, help="Tokens of a window; by default the context.")] = None,
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the perplexity of a model on a text, in consecutive windows that are computed independently."""
    model, opened = open_model(file, tokenizer, threads)
    tokens = opened.encode(read_text(text))
    size = model.metadata.context if window is None else window
    if size > model.metadata.context:
        raise SessionError(f"the window {size} is longer than the context {model.metadata.context}")
    bos = opened.bos_id if opened.adds_bos else None
    value, count = perplexity(model.new_session(), tokens, size, bos)
    if as_json:
        typer.echo(json.dumps({"perplexity": value, "tokens": count, "window": size}))
    else:
        typer.echo(f"perplexity {value:.4f} on {count} tokens, in windows of {size}")


def perplexity(session: Session, tokens: list[int], window: int, bos: int | None = None) -> tuple[float, int]:
    """Return the perplexity of a text, exp(mean(-log(probability))), and the number of tokens in the mean.

    The text is divided into windows, each computed alone. A window begins with the token `bos`; if `bos` is None, the
    first token of a window has no probability, and does not count.

    Raises:
        SessionError: The text has fewer than two tokens.
    """
    total, count = 0.0, 0
    size = window if bos is None else window - 1
    for start in range(0, len(tokens), size):
        part = [*([] if bos is None else [bos]), *tokens[start : start + size]]
        if len(part) < 2:
            break
        session.rewind(0)
        place = 0
        for piece in session.logits_in_pieces(part[:-1]):
            logits = piece.astype(np.float64)
            expected = part[place + 1 : place + 1 + len(logits)]
            largest = logits.max(1)
            sums = largest + np.log(np.exp(logits - largest[:, None]).sum(1))
            total += float((sums - logits[np.arange(len(logits)), expected]).sum())
            place += len(logits)
        count += place
    if not count:
        raise SessionError("the text has fewer than two tokens")
    return math.exp(total / count), count
