"""`edgecore bench`: the figures that it prints."""

from __future__ import annotations

import json

FIGURES = {"load_ms", "first_ms", "median_ms", "p95_ms", "peak_rss_mb"}


def test_bench_prints_its_figures_as_text_and_json(edgecore, relu):
    result = edgecore("bench", relu, "--runs", 3, "--threads", 1, "--json")
    assert result.status == 0, result.err
    figures = json.loads(result.out)
    assert figures.keys() >= FIGURES
    assert all(figures[name] > 0 for name in FIGURES)
    assert edgecore("bench", relu, "--runs", 3).out.split()[::2] == [
        "load_ms",
        "first_ms",
        "median_ms",
        "p95_ms",
        "peak_rss_mb",
    ]
