"""The history of a file: what counts as a regression, and histories that are damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecore.devtools.track import Entry, append, history_text, processor, read_history, regressions
from edgecore.errors import EdgecoreError

FIGURES = {"file_bytes": 1000, "planned_bytes": 500, "delegate_bytes": 200, "kernels": 3}


def entry(median: float | None = 1.0, spread: float = 0.02, **changes: object) -> Entry:
    figures = FIGURES | {key: value for key, value in changes.items() if key in FIGURES}
    others = {key: value for key, value in changes.items() if key not in FIGURES}
    time = None
    if median is not None:
        time = {"method": "forward", "runs": 50, "threads": 1, "median_ms": median, "low_ms": median * (1 - spread),
                "high_ms": median * (1 + spread)}  # fmt: skip
    return Entry(**({"file": "a.pte", "label": "x", "date": "2026-01-02T03:04:05Z", "processor": "cpu",
                     "figures": figures, "time": time} | others))  # fmt: skip


def test_equal_figures_are_no_regression() -> None:
    assert regressions([], entry()) == {}
    assert regressions([entry(), entry()], entry()) == {}


@pytest.mark.parametrize(
    ("new", "kind", "words"),
    [
        (entry(file_bytes=1011), "size", "the file has 1,011 bytes, 1.1 % more than 1,000 before"),
        (entry(planned_bytes=600), "memory", "the arenas have 600 bytes"),
        (entry(delegate_bytes=300), "memory", "delegates need 300 bytes"),
        (entry(kernels=4), "operators", "kernels compute 4 operators, and 3 before"),
        (entry(1.1), "time", "a run takes 1.100 ms, 10.0 % longer than 1.000 ms before"),
    ],
)
def test_what_has_become_worse_is_one_sentence(new: Entry, kind: str, words: str) -> None:
    found = regressions([entry()] * 3, new)
    assert list(found) == [kind]
    assert found[kind].startswith(words)


@pytest.mark.parametrize(
    "new",
    [entry(1.02), entry(1.1, spread=0.2), entry(2, processor="other"), entry(2, file="b.pte"), entry(0.5),
     entry(file_bytes=1005), entry(file_bytes=10, kernels=0), entry(None)],
)  # fmt: skip
def test_noise_other_machines_and_improvements_are_no_regression(new: Entry) -> None:
    assert regressions([entry()] * 3, new) == {}


def test_a_regression_stays_one_until_it_is_accepted() -> None:
    worse = entry(1.5, regressed=["time"])
    assert "time" in regressions([entry(), worse, worse, worse, worse, worse, worse], entry(1.5))
    assert regressions([entry(), worse, entry(1.5, accepted=True)], entry(1.5)) == {}


def test_the_times_of_a_few_runs_are_not_judged() -> None:
    slower = entry(1.5)
    assert "time" in regressions([entry()], slower)
    slower.time |= {"runs": 9}
    assert regressions([entry()], slower) == {}


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    assert read_history(path) == []
    entries = [entry(), entry(None, label="ä\n2"), entry(2.0, regressed=["time"])]
    for one in entries:
        append(path, one)
    assert read_history(path) == entries
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    append(path, entry())
    assert len(read_history(path)) == 4
    lines = history_text(entries, "a.pte").splitlines()
    assert len(lines) == 4
    assert lines[3].endswith(f"{'#' * 20} worse: time")
    assert history_text(entries, "b.pte").count("\n") == 0
    assert "cores" in processor()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"schema": "edgecore.track.v1", "file"', "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ('{"time": 3}', "is no entry of `edgecore track`"),
        ("17", "is no entry"),
        ('{"schema": "edgecore.track.v1", "file": "a.pte"}', "lacks figures"),
        (entry().line().replace("1000", '"many"'), "has wrong ones"),
        (entry().line().replace("1000", "1e999"), "has wrong ones"),
        (entry().line().replace("1000", "NaN"), "has wrong ones"),
        (entry().line().replace('"median_ms": 1.0', '"median_ms": 0'), "has wrong ones"),
        (entry().line().replace('"x"', "null"), "has wrong ones"),
    ],
)
def test_a_damaged_line_is_named_by_its_number(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(entry().line() + line)
    with pytest.raises(EdgecoreError, match=rf"h\.jsonl, line 2 .*{words}"):
        read_history(path)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_changed_history_is_read_or_refused_and_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.jsonl"
    content = bytearray((entry().line() + entry(2.0, accepted=True).line()).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"null", b"[]", b"{}", b"1e999", b"-1", b'"', b"9" * 5000])
        )
    path.write_bytes(content)
    try:
        history = read_history(path)
    except EdgecoreError as error:
        assert "fuzz.jsonl, line" in str(error)
        return
    regressions(history, entry())
    history_text(history, "a.pte")


@settings(max_examples=300, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner)
                    | st.dictionaries(st.sampled_from([*FIGURES, "median_ms", "method", "threads"]), inner)),
       st.sampled_from(["figures", "time", "file", "regressed", "accepted"]))  # fmt: skip
def test_a_value_of_another_kind_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, value: object, key: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz-values.jsonl"
    path.write_text(json.dumps(json.loads(entry().line()) | {key: value}))
    try:
        history = read_history(path)
    except EdgecoreError:
        return
    regressions(history, entry())
    history_text(history, "a.pte")
