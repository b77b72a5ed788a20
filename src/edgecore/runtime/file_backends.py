"""Load the backends and kernels that the methods of a file need, and import nothing else."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from edgecore._runtime import Program as NativeProgram


class FileBackends:
    """The backends that a file needs, with `load`'s arguments for backends. Each method loads only its own."""

    def __init__(
        self, ids: Sequence[str], options: Mapping[str, Mapping[str, Any]], providers: Mapping[str, str] | None
    ) -> None:
        self._ids = ids
        # Copy the arguments: methods that are loaded later must not see later changes by the caller.
        self._options = {name: dict(values) for name, values in options.items()}
        self._providers = None if providers is None else dict(providers)
        for name in options:
            self.id_of(name)

    def id_of(self, name: str) -> str:
        """Return the id of a backend that the file needs, given the backend's name or id.

        Raises:
            BackendError: The file needs no backend with this name or id, or the package of a backend that the file
                needs is missing or broken.
        """
        if name in self._ids:
            return name
        from edgecore.errors import BackendError
        from edgecore.plugin import registry

        failure = None
        for backend_id in self._ids:
            try:
                if registry.find(backend_id, self._providers).name == name:
                    return backend_id
            except BackendError as error:
                failure = error
        needed = ", ".join(self._ids) or "none"
        raise failure or BackendError(f"options for {name}, but the backends that the file needs are: {needed}")

    def prepare(self, program: NativeProgram, method: int) -> None:
        """Load the backends and kernels that a method needs and that the program has not loaded yet."""
        for backend_id in program.missing_backends(method):
            self._load(program, backend_id)
        self._replace_kernels(program, method)
        if missing := program.missing_operators(method):
            from edgecore.plugin.installed.kernel_libraries import libraries

            for library in libraries(missing):
                program.load_kernels(os.fsencode(library))

    def _replace_kernels(self, program: NativeProgram, method: int) -> None:
        """Replace edgecore's kernels of a method's operators by those of installed packages that declare them."""
        from edgecore.plugin.installed import kernel_libraries

        declared = kernel_libraries.declared()
        for operator in program.operators(method) if declared else ():
            if operator not in declared:
                continue
            from edgecore.errors import BackendBroken, ExecutionError

            provider = kernel_libraries.package_of(operator)
            try:
                program.replace_kernel(os.fsencode(kernel_libraries.library(provider)), operator)
            except ExecutionError as error:
                raise BackendBroken(kernel_libraries.broken(provider, str(error))) from error

    def _load(self, program: NativeProgram, backend_id: str) -> None:
        from edgecore.errors import BackendBroken, ErrorCode, ExecutionError
        from edgecore.plugin import registry

        info = registry.find(backend_id, self._providers)
        if info.native_library is None:
            raise BackendBroken(f"backend {info.name!r} compiles only; it has no library to run {backend_id!r} with")
        try:
            library = info.native_library()
            defaults = info.load_options() if info.load_options else {}
        except Exception as error:
            raise BackendBroken(f"the library of backend {info.name!r} cannot be found: {error}") from error
        options = {**defaults, **self._options.get(backend_id, {}), **self._options.get(info.name, {})}
        try:
            program.load_backend(os.fsencode(library), backend_id, options)
        except ExecutionError as error:
            if error.code != ErrorCode.ACCESS_FAILED:
                raise
            hint = f"{error} `edgecore doctor {info.name}` says what is missing."
            raise ExecutionError(hint, error.code) from None
