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
    assert len(ours.compare_values([A, B], [B, B])) == 2
    with pytest.raises(ValueError, match="lists of 1 and 2 values"):
        ours.compare_values([A], [A, B])
    with pytest.raises(ValueError, match="is a list"):
        ours.compare_values([A], B)


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


def test_values_of_other_shapes_or_numbers_have_no_gap() -> None:
    from edgecore.devtools.numeric_gap import _gap

    for a, b in (([A, B], [A]), ([A], [A[:1]]), (A, [A]), (A, A[:1])):
        assert math.isnan(*_gap(MSEComparator(), a, b))
    assert _gap(MSEComparator(), [A], (A,)) == [0]
