"""Comparison of two files: each section finds what was changed, and nothing else."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy
import pytest
import torch

import edgecore
from edgecore import format as fmt
from edgecore.devtools import diff
from edgecore.devtools.file_diff import time as diff_time
from edgecore.devtools.file_diff.differences import SECTIONS
from edgecore.devtools.file_diff.time import difference
from edgecore.errors import EdgecoreError, FormatError

X = torch.ones(4, 8)


def net(width: int = 16) -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 4)
    return torch.nn.Sequential(*layers).eval()


def save(path: Path, model: torch.nn.Module | None = None, backends: tuple[str, ...] = (), **options: object) -> Path:
    edgecore.compile(model or net(), (X,), backends=list(backends), **options).save(path)
    return path


def test_a_file_does_not_differ_from_itself(tmp_path: Path) -> None:
    path = save(tmp_path / "a.pte", backends=("xnnpack",))
    found = diff(path, path)
    assert found.different() == []
    assert found.text().startswith("a.pte -> a.pte: identical\n")
    kinds = found.size["a"]["kinds"]
    assert sum(kinds.values()) == path.stat().st_size
    assert kinds["metadata"] > 0
    assert min(kinds.values()) > 0


def test_the_bytes_of_named_data_inside_the_constants_count_once(tmp_path: Path) -> None:
    pte = fmt.read_pte(save(tmp_path / "a.pte").read_bytes())
    pte.named_data["tied"] = fmt.NamedBlob(bytes(max(pte.constants, key=len)), 16)
    path = tmp_path / "tied.pte"
    path.write_bytes(fmt.write_pte(pte))
    kinds = diff(path, path).size["a"]["kinds"]
    assert sum(kinds.values()) == path.stat().st_size and min(kinds.values()) > 0


def test_operators_that_move_to_a_backend_are_listed(tmp_path: Path) -> None:
    found = diff(save(tmp_path / "a.pte"), save(tmp_path / "b.pte", backends=("xnnpack",)))
    moved = {(row["module"], row["operator"], row["a"], row["b"]) for row in found.operators["moved"]}
    assert ("1", "aten.relu.default", "kernels", "XnnpackBackend") in moved
    assert (found.operators["gone"], found.operators["added"]) == ([], [])
    assert found.operators["delegates"] == {"a": {}, "b": {"XnnpackBackend": 1}}
    assert {"size", "operators", "memory"} <= set(found.different())
    assert len(found.text().splitlines()) <= 40


def test_a_changed_weight_is_named_with_its_error(tmp_path: Path) -> None:
    a = save(tmp_path / "a.pte")
    model = net()
    with torch.no_grad():
        model[2].weight[1, 3] += 0.5
    found = diff(a, save(tmp_path / "b.pte", model)).weights
    (row,) = found["changed"]
    assert found["equal"] == 3
    assert row["name"].startswith("2 linear")
    assert row["max_abs"] == pytest.approx(0.5, rel=1e-5)
    power = float((net()[2].weight.double() ** 2).sum())
    assert row["sqnr_db"] == pytest.approx(10 * numpy.log10(power / 0.25), abs=0.01)


class Masked(torch.nn.Module):
    """A mask with an infinity, and a row in front, which a kernel gets in a list."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([-torch.inf, value] * 4))
        self.register_buffer("row", torch.full((1, 8), value))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.row, x + self.mask])


def test_infinities_and_weights_in_lists_are_compared(tmp_path: Path) -> None:
    found = diff(save(tmp_path / "a.pte", Masked(1).eval()), save(tmp_path / "b.pte", Masked(3).eval())).weights
    assert {(row["name"], row["max_abs"]) for row in found["changed"]} == {
        ("(the model itself) add, argument 1", 2.0),
        ("(the model itself) cat, argument 0, item 0", 2.0),
    }


def test_a_changed_weight_of_a_delegate_is_found_by_its_hash(tmp_path: Path) -> None:
    model = net()
    with torch.no_grad():
        model[2].weight += 1
    files = [save(tmp_path / name, one, ("xnnpack",)) for name, one in (("a.pte", net()), ("b.pte", model))]
    found = diff(*files)
    blob, data = found.weights["changed"]
    assert blob["name"] == "blob of forward/0 XnnpackBackend"
    assert (data["a"]["bytes"], data["max_abs"]) == (4 * 16 * 4, None)
    assert found.different() == ["weights"]


def test_swapped_weights_of_one_shape_are_changed(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).eval()
    swapped = torch.nn.Sequential(model[1], model[0]).eval()
    found = diff(save(tmp_path / "a.pte", model), save(tmp_path / "b.pte", swapped)).weights
    assert (found["equal"], len(found["changed"])) == (0, 4)
    assert all(row["max_abs"] > 0 for row in found["changed"])


