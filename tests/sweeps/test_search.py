from __future__ import annotations

import pytest
from sweep_files import MODEL, write_nets

import edgecore
from edgecore.errors import EdgecoreError
from edgecore.sweeps import make_plan
from edgecore.sweeps.run import compute
from edgecore.sweeps.step import Step

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


def test_a_step_that_looks_for_modules_is_contained_as_a_cell_is(tmp_path, monkeypatch):
    pytest.importorskip("edgecore_xnnpack")
    write_nets(tmp_path, monkeypatch)
    models = {"small": MODEL, "dies": {**MODEL, "source": "sweep_nets:dies"}}
    plan = make_plan({"models": models, "backends": ["xnnpack"], "recipes": ["int8"]})
    steps = [Step("suggest", cell.build, plan.limits, max_loss=0.5) for cell in plan.cells]
    for step in steps:  # their files are there
        (tmp_path / "out" / "cells" / step.build.key).mkdir(parents=True)
    found = compute(steps, tmp_path / "out", jobs=1, ray=None, listener=None)
    assert found[steps[0]].status == "ok", found[steps[0]].reason
    assert isinstance(found[steps[0]].figures["skip"], list)
    assert found[steps[1]].status == "failed" and "SIGSEGV" in found[steps[1]].reason
