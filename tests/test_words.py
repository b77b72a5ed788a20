"""The words of the code: how docstrings begin, and names that the field does not use."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
QUESTION = re.compile(r"(What|Whether|That)\b")
PRIVATE = re.compile(r"\w*(least|greatest)\w*", re.IGNORECASE)  # the field says minimum and maximum
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)  # comments and strings of C++


TOKEN_WITH_SLASHES = re.compile(  # a comment of C++, of several lines if they begin with //, or a literal
    r"""(?P<comment>//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])'""",
    re.DOTALL,
)
CLUMSY = re.compile(r"\b(?:that|those) of\b|\bof (?:which|whose)\b|(?:^|[.:] )(?:What|Whether)\b|\bnobody\b")


def sources(*suffixes: str) -> list[Path]:
    folders = [ROOT / name for name in ("src", "plugins", "runtime_cpp")]
    found = [path for folder in folders for suffix in suffixes for path in folder.rglob(f"*{suffix}")]
    return [path for path in found if "build" not in path.relative_to(ROOT).parts]


@cache
def python_files() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in sources(".py")]


def test_no_docstring_begins_with_a_question_word():
    wrong = []
    for path, tree in python_files():
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if is_text and isinstance(node.value.value, str) and QUESTION.match(node.value.value.lstrip()):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong, "begin with an imperative verb or a noun phrase: " + ", ".join(wrong)


def test_names_in_python_say_minimum_and_maximum():
    wrong = set()
    for path, tree in python_files():
        for node in ast.walk(tree):
            names = [getattr(node, field, None) for field in ("id", "attr", "arg", "name")]
            wrong |= {f"{path.relative_to(ROOT)}: {name}" for name in names if name and PRIVATE.fullmatch(str(name))}
    assert not {name for name in wrong if ": test_" not in name}


def test_names_in_cpp_say_minimum_and_maximum():
    wrong = []
    for path in sources(".h", ".hpp", ".cpp", ".c"):
        code = NO_CODE.sub("", path.read_text(encoding="utf-8"))
        wrong += [f"{path.relative_to(ROOT)}: {match[0]}" for match in PRIVATE.finditer(code)]
    assert not wrong


def test_comments_in_cpp_are_idiomatic():
    wrong = []
    for path in sources(".h", ".hpp", ".cpp", ".c", ".mm", ".inc"):
        if "third_party" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        for token in TOKEN_WITH_SLASHES.finditer(text):
            comment = " ".join(re.sub(r"\n[ \t]*//", " ", token["comment"] or "").strip("/* ").split())
            line = text.count("\n", 0, token.start()) + 1
            wrong += [f"{path.relative_to(ROOT)}:{line}: {match[0].strip()}" for match in CLUMSY.finditer(comment)]
    assert not wrong, "name the thing, and begin with a verb or a noun phrase: " + ", ".join(wrong)
