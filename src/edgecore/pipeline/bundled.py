"""A program together with test cases: what `.bpte` files are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from edgecore import format as fmt
from edgecore.emit.contents import tensor_bytes
from edgecore.emit.pools import scalar_type
from edgecore.errors import CompileError
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
        plans = {plan.name: plan for plan in fmt.read_pte(self._program).program.execution_plan}
        self._suites = [_suite(suite, plans) for suite in self.method_test_suites]
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


def _suite(suite: MethodTestSuite, plans: Mapping[str, fmt.ExecutionPlan]) -> fmt.BundledMethodTestSuite:
    plan = plans.get(suite.method_name)
    if plan is None:
        raise CompileError(f"there is no method {suite.method_name!r} to test; the program has {', '.join(plans)}")
    cases = []
    for number, case in enumerate(suite.test_cases):
        where = f"method {plan.name!r}, case {number}"
        inputs = _values(case.inputs, plan, plan.inputs, f"{where}, input")
        outputs = []
        if case.expected_outputs:
            outputs = _values(case.expected_outputs, plan, plan.outputs, f"{where}, expected output")
        cases.append(fmt.BundledMethodTestCase(inputs, outputs))
    return fmt.BundledMethodTestSuite(plan.name, cases)


def _values(given: list[Any], plan: fmt.ExecutionPlan, indices: Sequence[int], where: str) -> list[fmt.Value]:
    if len(given) != len(indices):
        raise CompileError(f"{where}s: {len(given)} values are given, the method has {len(indices)}")
    return [
        fmt.Value(_value(value, plan.values[index].val, f"{where} {place}"))
        for place, (value, index) in enumerate(zip(given, indices, strict=True))
    ]


def _value(value: Any, expected: Any, where: str) -> fmt.BundledTensor | fmt.Int | fmt.Bool | fmt.Double:
    if not isinstance(expected, fmt.Tensor):
        kind = _NUMBERS.get(type(value))
        if kind is None or not isinstance(expected, kind):
            raise CompileError(f"{where} is a {type(value).__name__}, the method has a {type(expected).__name__} there")
        return kind(value)  # type: ignore[no-any-return]
    if not isinstance(value, torch.Tensor):
        raise CompileError(f"{where} is a {type(value).__name__}, the method has a tensor there")
    if scalar_type(value.dtype) != expected.scalar_type:
        raise CompileError(f"{where} is {value.dtype}, the method has {expected.scalar_type.name.lower()} there")
    sizes = list(value.shape)
    fixed = expected.shape_dynamism == fmt.TensorShapeDynamism.STATIC
    fits = len(sizes) == len(expected.sizes) and all(
        size == bound if fixed else size <= bound for size, bound in zip(sizes, expected.sizes, strict=True)
    )
    if not fits:
        most = "" if fixed else "at most "
        raise CompileError(f"{where} has sizes {sizes}, the method has {most}{expected.sizes} there")
    order = tuple(expected.dim_order)
    return fmt.BundledTensor(expected.scalar_type, sizes, tensor_bytes(value, order), list(order))
