"""A program together with test cases: what `.bpte` files are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from edgecore import format as fmt
from edgecore.emit.constant_data import tensor_bytes
from edgecore.errors import CompileError
from edgecore.ir.dtypes import scalar_type
from edgecore.pipeline.managers import ExecutorchProgramManager
from edgecore.pipeline.save import write_files

_NUMBERS: dict[type, type] = {bool: fmt.Bool, int: fmt.Int, float: fmt.Double}


class MethodTestCase:
    """Inputs of one call, and what it must return; nested containers are flattened.

    Args:
        inputs: A tensor or number for each input of the method.
        expected_outputs: A tensor or number for each output; None: the case only gives inputs.
    """

    def __init__(self, inputs: Sequence[Any], expected_outputs: Any = None) -> None:
        self.inputs: list[Any] = pytree.tree_leaves(inputs)
        self.expected_outputs: list[Any] = [] if expected_outputs is None else pytree.tree_leaves(expected_outputs)


@dataclass
class MethodTestSuite:
    """The test cases of one method."""

    method_name: str
    test_cases: Sequence[MethodTestCase]


class BundledProgram:
    """A program and its test suites in one `.bpte` file, checked against each other.

    `edgecore.verify_bundled` and `edgecore run` run them. ExecuTorch's own checker brings no buffers for outputs: for it,
    compile with `memory="static"`.

    Args:
        executorch_program: What `edgecore.compile` or `to_executorch` returned; else give `pte_file_path`.
        method_test_suites: At most one suite for a method.
        pte_file_path: A `.pte` file.

    Raises:
        CompileError: A suite does not fit the program; the sentence names method, case and value.
    """

    def __init__(
        self,
        executorch_program: ExecutorchProgramManager | None,
        method_test_suites: Sequence[MethodTestSuite],
        pte_file_path: str | Path | None = None,
    ) -> None:
        if (executorch_program is None) == (pte_file_path is None):
            raise CompileError("BundledProgram takes either executorch_program or pte_file_path")
        self.executorch_program = executorch_program
        self.method_test_suites = sorted(method_test_suites, key=lambda suite: suite.method_name)
        self._program: fmt.Buffer
        if executorch_program is not None:
            self._program = executorch_program.buffer
        else:
            self._program = Path(str(pte_file_path)).read_bytes()
        pte = fmt.read_pte(self._program)
        plans = {plan.name: plan for plan in pte.program.execution_plan}
        self._suites = [_suite(suite, plans.get(suite.method_name)) for suite in self.method_test_suites]
        for violation in fmt.verify_cases(fmt.BpteFile(method_test_suites=self._suites, program=self._program), pte):
            raise CompileError(str(violation))
        names = [suite.method_name for suite in self._suites]
        for name in names:
            if names.count(name) > 1:
                raise CompileError(f"there are {names.count(name)} test suites for method {name!r}; make them one")

    @property
    def buffer(self) -> bytes:
        """The `.bpte` as bytes; FormatError if it would exceed 2 GiB."""
        return fmt.write_bpte(fmt.BpteFile(method_test_suites=self._suites, program=self._program))

    def save(self, path: str | Path) -> None:
        """Write the `.bpte`. Raises `WriteError`; then an existing file is as it was."""
        buffer = self.buffer
        write_files({Path(path): lambda file: file.write(buffer)})


def serialize_from_bundled_program_to_flatbuffer(bundled_program: BundledProgram) -> bytes:
    """The `.bpte` as bytes."""
    return bundled_program.buffer


def _suite(suite: MethodTestSuite, plan: fmt.ExecutionPlan | None) -> fmt.BundledMethodTestSuite:
    """Turn test cases into records of the file; `plan` is their method, None if the program lacks it."""
    cases = []
    for number, case in enumerate(suite.test_cases):
        where = f"test case {number} of '{suite.method_name}'"
        inputs = _values(case.inputs, plan, plan.inputs if plan else (), f"{where}, input")
        outputs = _values(case.expected_outputs, plan, plan.outputs if plan else (), f"{where}, expected output")
        cases.append(fmt.BundledMethodTestCase(inputs, outputs))
    return fmt.BundledMethodTestSuite(suite.method_name, cases)


def _values(values: list[Any], plan: fmt.ExecutionPlan | None, indices: Sequence[int], where: str) -> list[fmt.Value]:
    expected = [plan.values[index].val for index in indices] if plan else []
    expected += [None] * (len(values) - len(expected))
    pairs = enumerate(zip(values, expected, strict=False))
    return [fmt.Value(_value(value, wanted, f"{where} {number}")) for number, (value, wanted) in pairs]


def _value(value: Any, expected: Any, where: str) -> fmt.BundledTensor | fmt.Int | fmt.Bool | fmt.Double:
    """Turn a value into a record, a tensor in the dim order of the method's; `verify_cases` says whether it fits."""
    if isinstance(value, torch.Tensor):
        order = tuple(range(value.dim()))
        if isinstance(expected, fmt.Tensor) and len(expected.dim_order) == value.dim():
            order = tuple(expected.dim_order)
        return fmt.BundledTensor(scalar_type(value.dtype), list(value.shape), tensor_bytes(value, order), list(order))
    if type(value) not in _NUMBERS:
        raise CompileError(f"{where} is a {type(value).__name__}; test cases hold tensors and numbers")
    return _NUMBERS[type(value)](value)  # type: ignore[no-any-return]
