"""The checks of options for compiling: values with which this machine cannot compile."""

from types import SimpleNamespace
from typing import Literal

import pytest
from pydantic import BaseModel, Field

import edgecore
from edgecore.conformance import options
from edgecore.conformance.check import Failed
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
    subject = SimpleNamespace(
        name="any", options={}, compiler=SimpleNamespace(Options=Options), trying=lambda text: None, declared=None
    )
    checks = dict((check.name, check) for check in _of_compiling(subject))
    return checks["options/kind"](subject)


def _of_compiling(subject):
    subject.declared = SimpleNamespace(load_options=[])
    return options.checks(subject)


def test_a_value_that_compiles_elsewhere_may_be_refused(monkeypatch):
    assert check_kind(monkeypatch, "kind: a Mac is needed").endswith(
        "works with its default; this machine cannot compile with 'elsewhere'"
    )


def test_the_refusal_names_the_option(monkeypatch):
    with pytest.raises(Failed, match="does not name the option: a Mac is needed"):
        check_kind(monkeypatch, "a Mac is needed")
