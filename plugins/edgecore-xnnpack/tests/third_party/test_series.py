"""The patches of XNNPACK: what they say, that they apply exactly, and how they fail."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

PLUGIN = Path(__file__).parents[2]
README = PLUGIN / "native" / "third_party" / "README.md"
FILE = """#include <a.h>

static int first(int x)
{
  int y = 0;
  y += x;
  return y;
}

static int second(int x)
{
  int y = 0;
  y += x;
  return y;
}
"""
PATCH = """From: edgecore <edgecore@localhost>
Subject: [PATCH] Begin at 1

Because.

Test: none
Upstream: not sent
---
diff --git a/src/a.c b/src/a.c
--- a/src/a.c
+++ b/src/a.c
@@ -11,3 +11,3 @@ static int second(int x)
 {
-  int y = 0;
+  int y = 1;
   y += x;
"""


@pytest.fixture
def series(script: ModuleType) -> ModuleType:
    module: ModuleType = script.series
    return module


def apply(series: ModuleType, text: str) -> str:
    result: str = series.parse("1-begin.patch", PATCH).apply({"src/a.c": text})["src/a.c"]
    return result


def reason(series: ModuleType, texts: dict[str, str]) -> str:
    with pytest.raises(series.DoesNotApply) as raised:
        series.parse("1-begin.patch", PATCH).apply(texts)
    text = str(raised.value)
    assert text.startswith("1-begin.patch does not apply: ") and text.endswith(" (third_party/README.md).")
    return text


def test_of_equal_lines_those_in_the_function_of_the_header_are_replaced(series: ModuleType) -> None:
    assert apply(series, FILE) == FILE[: FILE.index("second")] + FILE[FILE.index("second") :].replace("y = 0", "y = 1")


def test_lines_that_moved_with_their_function_are_found(series: ModuleType) -> None:
    assert apply(series, "// more\n" * 50 + FILE).count("y = 1") == 1


def test_a_renamed_function_is_named(series: ModuleType) -> None:
    text = reason(series, {"src/a.c": FILE.replace("second", "other")})
    assert "hunk 1 of src/a.c (line 11, in 'static int second(int x)'): its lines are now in 'static int first" in text


def test_a_line_that_is_gone_is_named(series: ModuleType) -> None:
    assert "this line is gone: int y = 0;" in reason(series, {"src/a.c": FILE.replace("int y = 0", "long y = 0")})


def test_lines_with_others_between_them_do_not_match(series: ModuleType) -> None:
    text = FILE.replace("static int second(int x)\n{\n", "static int second(int x)\n{\n\n").replace("first", "second")
    assert "its lines are now in" in reason(series, {"src/a.c": text.replace("int second", "int third", 1)})
    text = FILE.replace("  y += x;\n", "\n  y += x;\n")
    assert "its lines no longer follow one another" in reason(series, {"src/a.c": text})


def test_lines_that_a_function_has_twice_are_ambiguous(series: ModuleType) -> None:
    text = FILE + "\n{\n  int y = 0;\n  y += x;\n}\n"
    assert "its lines occur 2 times, from lines 11 and 17" in reason(series, {"src/a.c": text})


def test_a_file_that_is_gone_is_named(series: ModuleType) -> None:
    assert "the file src/a.c is gone" in reason(series, {"src/b.c": FILE})


def test_entries_of_a_list_may_be_preceded_by_new_entries(series: ModuleType) -> None:
    old = "LIST(a)\nLIST(b)\n"
    text = "diff --git a/l.h b/l.h\n--- a/l.h\n+++ b/l.h\n@@ -2,1 +2,2 @@ LIST(a)\n LIST(b)\n+LIST(ours)\n"
    patch = series.parse("l.patch", text)
    assert patch.apply({"l.h": "LIST(a)\nLIST(new)\nLIST(b)\n"})["l.h"].endswith("LIST(b)\nLIST(ours)\n")
    with pytest.raises(series.DoesNotApply, match="its lines occur 2 times"):
        patch.apply({"l.h": old + old})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("-  int y = 0;\n", "", "another length"),
        (" {\n", "{\n", "none of a hunk"),
        ("@@ -11,3", "@@ -11;3", "damaged hunk"),
        ("+++ b/src/a.c", "+++ b/src/b.c", "more than to change files"),
    ],
)
def test_a_damaged_patch_is_refused(series: ModuleType, old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        series.parse("1-begin.patch", PATCH.replace(old, new))


def test_each_patch_says_why_it_exists_what_tests_it_and_whether_it_was_sent_upstream(series: ModuleType) -> None:
    patches = list(series.read())
    assert len(patches) == len(list(series.PATCHES.glob("*.patch"))) > 20
    for patch in patches:
        assert re.match(r"From: edgecore <\S+>\nSubject: \[PATCH\] [A-Z].*[^.]\n\n[\s\S]+\nUpstream: ", patch.header), (
            patch.name
        )
        tests = re.findall(r"^Test: (.+)$", patch.header, re.M)
        assert tests and all((PLUGIN / test).is_file() for test in tests), patch.name


def test_the_readme_lists_what_each_patch_touches(series: ModuleType) -> None:
    table = re.findall(r"^\| `(\S+)` \|.*\| (.+) \|$", README.read_text(), re.M)
    expected = {
        patch.name.removesuffix(".patch"): [change.path.removeprefix("src/") for change in patch.files]
        for patch in series.read()
    }
    assert {name: re.findall(r"`([^`]+\.\w+)`", files) for name, files in table} == expected


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_makes_the_same_of_the_series(series: ModuleType, xnnpack_sources: Path, tmp_path: Path) -> None:
    patches = list(series.read())
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for root in (ours, theirs):
        for path in {change.path for patch in patches for change in patch.files}:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(xnnpack_sources / path, root / path)
    series.apply(ours)
    subprocess.run(["git", "init", "--quiet", theirs], check=True)
    for patch in patches:
        subprocess.run(["git", "apply", series.PATCHES / patch.name], cwd=theirs, check=True)
    files = [path for path in ours.rglob("*") if path.is_file()]
    assert len(files) > 50
    assert [path for path in files if path.read_bytes() != (theirs / path.relative_to(ours)).read_bytes()] == []
