"""Error numbers in Python, beside those of the C header."""

from __future__ import annotations

import re
from pathlib import Path

from edgecore.errors import ErrorCode

ABI = Path(__file__).parents[2] / "runtime_cpp" / "include" / "edgecore" / "abi.h"


def test_error_codes_are_those_of_the_native_interface():
    section = ABI.read_text(encoding="utf-8").partition("// Errors: ")[2].partition("typedef")[0]
    in_c = {name: int(number, 16) for name, number in re.findall(r"#define EDGECORE_(\w+) (0x[0-9a-f]+)", section)}
    in_python = {name: value for name, value in vars(ErrorCode).items() if name.isupper()}
    assert in_python == in_c
    assert len(in_c) > 20
