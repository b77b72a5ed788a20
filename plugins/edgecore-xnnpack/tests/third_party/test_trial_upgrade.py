"""Patches on sources that changed as those of another XNNPACK: each applies where it belongs, or fails."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def trial(script: ModuleType) -> ModuleType:
    module = importlib.import_module("trial_upgrade")
    return module


def outcomes(trial: ModuleType, sources: Path, kind: str, seeds: int) -> Counter[str]:
    patches = list(trial.series.read())
    stages = trial.apply_each(patches, trial.read_tree(sources, patches))
    draws = [trial.draw_changes(kind, stages, seed) for seed in range(seeds)]
    assert all(draws)
    return Counter(result.outcome for changes in draws for result in trial.judge(patches, stages, changes))


def test_no_patch_lands_in_other_code(trial: ModuleType, xnnpack_sources: Path) -> None:
    for kind in (*trial.KINDS, trial.EVERYTHING):
        counts = outcomes(trial, xnnpack_sources, kind, 1)
        assert counts["WRONG"] == 0, kind
        assert counts["applies"] > 0, kind


def test_the_trial_finds_a_hunk_that_lands_in_a_twin(
    trial: ModuleType, xnnpack_sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_nearest(hunk: object, lines: list[str]) -> int:
        """Return the place that is nearest to the line number, as the usual tools do."""
        size = len(hunk.old)  # type: ignore[attr-defined]
        places = [i for i in range(len(lines)) if lines[i : i + size] == hunk.old]  # type: ignore[attr-defined]
        if not places:
            raise trial.series.DoesNotApply("nowhere")
        return min(places, key=lambda place: abs(place + 1 - hunk.line))  # type: ignore[attr-defined]

    monkeypatch.setattr(trial.series.Hunk, "find", find_nearest)
    assert outcomes(trial, xnnpack_sources, "20 functions with a twin before", 3)["WRONG"] > 0
