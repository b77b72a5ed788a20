"""The functions of ExecuTorch's Python bindings, and of its module that saves programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgecore.runtime.executorch_names import MethodMeta, Program, Runtime, Verification


class ExecuTorchModule:
    """A loaded file, as `_load_for_executorch` returns it."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def forward(self, inputs: Sequence[Any] = (), clone_outputs: bool = True) -> list[Any]:
        """Run the method `forward`. Outputs always are the caller's, so `clone_outputs` makes no difference."""
        return self.run_method("forward", inputs)

    __call__ = forward

    def run_method(self, method_name: str, inputs: Sequence[Any] = (), clone_outputs: bool = True) -> list[Any]:
        """Run a method."""
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


def _load_for_executorch(
    program_path: Any,
    data_path: Any = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchModule:
    """Load a file and its `.ptd` file from paths."""
    program = Runtime.get().load_program(
        program_path, verification=program_verification, enable_etdump=enable_etdump,
        debug_buffer_size=debug_buffer_size, data_path=data_path,
    )  # fmt: skip
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
