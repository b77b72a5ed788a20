from __future__ import annotations

import pytest

import edgecore
from edgecore.errors import EdgecoreError

DIGITS = """
import torch
from sklearn.datasets import load_digits
from torch import nn

_DATA = load_digits()
X = torch.tensor(_DATA.images, dtype=torch.float32)[:, None] / 16
Y = torch.tensor(_DATA.target)
TRAIN, TEST = slice(0, 1400), slice(1400, 1600)

def digits():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(432, 10)]
    net = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    for step in range(1500):
        chosen = torch.arange(step * 64, step * 64 + 64) % 1400
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(X[TRAIN][chosen]), Y[TRAIN][chosen]).backward()
        optimizer.step()
    return net.eval(), (X[:1],)

def samples():
    return [X[TRAIN][number : number + 1] for number in range(16)]

def accuracy(run):
    right = sum(int(run(image[None]).argmax() == wanted) for image, wanted in zip(X[TEST], Y[TEST]))
    return right / len(Y[TEST])
"""


@pytest.mark.full
def test_the_best_file_of_the_digits_net_is_within_one_point_and_no_single_recipe_is_better(tmp_path, monkeypatch):
    compiler = pytest.importorskip("edgecore_xnnpack.compiler").XnnpackCompiler
    # Three candidates instead of six: each is two processes.
    some = {name: one for name, one in compiler().recipes().items() if name in ("int8", "int8-dynamic")}
    monkeypatch.setattr(compiler, "recipes", lambda self: some)
    pytest.importorskip("sklearn")
    (tmp_path / "sweep_digits.py").write_text(DIGITS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    arguments = {"calibration": "sweep_digits:samples", "accuracy": "sweep_digits:accuracy"}
    for objective in ("size", "latency"):
        found = edgecore.search("sweep_digits:digits", **arguments, max_loss=0.01, objective=objective, runs=5)
        best = found.best
        assert best is not None and best.float_accuracy > 0.9, str(found)
        assert best.accuracy >= best.float_accuracy - 0.01
        singles = [one for one in found.rows if one.status == "ok" and "mixed" not in one.recipe]
        good = [one for one in singles if one.accuracy >= one.float_accuracy - 0.01]
        figure = "file_bytes" if objective == "size" else "median_ms"
        assert getattr(best, figure) <= min(getattr(one, figure) for one in good)
        assert edgecore.load(found.folder / best.file).methods


def test_a_wrong_argument_of_search_is_one_sentence():
    with pytest.raises(EdgecoreError, match="max_loss must be above 0"):
        edgecore.search("a:b", max_loss=0)
    with pytest.raises(EdgecoreError, match="objective must be latency or size"):
        edgecore.search("a:b", objective="beauty")


SPOILT = """
import edgecore
import torch

_compile = edgecore.compile

def logged(*args, quantize=None, **kwargs):
    with open("compiled", "a") as file:
        print(list(quantize.skip) if quantize else None, file=file)
    return _compile(*args, quantize=quantize, **kwargs)

edgecore.compile = logged

def net():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).eval()
    with torch.no_grad():
        net[0].weight[:, 0] = 100  # 8 bits cannot hold the others beside it
    return net, samples()[0]

def samples():
    return [(torch.randn(1, 64, generator=torch.Generator().manual_seed(seed)) * (torch.arange(64) > 0),) for seed in range(4)]
"""


@pytest.mark.slow
def test_a_search_compiles_each_choice_of_modules_once(tmp_path, monkeypatch):
    compiler = pytest.importorskip("edgecore_xnnpack.compiler").XnnpackCompiler
    monkeypatch.setattr(compiler, "recipes", lambda self, recipes=compiler.recipes: {"int8": recipes(self)["int8"]})
    (tmp_path / "spoilt.py").write_text(SPOILT)
    monkeypatch.chdir(tmp_path)
    arguments = {"calibration": "spoilt:samples", "objective": "size", "runs": 0}
    found = edgecore.search("spoilt:net", **arguments, max_loss=0.05)
    assert [(row.recipe, row.status, row.skip) for row in found.rows] == [
        ("float", "ok", None), ("int8", "ok", None), ("int8-mixed", "ok", ["0"]),
    ], str(found)  # fmt: skip
    assert found.best == found.rows[2] and found.best.sqnr_db >= 26 > found.rows[1].sqnr_db
    assert found.recipe == edgecore.Recipe("int8", skip=["0"])
    assert (found.folder / found.best.file).stat().st_size == found.best.file_bytes < found.rows[0].file_bytes
    skips = [line for line in (tmp_path / "compiled").read_text().splitlines() if line not in ("None", "[]")]
    assert "['0']" in skips and len(skips) == len(set(skips)), skips
    failed = edgecore.search("spoilt:net", **arguments, max_loss=1e-9)
    assert failed.rows[2].status == "failed"
    assert failed.rows[2].reason == "no modules in floating point make it lose little enough"
    assert failed.best is None and failed.recipe is None
