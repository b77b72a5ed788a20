"""`edgecore track`: a line for each call, and exit status."""

from __future__ import annotations

import json


def test_the_words_of_fail_on_are_those_of_a_history():
    from edgecore.cli.commands import track
    from edgecore.devtools.track import KINDS

    assert track.KINDS == KINDS


def test_each_call_appends_a_line_and_shows_the_history(edgecore, relu, tmp_path):
    history = tmp_path / "h.jsonl"
    for label in ("one", "two"):
        result = edgecore("track", relu, "--history", history, "--runs", 3, "--label", label, "--fail-on", "size")
        assert result.status == 0, result.err
    first, second = (json.loads(line) for line in history.read_text().splitlines())
    assert (first["label"], second["label"], first["schema"]) == ("one", "two", "edgecore.track.v1")
    assert first["time"]["median_ms"] > 0
    assert [line.split()[0] for line in result.out.splitlines()] == ["label", "one", "two"]


def test_a_regression_ends_with_1_until_it_is_accepted(edgecore, relu, tmp_path):
    history = tmp_path / "h.jsonl"
    arguments = ("track", relu, "--history", history, "--runs", 0, "--label", "x")
    assert edgecore(*arguments).status == 0
    line = json.loads(history.read_text())
    line["figures"]["file_bytes"] //= 2
    history.write_text(json.dumps(line) + "\n")
    result = edgecore(*arguments)
    assert (result.status, f"{relu}: size: the file has" in result.err) == (1, True)
    assert edgecore(*arguments, "--fail-on", "time,memory").status == 0
    assert edgecore(*arguments, "--accept").status == 0
    assert edgecore(*arguments).status == 0


def test_a_foreign_history_ends_with_2_and_stays_as_it_is(edgecore, relu, tmp_path):
    history = tmp_path / "h.jsonl"
    history.write_text("name,time\n")
    result = edgecore("track", relu, "--history", history, "--runs", 0)
    assert (result.status, len(result.err.splitlines())) == (2, 1)
    assert "h.jsonl, line 1 is no JSON" in result.err
    assert history.read_text() == "name,time\n"
    assert edgecore("track", relu, "--history", history, "--fail-on", "colour").status == 2
