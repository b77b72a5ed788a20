"""Backends that a script defines as ExecuTorch's do: classes with a static method `preprocess`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from pydantic import BaseModel
from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.plugin import BackendInfo, CompileSpec, PreprocessResult, hookimpl, register


def preprocess_result(
    processed_bytes: bytes = b"",
    debug_handle_map: Mapping[int | str, tuple[int, ...]] | None = None,
    data_store_output: Any = None,
) -> PreprocessResult:
    """Make the result of `preprocess` from the fields that ExecuTorch's `PreprocessResult` has.

    Args:
        processed_bytes: The compiled partition.
        debug_handle_map: Identifier of a step -> debug handles of the nodes that it computes.
        data_store_output: Must be None: named data are a class of ExecuTorch that edgecore has not.

    Raises:
        CompileError: There is a `data_store_output`.
    """
    if data_store_output is not None:
        raise CompileError(
            "data_store_output is a class of ExecuTorch; return edgecore.plugin.PreprocessResult instead"
        )
    return PreprocessResult(bytes(processed_bytes), debug_handle_map=debug_handle_map or {})


class BackendDetails:
    """The base class of a backend in a script. The name of a subclass is the id of its backend.

    Defining a subclass makes the backend known in this process. A file with its delegates can be written; running it
    needs a package with a native library (`edgecore new-backend`).
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _backends[cls.__name__] = cls
        info = BackendInfo(
            name=cls.__name__.lower(),
            backend_id=cls.__name__,
            summary=f"defined in {cls.__module__}",
            compiler=f"{__name__}:{cls.__name__}",
        )
        register(SimpleNamespace(__name__=cls.__module__, edgecore_backends=hookimpl(lambda: [info])))

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Compile a program to bytes."""
        raise NotImplementedError


_backends: dict[str, type[BackendDetails]] = {}


def __getattr__(name: str) -> Any:
    """Return the class that makes the compiler of a backend, by the id of the backend."""
    if name not in _backends:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return lambda: _Compiler(_backends[name])


class _NoOptions(BaseModel):
    """A backend of a script has no options, but compile specs."""


class _Compiler:
    """The compiler of a backend that a script defines."""

    Options = _NoOptions

    def __init__(self, details: type[BackendDetails]) -> None:
        self._details = details

    def partitioner(self, options: BaseModel, *, runtime: str) -> Any:
        raise CompileError(f"{self._details.__name__} has no partitioner of its own; pass one to the lowering")

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        return self._details.preprocess(program, list(specs))

    def operator_support(self) -> list[Any]:
        return []

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> list[str]:
        return []


def tag_constant_data(edge_program: ExportedProgram) -> None:
    """Do nothing: in edgecore the weights of a partition always go with it to the backend."""