def test_methods_may_have_weights_of_the_same_name(tmp_path: Path) -> None:
    def two_methods(name: str, seeds: tuple[int, ...], names: tuple[str, ...] = ("encode", "decode")) -> Path:
        models = {}
        for method, seed in zip(names, seeds, strict=True):
            torch.manual_seed(seed)
            models[method] = torch.nn.Sequential(torch.nn.Linear(8, 8)).eval()
        edgecore.compile(models, {method: (X,) for method in models}, backends=[]).save(tmp_path / name)
        return tmp_path / name

    a = two_methods("a.pte", (1, 2))
    assert diff(a, a).different() == []
    found = diff(a, two_methods("b.pte", (1, 3))).weights
    assert (found["equal"], found["gone"], found["added"]) == (2, [], [])
    assert {row["a"]["method"] for row in found["changed"]} == {"decode"}
    found = diff(a, two_methods("c.pte", (2,), ("decode",))).weights
    assert (found["equal"], found["changed"], len(found["gone"])) == (2, [], 2)
    assert diff(a, two_methods("d.pte", (1, 2), ("one", "two"))).weights["equal"] == 4


def test_another_argument_of_a_kernel_is_a_changed_operator(tmp_path: Path) -> None:
    files = [save(tmp_path / f"{limit}.pte", torch.nn.Hardtanh(0, limit).eval()) for limit in (5, 6)]
    found = diff(*files)
    (row,) = found.operators["changed"]
    assert (row["a"], row["b"]) == (["0", "5"], ["0", "6"])
    assert found.different() == ["operators"]
    assert "hardtanh" in found.text()


def test_weights_that_move_to_a_ptd_are_found_without_it(tmp_path: Path) -> None:
    a = save(tmp_path / "a.pte")
    program = edgecore.compile(net(), (X,), backends=[], external_data=True)
    program.save(tmp_path / "b.pte")
    found = diff(a, tmp_path / "b.pte").weights
    assert {(row["a"], row["b"]) for row in found["moved"]} == {("constants", ".ptd")}
    assert len(found["moved"]) == 4
    assert not found["changed"]
    pte = fmt.read_pte((tmp_path / "b.pte").read_bytes())
    del pte.named_data[fmt.META_KEY]
    (tmp_path / "c.pte").write_bytes(fmt.write_pte(pte))
    found = diff(tmp_path / "c.pte", tmp_path / "c.pte").weights
    assert (found["different"], len(found["unknown"])) == (False, 4)
    (data,) = tmp_path.glob("*.ptd")
    found = diff(tmp_path / "c.pte", tmp_path / "b.pte", data=([data], [])).weights
    assert (found["different"], found["unknown"], found["equal"]) == (False, [], 4)


def test_another_shape_is_another_signature(tmp_path: Path) -> None:
    other = tmp_path / "b.pte"
    edgecore.compile(net(), (torch.ones(5, 8),), backends=[]).save(other)
    found = diff(save(tmp_path / "a.pte"), other)
    assert [(row["kind"], row["a"], row["b"]) for row in found.signature["changed"]] == [
        ("input", "input float32 [4, 8]", "input float32 [5, 8]"),
        ("output", "output_0 float32 [4, 4]", "output_0 float32 [5, 4]"),
    ]
    memory = found.memory["methods"][0]
    assert memory["b"]["peak"] > memory["a"]["peak"]
    assert memory["b"]["owners"][0]["operator"].startswith("aten.")


def test_what_a_file_does_not_say_is_not_compared(tmp_path: Path) -> None:
    path = save(tmp_path / "a.pte", backends=("xnnpack",))
    pte = fmt.read_pte(path.read_bytes())
    del pte.named_data[fmt.META_KEY]
    (tmp_path / "b.pte").write_bytes(fmt.write_pte(pte))
    found = diff(path, tmp_path / "b.pte")
    assert found.operators["unknown"] == ["b.pte"]
    assert not found.operators["moved"]
    assert not found.signature["different"]
    assert found.memory["methods"][0]["b"]["delegates"] is None
    assert "the delegates of b.pte are unknown" in found.text()


def test_the_text_is_short_and_the_json_complete(tmp_path: Path) -> None:
    layers = [torch.nn.Linear(8, 8) for _ in range(30)]
    found = diff(save(tmp_path / "a.pte"), save(tmp_path / "b.pte", torch.nn.Sequential(*layers).eval()))
    assert len(found.text().splitlines()) <= 40
    content = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert list(content) == ["schema", "a", "b", "identical", "different", *SECTIONS]
    assert len(content["operators"]["added"]) == 28


