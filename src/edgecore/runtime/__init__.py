"""Loads and runs `.pte` files. Imports neither torch nor numpy."""

from __future__ import annotations

import os

from edgecore._runtime import DimInfo, Method, Program, Run, Tensor, TensorInfo, kernels, open_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from typing_extensions import Buffer

__all__ = ["DimInfo", "Method", "Model", "Run", "Tensor", "TensorInfo", "kernels", "load"]

_ACCESS_FAILED = 0x22


class Model:
    """The methods of a loaded file: `model["forward"]`, or `model.forward` for a name that is no other attribute.

    Each is a `Method`: `.inputs` and `.outputs` describe what it takes and gives, `.delegates` names its backends,
    and calling it runs it, with inputs by position or by name. Inputs are numpy arrays, torch tensors, or anything with the buffer protocol or DLPack, and
    Python numbers where the model takes such. One output comes back as itself, several as a list, in the kind of the
    first input (a plain buffer gives `Tensor`); they belong to the caller. `out=[...]` names buffers to write into,
    `out=array` the only one. An input that does not fit what the model was exported with is an `ExecutionError`.
    Several threads may run different methods at the same time; those that call the same one take turns.
    `model.forward.start(...)` is a call that does not wait for a device: it gives a `Run` to `wait` for, or to `await`.
    """

    def __init__(self, program: Program, methods: Sequence[Method], backends: Mapping[str, str]) -> None:
        self._program = program
        self._methods = {method.name: method for method in methods}
        self._backends = backends

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of all methods."""
        return tuple(self._methods)

    @property
    def profile(self) -> str:
        """The runtime profile that the file was compiled for; empty if another toolchain wrote it."""
        return self._program.profile

    def write_trace(self, path: Any) -> None:
        """Write the times of everything that ran since `load(..., trace=True)` as an ETDump (`.etdp`).

        ExecuTorch's `Inspector(etdump_path=...)` shows it. No method may run meanwhile.

        Raises:
            ExecutionError: The file was loaded without `trace`, or `path` cannot be written.
        """
        self._program.write_trace(os.fsencode(path))

    def reset(self) -> None:
        """Give all mutable buffers (a cache, a counter) their initial values; waits for calls that run."""
        self._program.reset()

    def export_state(self) -> bytes:
        """All mutable buffers as bytes, and what backends keep, for `import_state`; waits for calls that run.

        Raises:
            ExecutionError: A backend keeps state that it cannot export.
        """
        return self._program.export_state()

    def import_state(self, state: Buffer) -> None:
        """Put back what `export_state` gave, of this model or one whose buffers have the same names, types and shapes.

        Waits for calls that run. On an error the state is as it was.

        Raises:
            ExecutionError: `state` is damaged or of another program, or a backend refuses it.
        """
        self._program.import_state(state)

    def set_options(self, backend: str, options: Mapping[str, Any]) -> None:
        """Set options of a backend that may change after loading, for all methods; waits for calls that run.

        Args:
            backend: Its name or id: "xnnpack" or "XnnpackBackend".
            options: Values by name. All names and types are checked before the first is set.

        Raises:
            BackendError: The file needs no such backend.
            ExecutionError: An unknown option (the sentence names the known ones), a value of another type, or one that
                the backend refuses.
        """
        if backend not in self._backends:
            from edgecore.errors import BackendError

            raise BackendError(_not_needed([backend], self._backends.values()))
        self._program.set_options(self._backends[backend], dict(options))

    def __getitem__(self, name: str) -> Method:
        if name not in self._methods:
            raise KeyError(f"the program has no method {name!r}; it has: {', '.join(self._methods)}")
        return self._methods[name]

    def __getattr__(self, name: str) -> Method:
        methods = self.__dict__.get("_methods", {})
        if name not in methods:
            raise AttributeError(f"the program has no method {name!r}; it has: {', '.join(methods)}")
        method: Method = methods[name]
        self.__dict__[name] = method  # the next access is a plain attribute
        return method

    def __repr__(self) -> str:
        shown = [
            f"{name}({', '.join(info.name or info.dtype for info in method.inputs)})"
            for name, method in self._methods.items()
        ]
        return f"<edgecore.Model {', '.join(shown)}>"

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)


def load(
    path: Any,
    data: Sequence[Any] = (),
    *,
    threads: int | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    providers: Mapping[str, str] | None = None,
    trust: bool = False,
    share_state: bool | None = None,
    limits: Mapping[str, int] | None = None,
    trace: bool = False,
    verify: bool = False,
) -> Model:
    """Load a `.pte` file and the backends that it needs, and build its methods.

    The packages of these backends, and no others, are imported in this process: one that hangs there hangs the call.
    `edgecore doctor` finds such a package, and EDGECORE_BACKENDS_DENY makes needing it an error.

    Args:
        path: A path (the file is mapped and must not be shortened while the model lives), its bytes, a binary file
            object, or what `edgecore.compile` returned, whose `.ptd` files come with it. Of a `.bpte` file the program
            in it.
        data: `.ptd` files with weights that the program keeps outside: paths, bytes or binary file objects.
        threads: How many threads each method computes on, the calling one included; by default the performance cores
            that this process may use, within its CPU quota.
        options: Options of backends by backend name or id: `{"xnnpack": {...}}`.
        providers: The package to take a backend from where several provide it: `{"XnnpackBackend": "edgecore-xnnpack"}`.
        trust: Accept delegates whose SHA-256 the file does not hold, for backends that do not check their blobs.
        share_state: Whether mutable buffers of equal qualified name are one for all methods. By default those are that
            the file was compiled to share. Methods that share one take turns.
        limits: Bounds on what the file may ask for: flatbuffer_bytes, nesting, tables, methods, items, rank,
            tensor_bytes, planned_bytes (of a method; by default the physical memory), instructions (of one run).
        trace: Keep the times of all instructions for `Model.write_trace`.
        verify: Compare weights, blobs and `.ptd` data with the hashes that the compiler wrote into the file; reads all of
            them, at about 0.2 GB a second.

    Raises:
        FormatError: This is no `.pte`, or it is damaged.
        BackendError: A backend that the file needs is not installed, broken or disabled.
        ExecutionError: Everything else that keeps it from running: no access, a missing kernel, an unknown option.
    """
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1; got {threads}")
    if hasattr(path, "data_buffers"):
        path, data = path.buffer, [*path.data_buffers, *_parts(data)]
    program = open_program(_source(path), [_source(part) for part in _parts(data)], dict(limits or {}))
    if verify:
        program.check_digests()
    backend_ids = program.backend_ids
    backends: dict[str, str] = {}
    if backend_ids or options:
        backends = _load_backends(program, backend_ids, options or {}, providers)
    if missing := program.missing_operators:
        from edgecore.plugin.kernels import libraries

        for library in libraries(missing):
            program.load_kernels(os.fsencode(library))
    return Model(program, program.load_methods(threads or 0, trust, share_state, trace), backends)


def _parts(data: Any) -> Sequence[Any]:
    """`data` as a sequence; a single file without brackets is meant well."""
    return [data] if isinstance(data, (str, os.PathLike, bytes)) or hasattr(data, "read") else data


def _source(file: Any) -> Any:
    """A file for `open_program`: a path as bytes in a tuple, or an object with the buffer protocol."""
    if isinstance(file, (str, os.PathLike)):
        return (os.fsencode(file),)
    if hasattr(file, "read"):
        file = file.read()
    try:
        memoryview(file)
    except TypeError:
        raise TypeError(
            f"a path, bytes, a binary file object or a compiled program is needed, not {type(file).__name__}"
        ) from None
    return file


def _load_backends(
    program: Program,
    backend_ids: Sequence[str],
    options: Mapping[str, Mapping[str, Any]],
    providers: Mapping[str, str] | None,
) -> dict[str, str]:
    """Load them into the program; gives their ids by name and by id."""
    from edgecore.errors import BackendBroken, BackendError, ExecutionError
    from edgecore.plugin import registry

    backends: dict[str, str] = {}
    for backend_id in backend_ids:
        info = registry.find(backend_id, providers)
        if info.native_library is None:
            raise BackendBroken(f"backend {info.name!r} compiles only; it has no library to run {backend_id!r} with")
        try:
            library = info.native_library()
            found = info.load_options() if info.load_options else {}
        except Exception as error:
            raise BackendBroken(f"the library of backend {info.name!r} cannot be found: {error}") from error
        given = {**found, **options.get(backend_id, {}), **options.get(info.name, {})}
        backends |= {backend_id: backend_id, info.name: backend_id}
        try:
            program.load_backend(os.fsencode(library), backend_id, given)
        except ExecutionError as error:
            if error.code != _ACCESS_FAILED:
                raise
            hint = f"{error} `edgecore doctor {info.name}` says what is missing."
            raise ExecutionError(hint, error.code) from None
    if unknown := sorted(set(options) - set(backends)):
        raise BackendError(_not_needed(unknown, backend_ids))
    return backends


def _not_needed(backends: Iterable[str], backend_ids: Iterable[str]) -> str:
    needed = ", ".join(dict.fromkeys(backend_ids)) or "none"
    return f"options for {', '.join(backends)}, but the backends that the file needs are: {needed}"
