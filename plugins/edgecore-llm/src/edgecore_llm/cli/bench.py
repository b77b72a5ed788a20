"""Implement `edgecore llm bench`, which measures tokens per second."""

from __future__ import annotations

import json
import statistics
import time
from typing import Annotated

import numpy as np
import typer

from edgecore_llm.cli.options import File, Threads
from edgecore_llm.errors import SessionError
from edgecore_llm.runner.session import Model, Session


def bench_command(
    file: File,
    prompt_tokens: Annotated[int, typer.Option("--prompt-tokens", "-p", min=1, help="Tokens of the prompt.")] = 512,
    new_tokens: Annotated[int, typer.Option("--new-tokens", "-n", min=1, help="Tokens after the prompt.")] = 128,
    repetitions: Annotated[int, typer.Option("--repetitions", "-r", min=1, help="Runs of each test.")] = 5,
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the speed of prompts and of answers, in tokens per second: mean and standard deviation."""
    model = Model(file, threads=threads)
    if prompt_tokens + new_tokens > model.metadata.context:
        raise SessionError(
            f"{prompt_tokens} + {new_tokens} tokens do not fit into the context of {model.metadata.context}; "
            "use -p and -n"
        )
    session = model.new_session()
    tokens = np.random.default_rng(0).integers(0, model.metadata.vocabulary, prompt_tokens + new_tokens).tolist()
    measure(session, tokens, min(prompt_tokens, 16), 1)  # warm up
    prompts, answers = zip(
        *(measure(session, tokens, prompt_tokens, new_tokens) for _ in range(repetitions)), strict=True
    )
    rows = [(f"pp{prompt_tokens}", prompts), (f"tg{new_tokens}", answers)]
    if as_json:
        typer.echo(json.dumps([{"test": name, "tokens_per_second": list(values)} for name, values in rows]))
        return
    typer.echo("| test    |        t/s        |")
    typer.echo("|---------|-------------------|")
    for name, values in rows:
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        typer.echo(f"| {name:<7} | {statistics.mean(values):8.2f} ± {deviation:6.2f} |")


def measure(session: Session, tokens: list[int], prompt_tokens: int, new_tokens: int) -> tuple[float, float]:
    """Return the tokens per second of a prompt, and of the answer after it; the session starts empty."""
    session.rewind(0)
    start = time.perf_counter()
    session.append(tokens[:prompt_tokens])
    middle = time.perf_counter()
    for token in tokens[prompt_tokens : prompt_tokens + new_tokens]:
        session.append([token])
    return prompt_tokens / (middle - start), new_tokens / (time.perf_counter() - middle)
