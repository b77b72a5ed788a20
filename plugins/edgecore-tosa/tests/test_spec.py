"""Specifications as text."""

import pytest

from edgecore_tosa.spec import TosaSpec


def test_a_specification_is_read_and_written():
    text = "TOSA-1.0+INT+FP+int16+u55"
    spec = TosaSpec.parse(text)
    assert spec.integer and spec.floating and spec.extensions == {"int16", "u55"}
    assert str(spec) == text
    assert TosaSpec.parse("TOSA-1.0.0+FP") == TosaSpec(integer=False, floating=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tosa", "is no TOSA specification: write, for example, 'TOSA-1.0"),
        ("TOSA-0.80+INT", "only version 1 of TOSA is supported"),
        ("TOSA-1.0+INT+int5", "unknown 'int5'; there are the profiles INT, FP and the extensions int16"),
        ("TOSA-1.0+int16", r"has no profile: add \+INT, \+FP or both"),
    ],
)
def test_a_wrong_specification_is_an_error_that_says_why(text, message):
    with pytest.raises(ValueError, match=message):
        TosaSpec.parse(text)
