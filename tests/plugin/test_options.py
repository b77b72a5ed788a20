"""Types for the options of a backend."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from edgecore.plugin.options import Names, validate_options


class Options(BaseModel):
    names: Names = ()
    count: int = 0

    @field_validator("count")
    @classmethod
    def _check_count(cls, count: int) -> int:
        if count < 0:
            raise ValueError(f"count={count}: use 0 or more")
        return count


def test_names_are_given_as_a_list_or_as_text_joined_by_plus():
    assert Options().names == ()
    assert Options(names="add+mul").names == Options(names=["add", "mul"]).names == ("add", "mul")


def test_names_that_are_no_text_are_refused():
    with pytest.raises(ValidationError, match="Input should be a valid"):
        Options(names=[3])


def test_validated_options_name_all_problems_in_the_words_of_the_validators():
    assert validate_options(Options, {"names": "add+mul", "count": 2}) == Options(names=("add", "mul"), count=2)
    with pytest.raises(ValueError, match=r"^Input should be a valid string; count=-1: use 0 or more$"):
        validate_options(Options, {"names": [3], "count": -1})
