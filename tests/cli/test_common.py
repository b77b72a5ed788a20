"""Helpers that the commands share: warnings as sentences, and random inputs."""

from __future__ import annotations

import warnings

import pytest

from edgecore.cli.common import hold_stderr, sentence
from edgecore.errors import FallbackWarning


def test_warnings_of_edgecore_are_sentences_and_those_of_others_are_as_ever(capsys):
    with pytest.warns(UserWarning, match="something else") as caught, hold_stderr():
        warnings.warn("it runs on the kernels instead", FallbackWarning, stacklevel=1)
        warnings.warn("something else", UserWarning, stacklevel=1)
    assert len(caught) == 1
    assert capsys.readouterr().err == "edgecore: warning: it runs on the kernels instead\n"


def test_a_command_that_needs_torch_says_how_to_install_it():
    missing = sentence(ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert missing == "this command needs torch, which is not installed; run: pip install 'edgecore[compile]'"
    assert "unexpected ModuleNotFoundError" in sentence(ModuleNotFoundError("No module named 'x'", name="x"))
