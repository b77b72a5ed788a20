"""The delegate on Linux: it loads a file only with the load option `standin`, and then computes what eager does."""

from __future__ import annotations

import re
import sys

import pytest
import torch

import edgecore
from edgecore.errors import ExecutionError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is for Linux")


def load(program, path, folder, **options):
    program.save(path)
    standin = {"standin": sys.executable, "model_cache_folder": str(folder)} | options
    return edgecore.load(path, options={"coreml": standin})


class Decay(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Module()
        self.inner.register_buffer("cache", torch.zeros(2, 4))

    def forward(self, x):
        self.inner.cache.mul_(0.5)
        self.inner.cache.add_(x)
        return self.inner.cache * 2.0


def compiled(model, *inputs, dynamic_shapes=None, **options):
    backend = edgecore.Backend("coreml", required=True, **options)
    return edgecore.compile(model.eval(), inputs, backends=[backend], dynamic_shapes=dynamic_shapes)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(9, 4)
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, tokens):
        return torch.relu(self.linear(self.embedding(tokens)))


TOKENS = torch.tensor([[1, 8, 0]])


def test_a_file_runs_with_the_stand_in(tmp_path):
    model = Network()
    loaded = load(compiled(model, TOKENS), tmp_path / "model.pte", tmp_path / "cache")
    for tokens in (TOKENS, TOKENS.flip(1)):
        torch.testing.assert_close(loaded.forward(tokens), model(tokens))
    (folder,) = (tmp_path / "cache").iterdir()
    assert (folder / "model.mlpackage/Manifest.json").is_file()


def test_without_the_option_the_error_says_what_the_file_needs(tmp_path):
    path = tmp_path / "model.pte"
    compiled(Network(), TOKENS).save(path)
    with pytest.raises(ExecutionError, match="needs macOS, iOS, iPadOS or tvOS: run it on a Mac, or in an app"):
        edgecore.load(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"standin": "python3"}, "the load option standin is no absolute path: python3"),
        ({"standin": "/no/python"}, "the load option standin is no Python interpreter: /no/python"),
        ({"standin": "/bin/true"}, 'has ended: if its Python lacks it, pip install "edgecore-coreml[standin]"'),
        ({"model_cache_folder": "here"}, "the load option model_cache_folder is no absolute path: here"),
        (
            {"model_cache_folder": "/proc/no"},
            "cannot be written: is the disk full, or the load option model_cache_folder wrong",
        ),
    ],
)
def test_a_wrong_load_option_is_named(tmp_path, options, message):
    with pytest.raises(ExecutionError, match=re.escape(message)):
        load(compiled(Network(), TOKENS), tmp_path / "model.pte", tmp_path, **options)


def test_runs_of_sessions_may_be_pending_at_once(tmp_path):
    class Shifted(torch.nn.Module):
        def forward(self, tokens):  # its result is of int64, which the delegate converts when the run has ended
            return torch.cat([tokens + 1, tokens], 1)

    for model in (Network(), Shifted()):
        first = load(compiled(model, TOKENS), tmp_path / "model.pte", tmp_path)
        sessions = (first, first.new_session(), first.new_session())
        for shift in range(2):
            inputs = [TOKENS.roll(shift + number, 1) for number in range(3)]
            runs = [session.forward.start(tokens) for session, tokens in zip(sessions, inputs, strict=True)]
            for run, tokens in reversed(list(zip(runs, inputs, strict=True))):
                torch.testing.assert_close(run.wait(), model(tokens))


def test_a_pending_run_that_is_dropped_ends(tmp_path):
    model = Network()
    loaded = load(compiled(model, TOKENS), tmp_path / "model.pte", tmp_path)
    other = loaded.new_session()
    other.forward.start(TOKENS)
    del other
    torch.testing.assert_close(loaded.forward(TOKENS), model(TOKENS))


def test_a_pending_run_keeps_the_state_of_its_session(tmp_path):
    x = torch.ones(2, 4)
    first = load(compiled(Decay(), x, compute_precision="FLOAT16"), tmp_path / "model.pte", tmp_path)
    second = first.new_session()
    for expected in (2.0, 3.0, 3.5):
        runs = [session.forward.start(x) for session in (first, second)]
        assert [float(run.wait()[0, 0]) for run in reversed(runs)] == [expected, expected]
        first.import_state(first.export_state())


def test_a_run_that_does_not_start_leaves_the_session_usable(tmp_path):
    loaded = load(compiled(Network(), TOKENS), tmp_path / "model.pte", tmp_path)
    with pytest.raises(ExecutionError, match="the value 4294967296; Core ML's integers have 32 bits"):
        loaded.forward.start(torch.tensor([[1, 2**32, 0]])).wait()
    assert loaded.forward(TOKENS).shape == (1, 3, 3)


def test_an_index_of_more_than_32_bits_is_named(tmp_path):
    loaded = load(compiled(Network(), TOKENS), tmp_path / "model.pte", tmp_path)
    with pytest.raises(ExecutionError, match="the value 4294967296; Core ML's integers have 32 bits"):
        loaded.forward(torch.tensor([[1, 2**32, 0]]))


def test_shapes_may_change_within_the_range_of_the_model(tmp_path):
    model = Network()
    length = torch.export.Dim("length", min=1, max=6)
    program = compiled(model, TOKENS, dynamic_shapes={"tokens": {1: length}})
    loaded = load(program, tmp_path / "model.pte", tmp_path)
    for count in (3, 1, 6):
        tokens = torch.arange(count)[None]
        torch.testing.assert_close(loaded.forward(tokens), model(tokens))


def test_a_shape_that_is_not_enumerated_is_refused(tmp_path):
    model = Network()
    program = compiled(
        model,
        TOKENS,
        dynamic_shapes={"tokens": {1: torch.export.Dim("length", min=1, max=6)}},
        enumerated_shapes={"tokens": [[1, 3], [1, 6]]},
        lower_full_graph=True,
    )
    loaded = load(program, tmp_path / "model.pte", tmp_path)
    torch.testing.assert_close(loaded.forward(torch.arange(6)[None]), model(torch.arange(6)[None]))
    with pytest.raises(ExecutionError, match="argument 0 has none of the 2 shapes that the model takes"):
        loaded.forward(torch.arange(4)[None])


def test_a_state_stays_between_calls_and_is_reset_saved_and_restored(tmp_path):
    x = torch.ones(2, 4)
    program = compiled(Decay(), x, compute_precision="FLOAT16")
    loaded = load(program, tmp_path / "model.pte", tmp_path)
    assert [float(loaded.forward(x)[0, 0]) for _ in range(3)] == [2.0, 3.0, 3.5]
    saved, other = loaded.export_state(), loaded.new_session()
    assert float(other.forward(x)[0, 0]) == 2.0
    loaded.reset()
    assert float(loaded.forward(x)[0, 0]) == 2.0
    loaded.import_state(saved)
    assert float(loaded.forward(x)[0, 0]) == 3.75
