"""Backends that a script defines in ExecuTorch's way, as classes with a static method `preprocess`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from pydantic import BaseModel
from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.copying import copy_program
from edgecore.partition import TAG
from edgecore.plugin import BackendInfo, CompiledPartition, CompileSpec, NamedBlob, PreprocessResult, hookimpl, register
from edgecore.stability import warn_no_effect


class NamedDataStore:
    """Data that delegates refer to by key, such as weights; the file stores equal data once."""

    def __init__(self) -> None:
        self._data: dict[str, NamedBlob] = {}

    def add_named_data(
        self,
        key: str,
        data: bytes | torch.Tensor,
        alignment: int | None = 1,
        external_tag: str | None = None,
        tensor_layout: Any = None,
    ) -> None:
        """Add data under a key.

        Args:
            key: The key.
            data: The bytes, or a tensor whose bytes are stored.
            alignment: Alignment of the data in the file.
            external_tag: Must be None: `ExecutorchBackendConfig(external_constants=...)` moves data to a `.ptd` file.
            tensor_layout: Without effect: a `.pte` stores no layout of named data.

        Raises:
            CompileError: `external_tag` is not None.
            ValueError: The key has other data already.
        """
        if external_tag is not None:
            raise CompileError(
                f"named data {key!r} has the external_tag {external_tag!r}; write "
                "ExecutorchBackendConfig(external_constants=...) to move data to a .ptd file"
            )
        if tensor_layout is not None:
            reason = "a .pte has named data as bytes, without a layout"
            warn_no_effect("NamedDataStore.add_named_data(tensor_layout=...)", reason)
        if isinstance(data, torch.Tensor):
            data = data.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        content = bytes(data)
        known = self._data.setdefault(key, NamedBlob(content, alignment or 1))
        if known.data != content:
            raise ValueError(f"the key {key!r} has other data already; give each tensor a key of its own")
        self._data[key] = NamedBlob(content, math.lcm(known.alignment, alignment or 1))

    def get_named_data_store_output(self) -> Mapping[str, NamedBlob]:
        """Return the data by key, for `PreprocessResult(data_store_output=...)`."""
        return dict(self._data)


@dataclass(frozen=True)
class _ScriptResult(PreprocessResult):
    """The result of a script-defined backend, with the entry `_delegate_info_meta` of `LoweredBackendModule.meta`."""

    _delegate_info_meta: Any = None


def preprocess_result(
    processed_bytes: bytes = b"",
    debug_handle_map: Mapping[int | str, tuple[int, ...]] | None = None,
    data_store_output: Mapping[str, NamedBlob] | None = None,
    _delegate_info_meta: Any = None,
) -> PreprocessResult:
    """Make the result of `preprocess` from the fields that ExecuTorch's `PreprocessResult` has.

    Args:
        processed_bytes: The compiled partition.
        debug_handle_map: Identifier of a step -> debug handles of the nodes that it computes.
        data_store_output: The named data, from a `NamedDataStore`.
        _delegate_info_meta: Any object, for tools: `LoweredBackendModule.meta["_delegate_info_meta"]`.
    """
    return _ScriptResult(
        bytes(processed_bytes),
        named_data=data_store_output or {},
        debug_handle_map=debug_handle_map or {},
        _delegate_info_meta=_delegate_info_meta,
    )


class BackendDetails:
    """The base class of a backend in a script. The name of a subclass is the id of its backend.

    Defining a subclass makes the backend known in this process. A file with delegates of the backend can be written,
    but to run the file, a package with a native library is needed (`edgecore new-backend`).
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

    @classmethod
    def preprocess_multimethod(
        cls, edge_programs: Mapping[str, list[ExportedProgram]], compile_specs: Mapping[str, list[list[CompileSpec]]]
    ) -> Mapping[str, list[PreprocessResult]]:
        """Compile all partitions of all methods; a backend whose partitions share data overrides this method.

        Such a backend is also called for each partition alone, as the only partition of a method "forward", so that a
        partition that cannot be compiled stays outside of delegates, and the others are compiled.

        Args:
            edge_programs: Name of a method -> its partitions.
            compile_specs: Name of a method -> the compile specs of each partition.

        Returns:
            Name of a method -> the result of each partition.
        """
        return {
            name: [cls.preprocess(*partition) for partition in zip(programs, compile_specs[name], strict=True)]
            for name, programs in edge_programs.items()
        }


_backends: dict[str, type[BackendDetails]] = {}


def __getattr__(name: str) -> Any:
    """Return the function that makes the compiler of the backend `name`, which a script defines.

    `BackendInfo.compiler` contains the name of this function.
    """
    if name not in _backends:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    details = _backends[name]
    default = vars(BackendDetails)["preprocess_multimethod"]
    links = inspect.getattr_static(details, "preprocess_multimethod") is not default
    return lambda: (_LinkingCompiler if links else _Compiler)(details)


class _NoOptions(BaseModel):
    """The options of a backend that a script defines: none, because the backend takes compile specs instead."""


class _Compiler:
    """The compiler of a backend that a script defines. The backend may edit its programs, which are copies."""

    Options = _NoOptions

    def __init__(self, details: type[BackendDetails]) -> None:
        self._details = details

    def partitioner(self, options: BaseModel, *, runtime: str) -> Any:
        raise CompileError(f"{self._details.__name__} has no partitioner of its own; pass one to the lowering")

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        return self._details.preprocess(copy_program(program), list(specs))

    def operator_support(self) -> list[Any]:
        return []

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> list[str]:
        return []

    def check(self) -> list[Any]:
        return []


class _LinkingCompiler(_Compiler):
    """The compiler of a backend that overrides `preprocess_multimethod`."""

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        return self._results({"forward": [program]}, {"forward": [list(specs)]})[0]

    def link(self, partitions: Sequence[CompiledPartition]) -> Sequence[PreprocessResult]:
        programs: dict[str, list[ExportedProgram]] = {}
        specs: dict[str, list[list[CompileSpec]]] = {}
        for partition in partitions:  # keeps the order of `partitions`, in which a method's partitions are consecutive
            programs.setdefault(partition.method, []).append(partition.program)
            specs.setdefault(partition.method, []).append(list(partition.specs))
        return self._results(programs, specs)

    def _results(
        self, programs: Mapping[str, list[ExportedProgram]], specs: Mapping[str, list[list[CompileSpec]]]
    ) -> list[PreprocessResult]:
        copies = {method: [copy_program(program) for program in of_method] for method, of_method in programs.items()}
        results = self._details.preprocess_multimethod(copies, specs)
        for method, of_method in programs.items():
            if len(results.get(method, ())) != len(of_method):
                name = self._details.__name__
                raise CompileError(
                    f"{name}.preprocess_multimethod gave {len(results.get(method, ()))} results for the "
                    f"{len(of_method)} partitions of method {method!r}; return one for each"
                )
        return [result for method in programs for result in results[method]]


def tag_constant_data(edge_program: ExportedProgram) -> None:
    """Copy the tags of nodes to the constants that they read; call this after all other nodes are tagged.

    A constant with users in several partitions receives the tag that comes first in alphabetical order. Only a script's
    own code needs these tags: edgecore passes constants to a partition's backend without them, too.
    """
    constants = Constants(edge_program)
    for node in edge_program.graph.find_nodes(op="placeholder"):
        tags = {user.meta[TAG] for user in node.users if TAG in user.meta}
        if tags and constants.has(node):
            node.meta[TAG] = min(tags)
