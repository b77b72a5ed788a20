"""`edgecore backends`: what is installed, and manifests for C++."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgecore.plugin.api import InstalledBackend
from edgecore.plugin.diagnosis import isolated_import


def test_the_option_manifests_goes_with_no_other_argument(edgecore, tmp_path):
    result = edgecore("backends", "fake", "--manifests", tmp_path / "made")
    assert result.status == 1 and "cannot be combined" in result.err
    assert not (tmp_path / "made").exists()


def test_backends_as_json_have_their_state_and_library(edgecore):
    result = edgecore("backends", "--json")
    assert result.status == 0
    for row in json.loads(result.out):
        assert row["state"] in ("ok", "broken", "disabled")
        assert {"backend_id", "name", "distribution", "version", "summary", "problem", "ambiguous"} <= row.keys()
        # What edgecore-run takes as --backend.
        assert row["state"] != "ok" or row["library"] is None or Path(row["library"]).is_file()


def test_names_and_problems_are_shown_as_they_are(edgecore, monkeypatch):
    broken = InstalledBackend("Odd", "odd-package", "1", "broken", problem="\x1b]0;x [/red] [Errno 2]")
    monkeypatch.setattr(isolated_import, "installed", lambda seconds: ([broken], []))
    result = edgecore("backends")
    text = " ".join(result.out.replace("│", " ").split())
    assert result.status == 0 and "\x1b" not in text
    assert "\\x1b]0;x" in text and "[/red]" in text and "[Errno" in text


def test_a_backend_is_shown_with_its_options_for_compiling_and_for_loading(edgecore):
    pytest.importorskip("edgecore_xnnpack")
    shown = json.loads(edgecore("backends", "xnnpack", "--json").out)
    assert "per_op_mode" in {row["option"] for row in shown["options"]}
    loading = {row["name"]: row for row in shown["load_options"]}
    assert loading["workspace_sharing"]["type"] == "string" and loading["workspace_sharing"]["help"]
    names = [*loading, *(row["option"] for row in shown["options"]), *(row["operator"] for row in shown["operators"])]
    printed = edgecore("backends", "xnnpack").out
    texts = [row["help"] for row in loading.values()] + [row["meaning"] for row in shown["options"]]
    assert [text for text in texts if text not in " ".join(printed.split())] == []  # in full, whatever the width
    assert [name for name in names if name not in printed] == []
