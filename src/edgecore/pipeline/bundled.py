"""Bundle a program with test cases in a `.bpte` file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from edgecore import format as fmt
from edgecore.emit.constant_data import tensor_bytes
from edgecore.errors import CompileError
from edgecore.files import write_file
from edgecore.ir.dialect.dtypes import scalar_type, torch_dtype
from edgecore.ir.program.copying import module_to_run, unchanged_buffers
from edgecore.ir.torch_compat import pytree
from edgecore.pipeline.finished_program import FinishedProgram

_NUMBERS: dict[type, type] = {bool: fmt.Bool, int: fmt.Int, float: fmt.Double}


class MethodTestCase:
    """One run of a method: the inputs and the expected outputs. Nested containers are flattened.

    Args:
        inputs: A tensor or number for each input of the method.
        expected_outputs: A tensor or number for each output; None if the case only supplies inputs.

    Example:
        >>> edgecore.MethodTestCase((x,), model(x))
    """

    def __init__(self, inputs: Sequence[Any], expected_outputs: Any = None) -> None:
        self.inputs: list[Any] = pytree.tree_leaves(inputs)
        self.expected_outputs: list[Any] = [] if expected_outputs is None else pytree.tree_leaves(expected_outputs)


@dataclass
class MethodTestSuite:
    """The test cases of one method.

    Example:
        >>> edgecore.MethodTestSuite("forward", [edgecore.MethodTestCase((x,), model(x))])
    """

    method_name: str
    test_cases: Sequence[MethodTestCase]


def eager_suite(
    method_name: str, model: Any, example_inputs: Any = None, samples: Iterable[Any] | Path | None = None
) -> MethodTestSuite:
    """Run a model in PyTorch, and return its inputs and outputs as test cases.

    Args:
        method_name: The method that the cases call.
        model: A module in eval mode or an exported program. Buffers that it writes are restored afterwards.
        example_inputs: The inputs of the only case if there are no `samples`: a tuple, or a tensor if there is only one
            input. None to use the example inputs of an exported program.
        samples: Inputs in the form of `calibration` of `edgecore.compile`; each becomes a case.

    Raises:
        CompileError: There are no inputs, the samples cannot be read, the model is in training mode or cannot be run.
    """
    from edgecore.numerics.evaluate import copied
    from edgecore.pipeline.export import is_in_training
    from edgecore.quantize import samples as read_samples

    is_exported = isinstance(model, ExportedProgram)
    if not is_exported and is_in_training(model):
        raise CompileError(f"{type(model).__name__} is in training mode; call model.eval() first")
    if samples is None and example_inputs is None:
        if not is_exported or model.example_inputs is None:
            raise CompileError("test cases need inputs: the exported program has no example inputs, so name samples")
        calls = [model.example_inputs]
    else:
        calls = list(read_samples([example_inputs] if samples is None else samples))
    cases = []
    with torch.no_grad(), unchanged_buffers(model):
        module = module_to_run(model) if is_exported else model
        for number, (args, kwargs) in enumerate(calls):
            inputs = pytree.tree_map(copied, (args, kwargs))  # copy the inputs before the model may write into them
            try:
                outputs = module(*args, **kwargs)
            except Exception as error:  # a model may raise errors of any type, so catch all
                raise CompileError(f"the model cannot be run with the inputs of test case {number}: {error}") from error
            cases.append(MethodTestCase(inputs, pytree.tree_map(copied, outputs)))
    return MethodTestSuite(method_name, cases)


class BundledProgram:
    """A program with test suites, for one `.bpte` file.

    `edgecore.verify_bundled` and `edgecore run` run the test cases. executorch's own checker supplies no memory for
    outputs: for this checker, compile the program with `memory="static"`.

    Args:
        executorch_program: The result of `edgecore.compile` or `to_executorch`; None with `pte_file_path`.
        method_test_suites: The suites, at most one for each method.
        pte_file_path: A `.pte` file, in place of `executorch_program`.
        pte: The bytes of such a file, in place of `executorch_program`.

    Raises:
        CompileError: A suite does not match the program; the message names the method, case and value.

    Example:
        >>> suite = edgecore.MethodTestSuite("forward", [edgecore.MethodTestCase((x,), model(x))])
        >>> edgecore.BundledProgram(program, [suite]).save("model.bpte")
    """

    def __init__(
        self,
        executorch_program: FinishedProgram | None,
        method_test_suites: Sequence[MethodTestSuite],
        pte_file_path: str | Path | None = None,
        *,
        pte: bytes | None = None,
    ) -> None:
        if sum(source is not None for source in (executorch_program, pte_file_path, pte)) != 1:
            raise CompileError("BundledProgram needs either executorch_program or pte_file_path, and not both")
        self.executorch_program = executorch_program
        self.method_test_suites = sorted(method_test_suites, key=lambda suite: suite.method_name)
        self._program: fmt.Buffer
        if executorch_program is not None:
            self._program = executorch_program.buffer
        else:
            self._program = Path(str(pte_file_path)).read_bytes() if pte is None else pte
        file = fmt.read_pte(self._program)
        plans = {plan.name: plan for plan in file.program.execution_plan}
        self._suites = [_suite(suite, plans.get(suite.method_name)) for suite in self.method_test_suites]
        for finding in fmt.verify_cases(fmt.BpteFile(method_test_suites=self._suites, program=self._program), file):
            raise CompileError(str(finding))
        names = [suite.method_name for suite in self._suites]
        for name in names:
            if names.count(name) > 1:
                raise CompileError(
                    f"there are {names.count(name)} test suites for method {name!r}; merge them into one"
                )

    @property
    def buffer(self) -> bytes:
        """The `.bpte` as bytes.

        Raises:
            FormatError: The file would be larger than 2 GiB.
        """
        return fmt.write_bpte(fmt.BpteFile(method_test_suites=self._suites, program=self._program))

    def save(self, path: str | Path) -> None:
        """Write the `.bpte` file.

        Raises:
            WriteError: The file cannot be written. An existing file is then unchanged.
            FormatError: The file would be larger than 2 GiB.
        """
        write_file(path, self.buffer)


def serialize_from_bundled_program_to_flatbuffer(bundled_program: BundledProgram) -> bytes:
    """Return the `.bpte` as bytes. The function has the name of its counterpart in executorch."""
    return bundled_program.buffer


def deserialize_from_flatbuffer_to_bundled_program(flatbuffer: bytes) -> BundledProgram:
    """Return the program and the test cases in the bytes of a `.bpte` file.

    Raises:
        FormatError: The bytes are not a `.bpte` file, or they are damaged.
    """
    file = fmt.read_bpte(flatbuffer)
    suites = [
        MethodTestSuite(
            suite.method_name,
            [MethodTestCase(_plain(case.inputs), _plain(case.expected_outputs)) for case in suite.test_cases],
        )
        for suite in file.method_test_suites
    ]
    return BundledProgram(None, suites, pte=bytes(file.program))


def _plain(values: Sequence[fmt.Value]) -> list[Any]:
    """Convert the values of a test case from flatbuffer tables to tensors and numbers."""
    return [_tensor(value.val) if isinstance(value.val, fmt.BundledTensor) else _number(value.val) for value in values]


def _tensor(table: fmt.BundledTensor) -> torch.Tensor:
    dtype = torch_dtype(table.scalar_type)
    dense = torch.frombuffer(bytearray(table.data), dtype=dtype) if len(table.data) else torch.empty(0, dtype=dtype)
    dense = dense.reshape([table.sizes[dim] for dim in table.dim_order])
    return dense.permute([list(table.dim_order).index(dim) for dim in range(len(table.sizes))])


def _number(table: Any) -> Any:
    return next(getattr(table, field.name) for field in fields(table))


def _suite(suite: MethodTestSuite, plan: fmt.ExecutionPlan | None) -> fmt.BundledMethodTestSuite:
    """Convert the test cases of a method to flatbuffer tables; `plan` is None if the program has no such method."""
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
    return [fmt.Value(_value(value, of_method, f"{where} {number}")) for number, (value, of_method) in pairs]


def _value(value: Any, expected: Any, where: str) -> fmt.BundledTensor | fmt.Int | fmt.Bool | fmt.Double:
    """Convert an input or output of a test case to a flatbuffer table.

    A tensor takes the dim order of `expected`, the program's tensor for this input or output. `fmt.verify_cases` checks
    afterwards that the values match the method.
    """
    if isinstance(value, torch.Tensor):
        order = tuple(range(value.dim()))
        if isinstance(expected, fmt.Tensor) and len(expected.dim_order) == value.dim():
            order = tuple(expected.dim_order)
        return fmt.BundledTensor(scalar_type(value.dtype), list(value.shape), tensor_bytes(value, order), list(order))
    if type(value) not in _NUMBERS:
        raise CompileError(f"{where} is a {type(value).__name__}; use tensors, numbers or bools in test cases")
    return _NUMBERS[type(value)](value)  # type: ignore[no-any-return]
