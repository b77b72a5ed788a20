"""Collect the operators, overloads and dtypes that a build needs, from .pte files, names and YAML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgecore.errors import EdgecoreError
from edgecore.format import ExecutionPlan, KernelCall, OptionalTensorList, ScalarType, Tensor, TensorList

Operator = tuple[str, str]
"""Name and overload of an operator: ("aten::add", "out"); the overload is empty if there is none."""

_ROW = re.compile(r'^EDGECORE_OPERATOR\("([^"]+)", "([^"]*)", (\w+),', re.MULTILINE)
_REAL_DTYPES = {ScalarType.COMPLEX64: ScalarType.FLOAT, ScalarType.COMPLEX128: ScalarType.DOUBLE}
_FLOATS = (ScalarType.HALF, ScalarType.BFLOAT16, ScalarType.FLOAT, ScalarType.DOUBLE)
_INTEGERS = tuple(ScalarType[name] for name in "BOOL CHAR BYTE SHORT UINT16 INT UINT32 LONG".split())
DTYPES = {dtype.dtype_name: dtype for dtype in (*_INTEGERS, *_FLOATS, *_REAL_DTYPES)}
"""Name -> dtype, for all dtypes in which kernels compute."""


@dataclass
class Selection:
    """The operators that a build needs. `dtypes` maps each operator to the dtypes of the tensors in its calls."""

    dtypes: dict[Operator, set[ScalarType]] = field(default_factory=dict)

    def add(self, operator: Operator, dtypes: Iterable[ScalarType]) -> None:
        """Add dtypes to an operator. If the selection lacks the operator, add it first."""
        self.dtypes.setdefault(operator, set()).update(dtypes)

    def add_calls(self, plan: ExecutionPlan) -> None:
        """Add the operators that a method calls, with the dtypes of the tensors in these calls."""
        for chain in plan.chains:
            for instruction in chain.instructions:
                if isinstance(call := instruction.instr_args, KernelCall):
                    operator = plan.operators[call.op_index]
                    self.add((operator.name, operator.overload), _dtypes_of(plan, call.args))

    def drop_others(self, known: Set[Operator]) -> set[str]:
        """Remove the operators that are not in `known` from the selection, and return their names."""
        others = self.dtypes.keys() - known
        for operator in others:
            del self.dtypes[operator]
        return {spelled(operator) for operator in others}

    def missing(self, needed: Selection) -> list[str]:
        """List the operators and dtypes of the selection `needed` that this selection lacks."""
        lines = []
        for operator, dtypes in sorted(needed.dtypes.items()):
            if operator not in self.dtypes:
                lines.append(spelled(operator))
            elif rest := dtypes - self.dtypes[operator]:
                lines.append(f"{spelled(operator)} for {', '.join(sorted(dtype.dtype_name for dtype in rest))}")
        return lines

    def mask(self) -> int:
        """Return the dtypes for which the kernels must be compiled: bit n for ScalarType n.

        The result also contains the dtypes in which kernels compute intermediate values: float32 for all floating-point
        dtypes, int64 for integers and booleans, and the dtype of the real part for complex dtypes.
        """
        used = set().union(*self.dtypes.values())
        used |= {_REAL_DTYPES[dtype] for dtype in used & _REAL_DTYPES.keys()}
        if used & set(_FLOATS):
            used.add(ScalarType.FLOAT)
        if used - set(_FLOATS):
            used.add(ScalarType.LONG)
        return bits(used)

    def yaml(self) -> str:
        """Return the selection as a YAML file that `add_yaml` reads."""
        rows = [
            f"  {spelled(operator)}: [{', '.join(sorted(dtype.dtype_name for dtype in dtypes))}]\n"
            for operator, dtypes in sorted(self.dtypes.items())
        ]
        return "operators:" + ("\n" + "".join(rows) if rows else " {}\n")


def _dtypes_of(plan: ExecutionPlan, values: Iterable[int]) -> set[ScalarType]:
    dtypes = set()
    for index in values:
        value = plan.values[index].val if index >= 0 else None
        if isinstance(value, Tensor):
            dtypes.add(value.scalar_type)
        elif isinstance(value, (TensorList, OptionalTensorList)):
            dtypes |= _dtypes_of(plan, value.items)
    return dtypes


def bits(dtypes: Iterable[ScalarType]) -> int:
    """Return a set of dtypes as bits: bit n for ScalarType n."""
    return sum(1 << int(dtype) for dtype in dtypes)


def spelled(operator: Operator) -> str:
    """Format an operator as `name.overload`, or as `name` if it has no overload."""
    name, overload = operator
    return f"{name}.{overload}" if overload else name


def library_functions(sources: Path) -> dict[Operator, str]:
    """Read the operators of edgecore's library of kernels from the `.inc` files in its sources.

    Args:
        sources: Folder with the sources of the library.

    Returns:
        The name of the C++ function of each operator.

    Raises:
        EdgecoreError: The folder contains no `.inc` files.
    """
    tables = sorted(sources.glob("*.inc"))
    if not tables:
        raise EdgecoreError(f"{sources} contains no operator library: there is no file operators.inc")
    rows = (row for table in tables for row in _ROW.findall(table.read_text()))
    return {(name, overload): function for name, overload, function in rows}


def add_names(selection: Selection, names: Iterable[str], known: Iterable[Operator]) -> None:
    """Add operators such as `aten::add.out`, `aten::add` (all overloads) and `aten::add.out=float32+int8`.

    Raises:
        EdgecoreError: The library has no such operator or dtype.
    """
    for text in names:
        name, equals, dtypes = text.partition("=")
        _add_named(selection, name, dtypes.split("+") if equals else "all", known)


def add_yaml(selection: Selection, path: Path, known: Iterable[Operator]) -> None:
    """Add the operators of a YAML file, whose mapping `operators` has a list of dtypes, or `all`, for each operator.

    Raises:
        EdgecoreError: The file cannot be read, or the library has no such operator or dtype.
    """
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise EdgecoreError(f"{path} cannot be read as a YAML file: {error}") from error
    operators = content.get("operators") if isinstance(content, Mapping) else None
    if not isinstance(operators, Mapping):
        raise EdgecoreError(f"{path} has no mapping `operators`, such as `operators: {{aten::add.out: [float32]}}`")
    for name, dtypes in operators.items():
        _add_named(selection, str(name), dtypes, known)


def _add_named(selection: Selection, name: str, dtypes: Any, known: Iterable[Operator]) -> None:
    matches = [operator for operator in known if name in (spelled(operator), operator[0])]
    if not matches:
        raise EdgecoreError(f"edgecore's library has no operator {name}; names are like aten::add.out or aten::add")
    if dtypes != "all" and not isinstance(dtypes, list):
        raise EdgecoreError(f"{name} needs a list of dtypes, or `all`, not {dtypes!r}")
    names = list(DTYPES) if dtypes == "all" else [str(dtype) for dtype in dtypes]
    if unknown := [dtype for dtype in names if dtype not in DTYPES]:
        raise EdgecoreError(f"{name} is selected for {', '.join(unknown)}; the dtypes are {', '.join(DTYPES)}")
    for operator in matches:
        selection.add(operator, [DTYPES[dtype] for dtype in names])
