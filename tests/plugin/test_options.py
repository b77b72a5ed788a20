"""Types for the options of a backend."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from edgecore.plugin.options import Names


class Options(BaseModel):
    names: Names = ()


def test_names_are_given_as_a_list_or_as_text_joined_by_plus():
    assert Options().names == ()
    assert Options(names="add+mul").names == Options(names=["add", "mul"]).names == ("add", "mul")


def test_names_that_are_no_text_are_refused():
    with pytest.raises(ValidationError, match="Input should be a valid"):
        Options(names=[3])
