"""The report of the suite: a table for people, JUnit and JSON for machines."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from edgecore.conformance import Report, Row

ROWS = [
    Row("operators/aten.add.Tensor", "operators", "passed", "8 of 8 calls taken", 0.25),
    Row("operators/aten.mul.Tensor", "operators", "failed", "values differ \x01 & more " + "word " * 40, 0.5),
    Row("blobs/bit flips", "blobs", "skipped", "it declares NEEDS_TRUSTED_BLOBS", 0.0),
]


def test_the_table_of_a_report_names_every_check_once():
    text = str(Report("acme", ROWS))
    assert text.splitlines()[0] == "operators"
    assert "  ok      aten.add.Tensor: 8 of 8 calls taken" in text
    assert "  skipped bit flips: it declares NEEDS_TRUSTED_BLOBS" in text
    assert text.splitlines()[-1] == "acme: 1 passed, 1 failed, 1 skipped in 1 s"
    assert all(len(line) <= 120 for line in text.splitlines())
    assert text.count("word") == 40


def test_a_report_without_a_passed_check_is_not_ok():
    assert Report("acme", ROWS[:1]).ok
    assert not Report("acme", ROWS).ok
    assert not Report("acme", ROWS[2:]).ok
    assert not Report("acme").ok


def test_a_report_is_written_as_junit_and_as_json(tmp_path):
    report = Report("acme", ROWS)
    report.to_junit(tmp_path / "report.xml")
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    cases = {case.get("name"): case for case in suite}
    assert cases["operators/aten.mul.Tensor"].find("failure").get("message").startswith("values differ ? & more")
    assert cases["blobs/bit flips"].find("skipped") is not None
    report.to_json(tmp_path / "report.json")
    content = json.loads((tmp_path / "report.json").read_text())
    assert (content["backend"], content["ok"]) == ("acme", False)
    assert [Row(**row) for row in content["rows"]] == ROWS
