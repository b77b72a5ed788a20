"""The functions of ExecuTorch's Python bindings, and its `save_pte_program`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import torch

from edgecore import format as fmt
from edgecore.errors import ErrorCode, ExecutionError
from edgecore.executorch.runtime.runtime import MethodMeta, Program, Runtime, Verification
from edgecore.runtime import load
from edgecore.runtime.bundled import compare_with_test_case, read_bundled, run_test_case
from edgecore.stability import warn_no_effect


class ExecuTorchModule:
    """A loaded file, as `_load_for_executorch` returns it."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def forward(self, inputs: Sequence[Any] | torch.Tensor = (), clone_outputs: bool = True) -> list[Any]:
        """Run the method `forward`.

        Args:
            inputs: The inputs, or a single tensor.
            clone_outputs: False has no effect: outputs always belong to the caller.
        """
        _warn_of_aliases(clone_outputs)
        return self.run_method("forward", [inputs] if isinstance(inputs, torch.Tensor) else inputs)

    __call__ = forward

    def run_method(self, method_name: str, inputs: Sequence[Any] = (), clone_outputs: bool = True) -> list[Any]:
        """Run a method; for the arguments, see `forward`."""
        _warn_of_aliases(clone_outputs)
        return self._program.load_method(method_name).execute(inputs)

    def method_names(self) -> list[str]:
        """Return the names of all methods."""
        return sorted(self._program.method_names)

    def method_meta(self, method_name: str) -> MethodMeta:
        """Return the description of a method."""
        return self._program.metadata(method_name)

    def write_etdump_result_to_file(self, path: str, debug_buffer_path: str | None = None) -> None:
        """Write the recorded times; see `Program.write_etdump_result_to_file`."""
        self._program.write_etdump_result_to_file(path, debug_buffer_path)


def _warn_of_aliases(clone_outputs: bool) -> None:
    if not clone_outputs:
        reason = "later runs never change the outputs of an earlier one"
        warn_no_effect("ExecuTorchModule(clone_outputs=False)", reason)


class BundledModule:
    """A program with its test cases, as `_load_bundled_program_from_buffer` returns it."""

    def __init__(self, buffer: bytes) -> None:
        self._file: fmt.BpteFile = read_bundled(buffer)

    @property
    def program(self) -> bytes:
        """The `.pte` within the file."""
        return bytes(self._file.program)

    def verify_result_with_bundled_expected_output(
        self, method_name: str, testset_idx: int, rtol: float = 1e-5, atol: float = 1e-8
    ) -> list[Any]:
        """Run a method with the inputs of a test case, compare with its expected outputs, and return the outputs.

        Raises:
            ExecutionError: There is no such test case, it cannot be run, or an output differs by more than
                `atol + rtol * |expected|`.
        """
        suites = {suite.method_name: suite for suite in self._file.method_test_suites}
        suite = suites.get(method_name)
        count = len(suite.test_cases) if suite else 0
        if suite is None or not 0 <= testset_idx < count:
            raise ExecutionError(
                f"there is no test case {testset_idx} of the method {method_name!r}: the file has {count} for it",
                ErrorCode.INVALID_ARGUMENT,
            )
        outputs = run_test_case(load(self.program)[method_name], suite.test_cases[testset_idx])
        for result in compare_with_test_case(outputs, suite, testset_idx, rtol, atol):
            if result.passed is False:
                raise ExecutionError(str(result), ErrorCode.INVALID_STATE)
        return [torch.from_numpy(output) if isinstance(output, numpy.ndarray) else output for output in outputs]


def _load_bundled_program_from_buffer(buffer: bytes, non_const_pool_size: int = 0) -> BundledModule:
    """Read a `.bpte` file from bytes. `non_const_pool_size` has no effect."""
    if non_const_pool_size:
        reason = "memory is allocated as the program says"
        warn_no_effect("_load_bundled_program_from_buffer(non_const_pool_size=...)", reason)
    return BundledModule(buffer)


def _load_for_executorch_from_bundled_program(
    module: BundledModule,
    data_map_buffer: bytes | None = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
) -> ExecuTorchModule:
    """Load the program of a `.bpte` file."""
    return _load_for_executorch(module.program, data_map_buffer, enable_etdump, debug_buffer_size)


def _load_for_executorch(
    program_path: Any,
    data_path: Any = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchModule:
    """Load a file and its `.ptd` file from paths."""
    program = Runtime.get().load_program(
        program_path,
        verification=program_verification,
        enable_etdump=enable_etdump,
        debug_buffer_size=debug_buffer_size,
        data_path=data_path,
    )
    return ExecuTorchModule(program)


def _load_for_executorch_from_buffer(
    buffer: bytes,
    data_map_buffer: bytes | None = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchModule:
    """Load a file and its `.ptd` file from bytes."""
    return _load_for_executorch(buffer, data_map_buffer, enable_etdump, debug_buffer_size, program_verification)


def _get_operator_names() -> list[str]:
    return sorted(Runtime.get().operator_registry.operator_names)


def _get_registered_backend_names() -> list[str]:
    return Runtime.get().backend_registry.registered_backend_names


def _is_available(backend_name: str) -> bool:
    return Runtime.get().backend_registry.is_available(backend_name)


def save_pte_program(prog: Any, model_name: str, output_dir: str = "") -> str:
    """Write a finished program to `OUTPUT_DIR/MODEL_NAME.pte`, and return the path."""
    path = Path(output_dir) / (model_name if model_name.endswith(".pte") else f"{model_name}.pte")
    prog.save(path)
    return str(path)
