"""Distances between outputs, beside executorch's."""

from __future__ import annotations

import math

import pytest
import torch

from edgecore.devtools import L1Comparator, MSEComparator, SNRComparator, compare_results

A = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.0, -4.0]])
B = A + torch.tensor([[0.1, 0.0, -0.2], [0.0, 0.3, 0.0]])


@pytest.mark.parametrize("name", ["L1Comparator", "MSEComparator", "SNRComparator"])
def test_distances_are_those_of_executorch(name: str) -> None:
    peer = getattr(pytest.importorskip("executorch.devtools.inspector.numerical_comparator"), name)()
    ours = {"L1Comparator": L1Comparator, "MSEComparator": MSEComparator, "SNRComparator": SNRComparator}[name]()
    for a, b in ((A, B), (A, A), (3, 3.5), (torch.tensor([math.nan, 1.0]), torch.tensor([1.0, 1.5]))):
        assert ours.element_compare(a, b) == pytest.approx(peer.element_compare(a, b))


@pytest.mark.parametrize(
    ("a", "b", "snr"),
    [
        ([-math.inf, 3.0], [-math.inf, 3.0], math.inf),  # as in a mask of attention
        ([-math.inf, 3.0], [-math.inf, 2.7], 20.0),
        ([-math.inf, 3.0], [1.0, 3.0], -math.inf),
        ([1.0, 3.0], [math.inf, 3.0], -math.inf),
        ([0.0, 0.0], [0.0, 0.0], math.inf),
        ([0.0, 0.0], [0.0, 1.0], -math.inf),
    ],
)
def test_equal_infinite_elements_are_no_error(a: list[float], b: list[float], snr: float) -> None:
    first, second = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
    assert SNRComparator().element_compare(first, second) == pytest.approx(snr)
    errors = [0 if x == y else abs(x - y) for x, y in zip(a, b, strict=True)]
    assert L1Comparator().element_compare(first, second) == pytest.approx(sum(errors))
    assert MSEComparator().element_compare(first, second) == pytest.approx(sum(error**2 for error in errors) / 2)


def test_results_are_compared_as_by_executorch(capsys: pytest.CaptureFixture[str]) -> None:
    peer = pytest.importorskip("executorch.devtools.inspector").compare_results
    ours = compare_results([A, B], [B, A])
    assert "cosine_similarity" in capsys.readouterr().out
    theirs = peer([A, B], [B, A])
    assert ours.keys() == theirs.keys()
    assert all(ours[name] == pytest.approx(theirs[name], abs=0.011) for name in ours)
    assert compare_results([A, 3], [B, 3], metrics=["mse"], plot=True) == {"mse": [0.02, None]}
    assert "#" in capsys.readouterr().out


def test_outputs_that_cannot_be_compared_are_errors() -> None:
    with pytest.raises(ValueError, match="unknown metric 'psnr'; it must be one of snr, mse, cosine_similarity"):
        compare_results([A], [B], metrics=["psnr"])
    with pytest.raises(ValueError, match="2 outputs to expect cannot be compared with 1 of a run"):
        compare_results([A, A], [B])
    with pytest.raises(ValueError, match=r"output 1 has the shape \[2, 1\]; \[2, 3\] was to expect"):
        compare_results([A, A], [B, B[:, :1]])
