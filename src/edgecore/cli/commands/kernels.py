"""`edgecore kernels`: write a C table of selected kernels for an application, such as the kernels that files call."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

import edgecore
from edgecore.cli.common import complain, read_file
from edgecore.cli.kernel_selection import (
    Operator,
    Selection,
    add_names,
    add_yaml,
    bits,
    library_functions,
)
from edgecore.errors import EdgecoreError
from edgecore.files import write_file


def table(selection: Selection, known: dict[Operator, str], sources: Iterable[str], version: str) -> str:
    """Make the text of the C file: one `edgecore_kernel` for each selected operator of the library.

    Args:
        selection: The operators to write; `known` contains all of them.
        known: The operators of the library, from `library_functions`.
        sources: Origins of the selection (files and names), for a comment.
        version: Version of edgecore.
    """
    chosen = sorted(selection.dtypes)
    declarations = [f"int32_t edgecore_kernel_{known[key]}(const edgecore_call *call);" for key in chosen]
    rows = [
        f"    {{KERNEL, {_text(name)}, {_text(overload)}, {bits(selection.dtypes[name, overload]):#x}, "
        f"edgecore_kernel_{known[name, overload]}}},"
        for name, overload in chosen
    ]
    lines = [
        f"/* Written by `edgecore kernels` {version} for {', '.join(sources)}.",
        f" * Compile the kernels with -DEDGECORE_DTYPES={selection.mask():#x}. */",
        '#include "edgecore/kernels.h"',
        "",
        "#define KERNEL {sizeof(edgecore_kernel), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR}",
        "",
        *declarations,
        "",
        # write a dummy kernel if none is selected: C does not allow an array without elements
        f"static const edgecore_kernel kernels[{max(len(rows), 1)}] = {{",
        *(rows or ["    {KERNEL, {0, 0}, {0, 0}, 0, 0},"]),
        "};",
        "",
        "static const edgecore_kernel_library library = {",
        "    {sizeof(edgecore_kernel_library), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR},",
        f"    {_text('edgecore')}, {_text(version)}, kernels, {len(rows)}, sizeof(edgecore_kernel), "
        "EDGECORE_KERNELS_SELECTED};",
        "",
        "const edgecore_kernel_library *edgecore_kernels_library(void) { return &library; }",
    ]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    return f'{{"{text}", {len(text)}}}'


def _paths(names: str) -> list[Path]:
    return [Path(name) for name in names.split(",") if name]


def _calls(paths: Iterable[Path]) -> Selection:
    selection = Selection()
    for path in paths:
        for plan in read_file(path).program.execution_plan:
            selection.add_calls(plan)
    return selection


def _write(path: Path, text: str) -> None:
    # Do not touch an unchanged file: its new time would make the build compile it again.
    if not path.exists() or path.read_text() != text:
        write_file(path, text)


def command(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for kernels.c and selection.yaml, or a .c file.")],
    files: Annotated[str, typer.Option("--for", metavar="A.pte,B.pte", help="Files whose operators are needed.")] = "",
    operators: Annotated[
        str, typer.Option(metavar="NAMES", help="Operators, such as aten::relu,aten::add.out=float32+int8.")
    ] = "",
    yaml: Annotated[str, typer.Option(metavar="A.yaml,B.yaml", help="Selections in YAML.")] = "",
    check: Annotated[
        str, typer.Option(metavar="A.pte,B.pte", help="Fail if these files need what is not selected.")
    ] = "",
    sources: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Sources of the operator library; by default those of this package."),
    ] = None,
) -> None:
    """Write a C table of the operators, overloads and dtypes that files, names and YAML select together.

    An application that links this table contains no other kernels. The CMake function
    edgecore_kernels(TARGET app PTE a.pte) calls this command.
    """
    known = library_functions(sources or Path(edgecore.__file__).parent / "native" / "kernels")
    names = [name for name in operators.split(",") if name]
    if not (files or names or yaml):
        raise EdgecoreError("nothing is selected: give --for, --operators or --yaml")
    if out.suffix in (".cc", ".cpp", ".cxx", ".h", ".hpp"):
        raise EdgecoreError(f"{out}: the table is a C file: name a folder, or a file that ends in .c")
    selection = _calls(_paths(files))
    others = selection.drop_others(known.keys())
    add_names(selection, names, known)
    for path in _paths(yaml):
        add_yaml(selection, path, known)
    for path in _paths(check):
        needed = _calls([path])
        others |= needed.drop_others(known.keys())
        if missing := selection.missing(needed):
            raise EdgecoreError(f"{path} needs what is not selected: {'; '.join(missing)}")
    from importlib.metadata import version

    origins = [*(path.name for path in (*_paths(files), *_paths(yaml))), *names]
    to_file = out.suffix == ".c"
    if not to_file:
        out.mkdir(parents=True, exist_ok=True)
        _write(out / "selection.yaml", selection.yaml())
    _write(out if to_file else out / "kernels.c", table(selection, known, origins, version("edgecore")))
    if others:
        complain(f"these operators are not in edgecore's library, so not in the table: {', '.join(sorted(others))}")
    print(f"{out}: {len(selection.dtypes)} operators")