@pytest.mark.parametrize("paired", [True, False])
def test_a_difference_of_times_has_a_verdict(paired: bool) -> None:
    random = numpy.random.default_rng(1)
    base = list(1 + 0.02 * random.standard_normal(60))
    assert difference(base, [1.2 * one for one in base], paired=paired)["verdict"] == "slower"
    assert difference(base, [0.8 * one for one in base], paired=paired)["verdict"] == "faster"
    assert difference(base, [1.002 * one for one in base], paired=paired)["verdict"] == "same"
    noisy = [list(1 + 0.5 * random.standard_normal(12) ** 2) for _ in range(2)]
    found = difference(*noisy, paired=paired)
    assert found["verdict"] == "cannot tell"
    assert found["interval"][0] < 0 < found["interval"][1]


@pytest.mark.parametrize("paired", [True, False])
def test_few_runs_have_no_verdict(paired: bool) -> None:
    for count in range(1, 10):
        found = difference([1.0] * count, [2.0] * count, paired=paired)
        assert found == {"difference": 1.0, "interval": None, "verdict": "cannot tell"}
    assert difference([1.0] * 10, [2.0] * 10, paired=paired)["verdict"] == "slower"


@pytest.mark.parametrize("count", [10, 12, 15, 20, 50])
@pytest.mark.parametrize("paired", [True, False])
def test_skewed_noise_has_a_false_verdict_in_less_than_5_percent(count: int, paired: bool) -> None:
    random = numpy.random.default_rng(count)
    false, right = 0, 0
    for index in range(3000):
        shared = numpy.exp(0.1 * random.standard_normal(count).cumsum()) if paired else numpy.ones(count)
        # A long tail, and every seventh run is interrupted.
        noise = 1 + 0.05 * random.exponential(size=(2, count)) + 0.3 * (random.random((2, count)) < 1 / 7)
        base, other = map(list, shared * noise)
        false += difference(base, other, paired=paired)["verdict"] in ("slower", "faster")
        if index < 200:
            right += difference(base, [1.5 * time for time in other], paired=paired)["verdict"] == "slower"
    assert false < 0.05 * 3000
    assert right > 0.9 * 200


def test_intervals_are_those_of_the_tables() -> None:
    # Hollander, Wolfe and Chicken: the sign test with 10 pairs leaves out one ratio at each end (98 %), and the rank sum
    # of 5 and 5 values two of their 25 (97 %).
    ratios = [1 + 0.01 * number for number in range(1, 11)]
    low, high = difference([1.0] * 10, ratios, paired=True)["interval"]
    assert (low, high) == pytest.approx((0.02, 0.09))
    assert diff_time._rank_of_bounds(diff_time._rank_sums(5, 5), math.comb(10, 5)) == 3
    assert sum(diff_time._rank_sums(5, 7)) == math.comb(12, 5)


def test_thousands_of_pairs_have_an_interval() -> None:
    found = difference([1.0] * 1100, [2.0, 3.0] * 550, paired=True)
    assert found["interval"] == [1.0, 2.0] and found["verdict"] == "slower"


@pytest.mark.parametrize("paired", [True, False])
def test_times_that_are_too_short_for_the_clock_are_equal(paired: bool) -> None:
    times = [0.0, 0.0, 1.0] * 8
    assert difference(times, times, paired=paired) == {"difference": 0.0, "interval": [0.0, 0.0], "verdict": "same"}


def test_times_come_from_traces_or_runs(tmp_path: Path) -> None:
    files = [save(tmp_path / "a.pte"), save(tmp_path / "b.pte", net(64))]
    traces = []
    for path in files:
        program = edgecore.load(path, trace=True)
        for _ in range(5):
            program.forward(X)
        program.write_trace(path.with_suffix(".etdp"))
        traces.append(path.with_suffix(".etdp"))
    traced = diff(*files, traces=tuple(traces))
    for path in traces:
        path.unlink()
    assert traced.to_html()  # the traces were read once
    found = traced.time
    assert found is not None
    assert (found["how"], found["a"]["runs"]) == ("traces", 4)
    assert {"0", "2"} <= {row["module"] for row in found["modules"]}
    compared = diff(*files, runs=3, arguments=lambda loaded, file: (X,))
    found = compared.time
    assert found is not None
    assert (found["how"], found["b"]["runs"]) == ("runs in turns", 3)
    assert "time: cannot tell" in compared.text()
    assert "fewer than 10 runs" in compared.text()


def test_a_trace_without_runs_is_one_sentence(tmp_path: Path) -> None:
    path = save(tmp_path / "a.pte")
    program = edgecore.load(path, trace=True)
    program.write_trace(tmp_path / "a.etdp")
    with pytest.raises(EdgecoreError, match=r"a\.etdp has 0 runs of forward; a comparison needs at least 3"):
        diff(path, path, traces=(tmp_path / "a.etdp", tmp_path / "a.etdp"))
    with pytest.raises(FormatError):
        diff(path, tmp_path / "a.etdp")
    with pytest.raises(FormatError, match=r"a\.pte: not an ETDump"):
        diff(path, path, traces=(tmp_path / "a.etdp", path))
