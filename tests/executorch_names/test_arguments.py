"""Each argument of the compatibility layer has its effect, or warns that it has none; `NOT_PASSED` has what no test passes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from executorch_names import without_effect
from executorch_names.signatures import TESTS, arguments, passes
from executorch_names.without_effect import ALSO, WITHOUT_EFFECT, warned

import edgecore

PAGE = TESTS.parent / "docs" / "executorch.md"


@pytest.mark.parametrize("argument", WITHOUT_EFFECT)
def test_an_argument_without_effect_warns_once_at_the_line_of_its_caller(argument):
    ((subject, _, file),) = warned(WITHOUT_EFFECT[argument])
    assert subject == argument and file == without_effect.__file__


def test_other_functions_with_such_an_argument_warn_too():
    for call in ALSO:
        ((_, _, file),) = warned(call)
        assert file == without_effect.__file__


def subjects_of(tree):
    """Yield a regular expression for the first argument of each call of `warn_no_effect`."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "warn_no_effect":
            subject = call.args[0]
            parts = subject.values if isinstance(subject, ast.JoinedStr) else [subject]
            yield "".join(re.escape(part.value) if isinstance(part, ast.Constant) else ".+" for part in parts)


def test_each_warning_of_the_sources_is_in_the_list():
    patterns = []
    for path in Path(edgecore.__file__).parent.rglob("*.py"):
        if "warn_no_effect(" in (text := path.read_text()) and path.name != "stability.py":
            patterns += subjects_of(ast.parse(text))
    assert len(patterns) > 15
    for pattern in patterns:
        assert any(re.fullmatch(pattern, argument) for argument in WITHOUT_EFFECT), pattern


def test_the_page_for_users_of_executorch_has_the_list():
    assert without_effect.markdown() in PAGE.read_text()


def test_each_argument_is_passed_by_a_test_or_stands_in_a_list():
    files = [str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py")]
    listed = {name for argument in WITHOUT_EFFECT for name in re.findall(r"(\w+)=", argument)}
    found = {
        f"{function} {name}"
        for function, names in arguments().items()
        for name in names
        if name not in listed and not any(passes(file, function, name) for file in files)
    }
    assert found == set(NOT_PASSED.split("\n")[1:-1])


NOT_PASSED = """
executorch.devtools.events:Event _source
ir.delegate:LoweredBackendModule original_module
executorch.exir.program:ExecutorchProgramManager finished
executorch.runtime.runtime:Program debug_bytes
"""
"""Arguments that edgecore adds, of classes whose objects scripts get from functions."""
