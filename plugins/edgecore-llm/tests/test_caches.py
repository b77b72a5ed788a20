"""Caches in few bits, and long runs of rings, in exported files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from llm_commands import call
from llm_kernels import Caches, compiled
from llm_models import TOKENS, Checkpoint, logits, random_model, run_in_chunks
from torch.nn import functional as F

import edgecore
from edgecore_llm.errors import ConfigError
from edgecore_llm.export import ExportOptions, export
from edgecore_llm.model.config import Rope
from edgecore_llm.model.decoder import CACHE_DTYPES
from edgecore_llm.model.layers import Precision
from edgecore_llm.model.load import load_decoder
from edgecore_llm.model.rotary import rope_table
from edgecore_llm.operators import turn
from edgecore_llm.runner.session import Model

pytest.importorskip("transformers")


@pytest.mark.parametrize("bits", [16, 8])
def test_caches_in_few_bits(bits, tmp_path):
    checkpoint = Checkpoint("gemma3")
    precision = Precision(8, 8, 8, cache=bits)
    options = ExportOptions(context=320, chunk=128, precision=precision)
    export(checkpoint, tmp_path / "model.pte", options)
    model = Model(tmp_path / "model.pte")
    found = logits(model.new_session(), 128)
    assert np.array_equal(logits(model.new_session(), 1), found)
    session = model.new_session()
    tokens = TOKENS.tolist()
    session.append(tokens[:100])
    other = model.new_session()
    other.restore(session.save())
    assert np.array_equal(other.logits(tokens[100:200]), found[100:200])
    decoder = load_decoder(checkpoint.config, checkpoint, context=320, chunk=128, precision=precision)
    expected = run_in_chunks(decoder, TOKENS, 128).numpy()
    # What lies between two numbers of few bits goes here or there by its last bit.
    assert np.square(found - expected).mean() < 1e-3 * np.square(expected).mean()


def test_no_step_copies_a_cache(tmp_path):
    export(
        Checkpoint("gemma3"), tmp_path / "model.pte", ExportOptions(context=64, chunk=16, precision=Precision(8, 8, 8))
    )
    command = [sys.executable, "-m", "edgecore", "inspect", str(tmp_path / "model.pte"), "--json"]
    facts = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    operators = next(method["operators"] for method in facts["methods"] if method["name"] == "forward")
    assert operators["edgecore_llm::rope_update_cache.out"] == 6
    assert not [name for name in operators if "copy" in name or "clone" in name]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


STEPS = (pytest.param(1000, id="1000"), pytest.param(10_000, id="10000", marks=pytest.mark.full))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell the memory of a process so")
@pytest.mark.parametrize("bits", [32, 8])
@pytest.mark.parametrize("steps", STEPS)
def test_steps_through_a_window_neither_drift_nor_take_memory(steps, bits, tmp_path):
    checkpoint = Checkpoint("mistral")  # 3 layers, each with a window of 40
    checkpoint.config = replace(checkpoint.config, max_context=steps)
    precision = Precision(8, 8, 8, cache=bits)
    export(checkpoint, tmp_path / "model.pte", ExportOptions(context=steps, chunk=16, precision=precision))
    model = Model(tmp_path / "model.pte", threads=1)
    tokens = np.random.default_rng(0).integers(0, 211, (2, steps)).tolist()
    last: dict[int, np.ndarray] = {}

    def walk(index: int) -> None:
        session = model.new_session()
        for token in tokens[index]:
            last[index] = session.append([token])

    session = model.new_session()
    for step, token in enumerate(tokens[0]):
        logits = session.append([token])
        if step == steps // 2:
            before = resident_bytes()
    assert resident_bytes() - before < 2 << 20
    threads = [threading.Thread(target=walk, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(last[0], logits)
    # The last token depends on 3 x 39 tokens before it: a program that knows no others computes the same bits.
    for index in range(2):
        forward = edgecore.load(tmp_path / "model.pte").forward
        for start in range(steps - 128, steps, 16):
            positions = np.arange(start, start + 16)
            found = np.array(forward(np.array(tokens[index])[positions], positions, np.array([15])))
        assert np.array_equal(found[0], last[index])


@pytest.mark.parametrize("bits", [32, 16, 8])
@pytest.mark.parametrize("steps", STEPS)
def test_steps_through_a_ring_with_sinks_do_not_drift(steps, bits, tmp_path):
    window, sinks, size = 50, 4, 16
    model = Caches(1, 64, size, size, 2, CACHE_DTYPES[bits], window=window, sinks=sinks)
    qkv = torch.randn(steps, 4 * size, generator=torch.Generator().manual_seed(0))
    turns = rope_table(Rope(theta=1e4, dims=size), steps)
    zero, one = torch.zeros(1, dtype=torch.int64), torch.ones(size)
    file = compiled(model, (qkv[:1], turns, zero, zero.clone(), one, one.clone()), tmp_path / "model.pte")
    forward = edgecore.load(file).forward
    for step in range(steps):
        out = forward(*(x.numpy() for x in (qkv[step : step + 1], turns, zero + step, zero, one, one)))
        if step % (steps // 4) not in (0, steps // 4 - 1):
            continue
        seen = [position for position in range(step + 1) if position < sinks or position > step - window]
        q, k, v = qkv[:, : 2 * size].reshape(-1, 2, size), qkv[:, None, 2 * size : -size], qkv[:, -size:]
        q, k = (turn(F.rms_norm(x, one.shape, one, 1e-6), turns, torch.arange(steps)).double() for x in (q, k))
        expected = (q[step] @ k[seen, 0].T * 0.3).softmax(-1) @ v[seen].double()
        tolerance = {32: 1e-5, 16: 2e-3, 8: 3e-2}[bits]
        torch.testing.assert_close(
            torch.from_numpy(np.array(out)).double(), expected.flatten()[None], rtol=0, atol=tolerance
        )


def eager_logits(checkpoint, window: int, sinks: int) -> torch.Tensor:
    """Return the logits of transformers where a token sees the last `window` positions and the first `sinks`."""
    own, other = torch.arange(len(TOKENS))[:, None], torch.arange(len(TOKENS))
    seen = (other <= own) & ((other > own - window) | (other < sinks))
    mask = torch.where(seen, 0.0, -float("inf"))[None, None]
    return checkpoint.model(TOKENS[None], attention_mask=mask, use_cache=False).logits[0]


@pytest.mark.parametrize("chunk", [1, 7, 16])
def test_attention_sinks_stay_in_sight_beyond_the_window(chunk, tmp_path):
    checkpoint = Checkpoint("llama3")
    options = ExportOptions(context=320, chunk=16, precision=Precision(), windows=(40,), sinks=3)
    export(checkpoint, tmp_path / "model.pte", options)
    model = Model(tmp_path / "model.pte", threads=1)
    assert model.metadata.rewindable == 64 - 3 - 40  # rows of the ring, sinks, window
    expected = eager_logits(checkpoint, 40, 3)
    found = torch.from_numpy(logits(model.new_session(), chunk))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert (expected - eager_logits(checkpoint, 40, 0)).abs()[100:].max() > 0.1  # the sinks matter
    session = model.new_session()
    session.append(TOKENS[:200].tolist())
    session.rewind(185)
    after = session.append([int(TOKENS[185])])
    np.testing.assert_allclose(after, expected[185], rtol=0, atol=1e-4)
    session.rewind(100)  # farther back than the ring has rows
    np.testing.assert_allclose(session.append([int(TOKENS[100])]), expected[100], rtol=0, atol=1e-4)


def test_a_context_that_holds_window_and_sinks_is_no_ring(tmp_path):
    checkpoint = Checkpoint("llama3")
    for context, is_ring in ((43, False), (44, True)):
        decoder = load_decoder(
            replace(checkpoint.config, layers=(replace(checkpoint.config.layers[0], window=40, sinks=3),) * 3),
            checkpoint, context=context, chunk=8,
        )  # fmt: skip
        found = run_in_chunks(decoder, TOKENS[:context], 8)
        torch.testing.assert_close(found, eager_logits(checkpoint, 40, 3)[:context], rtol=0, atol=1e-4)
        assert (decoder.rewindable is not None) == is_ring


def test_attention_sinks_by_options_and_by_settings(tmp_path):
    random_model("llama3").save_pretrained(tmp_path)
    call("export", tmp_path, "--context", 320, "--bits", 32, "--embedding-bits", 32, "--window", 40, "--sinks", 3,
         "-o", tmp_path / "a.pte")  # fmt: skip
    call(
        "export", tmp_path, "+model.use_attention_sink=3,40", "+export.max_context_length=320", "-o", tmp_path / "b.pte"
    )
    expected = eager_logits(Checkpoint("llama3"), 40, 3)
    for name in ("a", "b"):
        found = torch.from_numpy(logits(Model(tmp_path / f"{name}.pte").new_session(), 128))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_errors_of_attention_sinks(tmp_path):
    checkpoint = Checkpoint("llama3")
    for sinks, windows in ((2, ()), (2, (0,)), (-1, (40,))):
        with pytest.raises(ConfigError, match=f"{sinks} attention sinks need a window of positions that tokens see"):
            export(checkpoint, tmp_path / "x.pte", ExportOptions(context=64, chunk=16, windows=windows, sinks=sinks))
