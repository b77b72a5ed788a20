"""`edgecore kernels`: write a C table with only those kernels that the given files call, for an application or firmware."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

import edgecore
from edgecore.cli.common import complain, read_file
from edgecore.errors import EdgecoreError
from edgecore.format import (
    ExecutionPlan,
    KernelCall,
    OptionalTensorList,
    ScalarType,
    Tensor,
    TensorList,
)

_ROW = re.compile(r'^EDGECORE_OPERATOR\("([^"]+)", "([^"]*)", (\w+),', re.MULTILINE)
_REAL_DTYPES = {ScalarType.COMPLEX64: ScalarType.FLOAT, ScalarType.COMPLEX128: ScalarType.DOUBLE}
_FLOATS = (ScalarType.HALF, ScalarType.BFLOAT16, ScalarType.FLOAT, ScalarType.DOUBLE)


@dataclass
class Selection:
    """Operators that files call. `dtypes` maps (name, overload) to the dtypes of the tensor arguments of its calls."""

    dtypes: dict[tuple[str, str], set[ScalarType]] = field(default_factory=dict)

    def add(self, plan: ExecutionPlan) -> None:
        """Add the calls of one method."""
        for chain in plan.chains:
            for instruction in chain.instructions:
                if isinstance(call := instruction.instr_args, KernelCall):
                    operator = plan.operators[call.op_index]
                    used = self.dtypes.setdefault((operator.name, operator.overload), set())
                    used.update(_dtypes(plan, call.args))

    def mask(self) -> int:
        """Return the dtypes for which the kernels must be compiled: bit n for ScalarType n.

        These include the dtypes in which kernels compute intermediate values: float32 for all floating-point dtypes,
        int64 for integers and booleans, and the dtype of the real part for complex dtypes.
        """
        used = set().union(*self.dtypes.values())
        used |= {_REAL_DTYPES[dtype] for dtype in used & _REAL_DTYPES.keys()}
        if used & set(_FLOATS):
            used.add(ScalarType.FLOAT)
        if used - set(_FLOATS):
            used.add(ScalarType.LONG)
        return _bits(used)


def _dtypes(plan: ExecutionPlan, values: Iterable[int]) -> set[ScalarType]:
    dtypes = set()
    for index in values:
        value = plan.values[index].val if index >= 0 else None
        if isinstance(value, Tensor):
            dtypes.add(value.scalar_type)
        elif isinstance(value, (TensorList, OptionalTensorList)):
            dtypes |= _dtypes(plan, value.items)
    return dtypes


def _bits(dtypes: Iterable[ScalarType]) -> int:
    return sum(1 << int(dtype) for dtype in dtypes)


def functions(sources: Path) -> dict[tuple[str, str], str]:
    """Read the operators of edgecore's library of kernels from the `.inc` files in its sources.

    Args:
        sources: Folder with the sources of the library.

    Returns:
        The name of the C++ function of each (operator name, overload).

    Raises:
        EdgecoreError: The folder contains no `.inc` files.
    """
    tables = sorted(sources.glob("*.inc"))
    if not tables:
        raise EdgecoreError(f"{sources} contains no operator library: there is no file operators.inc")
    rows = (row for table in tables for row in _ROW.findall(table.read_text()))
    return {(name, overload): function for name, overload, function in rows}


def table(selection: Selection, known: dict[tuple[str, str], str], files: Iterable[Path], version: str) -> str:
    """Make the text of the C file: one `edgecore_kernel` for each operator of the library that the files call.

    Args:
        selection: The operators that the files call.
        known: The operators of the library, from `functions`.
        files: Paths of the files, for a comment.
        version: Version of edgecore.
    """
    chosen = sorted(key for key in selection.dtypes if key in known)
    declarations = [f"int32_t edgecore_kernel_{known[key]}(const edgecore_call *call);" for key in chosen]
    rows = [
        f"    {{KERNEL, {_text(name)}, {_text(overload)}, {_bits(selection.dtypes[name, overload]):#x}, "
        f"edgecore_kernel_{known[name, overload]}}},"
        for name, overload in chosen
    ]
    lines = [
        f"/* Written by `edgecore kernels` {version} for {', '.join(path.name for path in files)}.",
        f" * Compile the kernels with -DEDGECORE_DTYPES={selection.mask():#x}. */",
        '#include "edgecore/kernels.h"',
        "",
        "#define KERNEL {sizeof(edgecore_kernel), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR}",
        "",
        *declarations,
        "",
        # C does not allow an array without elements.
        f"static const edgecore_kernel kernels[{max(len(rows), 1)}] = {{",
        *(rows or ["    {KERNEL, {0, 0}, {0, 0}, 0, 0},"]),
        "};",
        "",
        "static const edgecore_kernel_library library = {",
        "    {sizeof(edgecore_kernel_library), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR},",
        f"    {_text('edgecore')}, {_text(version)}, kernels, {len(rows)}, sizeof(edgecore_kernel), 0}};",
        "",
        "const edgecore_kernel_library *edgecore_kernels_library(void) { return &library; }",
    ]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    return f'{{"{text}", {len(text)}}}'


def command(
    files: Annotated[str, typer.Option("--for", metavar="A.pte,B.pte", help="The files whose operators are needed.")],
    out: Annotated[Path, typer.Option(metavar="KERNELS.c", help="The C file to write.")],
    sources: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Sources of the operator library; by default those of this package."),
    ] = None,
) -> None:
    """Write a C table with the operators, overloads and dtypes that files use.

    An application that links this table contains no other kernels. The CMake function
    edgecore_kernels(TARGET app PTE a.pte) calls this command.
    """
    paths = [Path(name) for name in files.split(",") if name]
    selection = Selection()
    for path in paths:
        for plan in read_file(path).program.execution_plan:
            selection.add(plan)
    known = functions(sources or Path(edgecore.__file__).parent / "native" / "kernels")
    custom = [
        f"{name}.{overload}" if overload else name
        for name, overload in selection.dtypes
        if (name, overload) not in known
    ]
    from importlib.metadata import version

    # Do not touch an unchanged file: its new time would make the build compile it again.
    text = table(selection, known, paths, version("edgecore"))
    if not out.exists() or out.read_text() != text:
        out.write_text(text)
    if custom:
        complain(f"these operators are not in edgecore's library, so not in the table: {', '.join(sorted(custom))}")
    print(f"{out}: {len(selection.dtypes) - len(custom)} operators")
