"""Helpers that the commands share: warnings as sentences, and random inputs."""

from __future__ import annotations

import warnings

import pytest

from edgecore.cli.common import hold_stderr, random_tensor
from edgecore.errors import EdgecoreError, FallbackWarning


def test_warnings_of_edgecore_are_sentences_and_those_of_others_are_as_ever(capsys):
    with pytest.warns(UserWarning, match="something else") as caught, hold_stderr():
        warnings.warn("it runs on the kernels instead", FallbackWarning, stacklevel=1)
        warnings.warn("something else", UserWarning, stacklevel=1)
    assert len(caught) == 1
    assert capsys.readouterr().err == "edgecore: warning: it runs on the kernels instead\n"


def test_random_inputs_are_the_same_every_time():
    first, second = (random_tensor((2, 3), "float32", 0).tolist() for _ in range(2))
    assert first == second
    assert all(-1 <= value < 1 for row in first for value in row)
    assert {value for row in random_tensor((4, 8), "int64", 1).tolist() for value in row} == {0, 1}
    assert random_tensor((), "bool", 0).shape == ()
    with pytest.raises(EdgecoreError, match="float16"):
        random_tensor((1,), "float16", 0)
