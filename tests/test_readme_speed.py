"""The table of speeds in README.md: what `benchmarks/readme.py` makes of figures, and where it puts it."""

from __future__ import annotations

import runpy

import pytest
from pages import ROOT

SCRIPT = runpy.run_path(str(ROOT / "benchmarks" / "readme.py"), run_name="readme")
PEERS = ("executorch", "onnxruntime", "openvino")


def times(edgecore, *others):
    return {"edgecore": edgecore, **dict(zip(PEERS, others, strict=True))}


def section():
    rows = [
        SCRIPT["Row"]("small_net", times(1.0, 2.0, 4.0, 0.5), times(0.5, 1.0, 0.5, 0.25)),
        SCRIPT["Row"]("large_net", times(40.0, 40.0, 40.0, 80.0), times(20.0, 40.0, 20.0, 10.0)),
    ]
    versions = {"edgecore": "0.1.0", "executorch": "1.5.1", "onnxruntime": "1.31.1", "openvino": "2026.4.1-22982"}
    conditions = SCRIPT["Conditions"]("Some CPU (family 25: avx2), 2 CPUs, L2 512K, 2026-11-30", versions, "abc", 2, 60)
    return SCRIPT["section"](rows, conditions)


def test_each_network_has_its_times_in_both_dtypes_and_the_last_row_the_mean_ratios():
    lines = section().splitlines()
    assert "| small_net | 1.00 | 2.00 | 4.00 | 0.50 | 0.50 | 1.00 | 0.50 | 0.25 |" in lines
    assert "| large_net | 40.00 | 40.00 | 40.00 | 80.00 | 20.00 | 40.00 | 20.00 | 10.00 |" in lines
    assert lines[-1] == "| edgecore / other, mean |  | 0.71 | 0.50 | 1.00 |  | 0.50 | 1.00 | 2.00 |"
    header = next(line for line in lines if line.startswith("| ms |"))
    assert header.count("|") == lines[-1].count("|")
    assert header.index("fp32: edgecore") < header.index("OpenVINO") < header.index("int8: edgecore")


def test_date_processor_versions_threads_and_runs_are_named_in_short_lines():
    text = " ".join(section().split())
    for part in ("2026-11-30", "Some CPU (family 25: avx2)", "executorch 1.5.1", "ONNX Runtime 1.31.1",
                 "OpenVINO 2026.4.1-22982", "commit abc", "2 threads", "60 runs"):  # fmt: skip
        assert part in text
    assert max(map(len, section().splitlines())) <= 120


def test_the_section_replaces_what_stands_between_the_comments_and_nothing_else():
    begin, end = SCRIPT["BEGIN"], SCRIPT["END"]
    old = f"# edgecore\n\n{begin}\nold figures\n{end}\n\n## Licence\n"
    new = SCRIPT["replaced"](old, section())
    assert new == f"# edgecore\n\n{begin}\n{section()}{end}\n\n## Licence\n"
    assert SCRIPT["replaced"](new, section()) == new
    for broken in ("no comments", f"{begin} only", f"{end}\n{begin}", f"{begin}{end}{begin}{end}"):
        with pytest.raises(SystemExit, match="once each"):
            SCRIPT["replaced"](broken, section())


def test_the_readme_has_a_place_for_the_section():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\n| ms |" in SCRIPT["replaced"](text, section())
