"""The mirrors of C structs in `edgecore.plugin.diagnosis.inspect_library`, beside the headers of the native interface."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from edgecore.plugin.diagnosis import inspect_library

INCLUDE = Path(__file__).parents[3] / "runtime_cpp" / "include"
STRUCTS = {
    "edgecore_header": inspect_library._Header,
    "edgecore_str": inspect_library._Str,
    "edgecore_backend": inspect_library.Backend,
    "edgecore_option_spec": inspect_library._Option,
    "edgecore_kernel": inspect_library._Kernel,
    "edgecore_kernel_library": inspect_library._KernelLibrary,
}


@pytest.fixture(scope="module")
def in_c(tmp_path_factory):
    """[offset, size] of each mirrored member in C, and values of macros."""
    folder = tmp_path_factory.mktemp("layout")
    rows = [
        f'P("{struct}.{name}", offsetof({struct}, {name}), sizeof((({struct} *)0)->{name}));'
        for struct, mirror in STRUCTS.items()
        for name, _ in mirror._fields_
    ]
    rows += [f'P("{struct}", 0, sizeof({struct}));' for struct in STRUCTS]
    macros = [f"EDGECORE_{name}" for name in inspect_library._FLAGS]
    macros += [f"EDGECORE_OPTION_{name.upper()}" for name in (*inspect_library._OPTION_TYPES, "at_load", "at_run")]
    rows += [f'P("{name}", 0, {name});' for name in macros]
    (folder / "layout.c").write_text(
        '#include <stdio.h>\n#include "edgecore/backend.h"\n#include "edgecore/kernel.h"\n'
        '#define P(name, offset, size) printf("%s\\"%s\\": [%d, %d]", comma, name, (int)(offset), (int)(size)); comma = ", "\n'
        'int main(void) {\n  const char *comma = "{";\n  ' + "\n  ".join(rows) + '\n  puts("}");\n  return 0;\n}\n'
    )
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang-16")
    subprocess.run([compiler, f"-I{INCLUDE}", "-o", folder / "layout", folder / "layout.c"], check=True)
    return json.loads(subprocess.run([folder / "layout"], capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("struct", STRUCTS)
def test_members_of_the_mirror_lie_where_c_has_them(in_c, struct):
    mirror = STRUCTS[struct]
    for name, _ in mirror._fields_:
        member = getattr(mirror, name)
        assert [member.offset, member.size] == in_c[f"{struct}.{name}"], name


@pytest.mark.parametrize("struct", ["edgecore_header", "edgecore_str", "edgecore_option_spec", "edgecore_backend"])
def test_a_struct_that_is_read_whole_has_the_size_of_c(in_c, struct):
    assert ctypes.sizeof(STRUCTS[struct]) == in_c[struct][1]


def test_flags_and_option_types_are_numbered_as_in_c(in_c):
    for bit, name in enumerate(inspect_library._FLAGS):
        assert in_c[f"EDGECORE_{name}"][1] == 1 << bit
    for number, name in enumerate(inspect_library._OPTION_TYPES):
        assert in_c[f"EDGECORE_OPTION_{name.upper()}"][1] == number
    assert [in_c[f"EDGECORE_OPTION_AT_{when}"][1] for when in ("LOAD", "RUN")] == [1, 2]
