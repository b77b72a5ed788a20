"""The checks of options for compiling: values with which this machine cannot compile, and printed output."""

import os
import sys
from types import SimpleNamespace
from typing import Literal

import pytest
from pydantic import BaseModel, Field

import edgecore
from edgecore.conformance.check import Failed
from edgecore.conformance.checks import options
from edgecore.errors import CompileError


class Options(BaseModel):
    kind: Literal["here", "elsewhere"] = Field(
        default="here", description="Kind.", json_schema_extra={"compiles_elsewhere": ["elsewhere"]}
    )


def check_kind(monkeypatch, message):
    """Run the check of the option with a backend that refuses all values with a message."""

    def refuse(*_, **__):
        raise CompileError(message)

    monkeypatch.setattr(edgecore, "compile", refuse)
    compiler = SimpleNamespace(Options=Options)
    subject = SimpleNamespace(name="any", options={}, compiler=compiler, trying=lambda text: None)
    return options._Option("kind", Options.model_fields["kind"])(subject)


def test_a_value_that_compiles_elsewhere_may_be_refused(monkeypatch):
    assert check_kind(monkeypatch, "kind: a Mac is needed").endswith(
        "works with its default; this machine cannot compile with 'elsewhere'"
    )


def test_the_refusal_names_the_option(monkeypatch):
    with pytest.raises(Failed, match="does not name the option: a Mac is needed"):
        check_kind(monkeypatch, "a Mac is needed")


def test_output_of_libraries_and_of_python_counts_as_an_effect(capfd):
    with capfd.disabled(), options._captured() as printed:
        os.write(1, b"library\n")  # as a C library prints: past Python's buffers
        print("python")
        os.write(2, b"library's log\n")
        print("python's log", file=sys.stderr)
    assert sorted(printed.decode().splitlines()) == ["library", "library's log", "python", "python's log"]
