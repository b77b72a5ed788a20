"""Load and run `.pte` files. Importing this module imports neither torch nor numpy."""

from __future__ import annotations

import os
import sys

from edgecore._runtime import DimInfo, Method, Run, Tensor, TensorInfo, kernels, open_program, set_log_level
from edgecore.runtime.file_backends import FileBackends
from edgecore.stability import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from typing_extensions import Buffer

    from edgecore._runtime import Program as NativeProgram
    from edgecore.executorch.runtime.runtime import BackendRegistry, OperatorRegistry, Runtime, Verification
    from edgecore.runtime.tracing import Trace
    from edgecore.runtime.values import OperationValue

__all__ = [
    "BackendRegistry",
    "DimInfo",
    "Method",
    "OperatorRegistry",
    "Program",
    "Run",
    "Runtime",
    "Tensor",
    "TensorInfo",
    "Verification",
    "kernels",
    "load",
]

_EXECUTORCH_NAMES = ("BackendRegistry", "OperatorRegistry", "Runtime", "Verification")
__getattr__ = lazy_names(
    "edgecore.runtime", {name: "edgecore.executorch.runtime.runtime" for name in _EXECUTORCH_NAMES}
)


class Program:
    """A loaded file. `load` returns it.

    Get a method by `program["forward"]`, or by `program.forward` if no other attribute has this name. Iterating yields
    the names of the methods, `len` returns their number. Each method is a `Method`: call it to run it, or call `start`
    to begin a run and wait for its result later; `inputs` and `outputs` describe its arguments and results. Different
    methods may run in several threads at the same time. Calls of one method, and of methods that share mutable buffers,
    run one after another.

    If a file has a single method, it is loaded with the file. Otherwise each method is loaded at its first call, or by
    `load_method`. Loading a method also loads and prepares its backends, and allocates its memory.

    Example:
        >>> program = edgecore.load("model.pte")
        >>> program
        <edgecore.Program forward(x)>
        >>> program.forward.inputs
        (TensorInfo('x', float32 [batch: 1..8, 16]),)
        >>> logits = program.forward(numpy.zeros((4, 16), "float32"))
    """

    def __init__(self, program: NativeProgram, methods: Sequence[Method], backends: FileBackends) -> None:
        self._program = program
        self._methods = {method.name: method for method in methods}
        self._backends = backends
        for method in filter(_is_nested, methods):
            from edgecore.runtime.nesting import set_nesting

            set_nesting(method)

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of all methods, in the order of the file."""
        return tuple(self._methods)

    @property
    def target_runtime(self) -> str:
        """Runtime that the file was compiled for, such as "executorch-1.5"; empty for files of other toolchains."""
        return self._program.target_runtime

    def load_method(self, name: str) -> Method:
        """Load a method now, if it is not loaded yet, instead of at its first call.

        Args:
            name: Name of the method.

        Returns:
            The method.

        Raises:
            KeyError: The program has no such method.
            BackendError: A backend that the method needs is not installed, broken or disabled.
            ExecutionError: The method cannot run for another reason, such as a missing kernel or too little memory.

        Example:
            >>> program = edgecore.load("codec.pte")  # with the methods encode and decode
            >>> for name in program:
            ...     program.load_method(name)  # errors come now
        """
        method = self[name]
        self._program.load_method(self.methods.index(name))
        return method

    def is_method_loaded(self, name: str) -> bool:
        """Return True if a method is loaded.

        Args:
            name: Name of the method.

        Returns:
            False before the first call of the method, unless `load_method` or `load` has loaded it.

        Raises:
            KeyError: The program has no such method.
        """
        self[name]  # raise a KeyError that lists the methods if the name is unknown
        return self._program.is_method_loaded(self.methods.index(name))

    def take_values(self, method: str = "forward") -> list[OperationValue]:
        """Wait until the method's runs end, then return the values that operations inside its delegates have computed.

        Args:
            method: Name of the method.

        Returns:
            The values since loading or the last call, oldest first. Empty if the file was loaded without `values`, or
            if its backends report none.

        Raises:
            KeyError: The program has no such method.

        Example:
            >>> program = edgecore.load("model.pte", values=True)
            >>> output = program.forward(x)
            >>> for row in program.take_values():
            ...     print(row.operation, row.handles, row.value.shape)
        """
        from edgecore.runtime.values import take_values

        self[method]  # raise a KeyError that lists the methods if the name is unknown
        return take_values(self._program, self.methods.index(method), method)

    @property
    def trace(self) -> Trace:
        """The times of runs: `trace.start()`, `stop()`, `clear()` and `write(path)`."""
        from edgecore.runtime.tracing import Trace

        return Trace(self._program)

    def write_trace(self, path: Any, values: Any = None) -> None:
        """Wait for all runs, then write the recorded times as an ETDump, as `trace.write` does.

        Args:
            path: Path of the file, usually `NAME.etdp`.
            values: Path for the recorded values of `load(..., debug=...)`: the `debug_buffer_path` of the Inspector.

        Raises:
            ExecutionError: The file was loaded without `trace`, and no trace was started; or `path` cannot be written.
        """
        self.trace.write(path, values)

    def new_session(self) -> Program:
        """Build the methods of the same file once more, with their own mutable buffers (a cache, a counter).

        The sessions share the file, its weights, the backends and their packed data, and the arguments of `load`.
        Several threads may use them at the same time. Options from `set_options` are not copied. Methods that are
        loaded in this program are loaded in the session now; the others at their first use.

        Returns:
            A program with the same methods; its mutable buffers have their initial values.

        Raises:
            ExecutionError: A backend cannot load a delegate once more, or there is not enough memory.

        Example:
            >>> other = program.new_session()
            >>> program.decode(token), other.decode(another_token)  # two conversations
        """
        _read_log_level()
        session, methods = self._program.new_session()
        return Program(session, methods, self._backends)

    def reset(self) -> None:
        """Wait for all runs, then reset all mutable buffers (a cache, a counter) to their initial values.

        Raises:
            ExecutionError: A backend cannot reset the state that it keeps; methods that use it fail until `reset` or
                `import_state` succeeds.
        """
        self._program.reset()

    def export_state(self) -> bytes:
        """Load all methods and wait for all runs, then save all mutable buffers, including those that backends keep.

        Returns:
            Bytes for `import_state`.

        Raises:
            BackendError: As for `load_method`.
            ExecutionError: An earlier run failed in a backend that keeps state, a backend fails now, or a method cannot
                be loaded.
        """
        self._load_all()
        return self._program.export_state()

    def import_state(self, state: Buffer) -> None:
        """Load all methods and wait for all runs, then restore a state that `export_state` returned.

        Args:
            state: Bytes that this program or session exported, or any program whose buffers have the same names, dtypes
                and shapes. The backends that keep the buffers may differ.

        Raises:
            BackendError: As for `load_method`.
            ExecutionError: `state` is damaged or belongs to another program, or a method cannot be loaded; then no
                buffer is changed. Or a backend fails; then methods that use its state fail until `reset` or
                `import_state` succeeds.
        """
        self._load_all()
        self._program.import_state(state)

    def set_options(self, backend: str, options: Mapping[str, Any]) -> None:
        """Load the methods that use a backend and wait for all runs, then set options of the backend for all of them.

        Only options that the backend allows to change after loading can be set.

        Args:
            backend: Name or id of the backend: "xnnpack" or "XnnpackBackend".
            options: Values by option name. All names and types are checked before the first option is set.

        Raises:
            BackendError: The file does not need this backend; or see `load_method`.
            ExecutionError: An option is unknown (the error lists the known options), has a value of another type, or is
                rejected by the backend; or a method cannot be loaded.

        Example:
            >>> program.set_options("xnnpack", {"profile": True})
        """
        backend_id = self._backends.id_of(backend)
        for name, method in self._methods.items():
            if backend_id in method.delegates:
                self.load_method(name)
        self._program.set_options(backend_id, dict(options))

    def _load_all(self) -> None:
        for name in self:
            self.load_method(name)

    def __getitem__(self, name: str) -> Method:
        if name not in self._methods:
            raise KeyError(f"the program has no method {name!r}; it has: {', '.join(self._methods)}")
        return self._methods[name]

    def __getattr__(self, name: str) -> Method:
        methods = self.__dict__.get("_methods", {})
        if name not in methods:
            raise AttributeError(f"the program has no method {name!r}; it has: {', '.join(methods)}")
        method: Method = methods[name]
        self.__dict__[name] = method  # cache the method, so that the next access does not call __getattr__
        return method

    def __repr__(self) -> str:
        shown = [
            f"{name}({', '.join(info.name or info.dtype for info in method.inputs)})"
            for name, method in self._methods.items()
        ]
        return f"<edgecore.Program {', '.join(shown)}>"

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
    load_mode: str = "mmap",
    trace: bool | str = False,
    trace_limit: int = 64 << 20,
    values: bool = False,
    debug: str | None = None,
    debug_limit: int = 256 << 20,
    verify: bool = False,
) -> Program:
    """Load a `.pte` file.

    A single method is loaded now, with the backends that it needs. Of several methods, each is loaded at its first
    call, or by `Program.load_method`, so that an unused method needs neither memory nor backends. Errors of loading a
    method are raised then.

    Only the packages of the needed backends are imported in this process. If such an import hangs, this call hangs:
    `edgecore doctor` finds the package, and if EDGECORE_BACKENDS_DENY names the package, this call raises an error
    instead.

    Args:
        path: The file: a path (by default it is memory-mapped, and must not be truncated while the program is in use),
            its bytes, a binary file object, or the result of `edgecore.compile`, which includes its `.ptd` files. From
            a `.bpte` file, the program inside is loaded.
        data: `.ptd` files with weights that are not in the `.pte`: paths, bytes or binary file objects.
        threads: Number of threads that each method uses, including the calling thread; by default the number of
            performance cores that this process may use, limited by its CPU quota.
        options: Options of backends by backend name or id: `{"xnnpack": {...}}`.
        providers: The package to use for each backend that several packages provide: `{"XnnpackBackend":
            "edgecore-xnnpack"}`.
        trust: Accept delegates without a SHA-256 in the file, for backends that do not validate their blobs.
        share_state: True: all methods share mutable buffers with the same qualified name. False: each method has its
            own buffers. None: as the file was compiled. Methods that share a buffer run one after another.
        limits: Upper bounds for the file, which may be damaged or malicious: flatbuffer_bytes, nesting, tables,
            methods, items (entries of all lists together), rank, tensor_bytes, planned_bytes (per method; by default
            the physical memory), and instructions (per run).
        load_mode: How files that are passed as paths are read, by the names of ExecuTorch's `LoadMode`. "mmap": map
            them. "file": read each part when it is needed, and free data that backends took over; it is an error if the
            file changes in the meantime. "mmap_use_mlock": map them, and lock used parts in memory;
            "mmap_use_mlock_ignore_errors": the same, but map them without a lock if the system refuses it.
            "mmap_use_madvise": map them, and let the system read ahead.
        trace: Record times from loading on, for `Program.trace`: "calls", "operators" (or True) or "threads".
        trace_limit: Bytes of memory for events of 32 bytes, at most 512 MB. When it is full, the oldest events are
            dropped. Each method has an equal part of it, with at least 1,024 events (32 kB).
        values: True to record the values of the operations inside delegates for `Program.take_values`, if the backend
            can report them. Each run then copies these values.
        debug: Values to record in addition to times, for `Program.write_trace(path, values=...)`: "outputs" of runs; or
            "values", which adds the results of all operators and, if the backend reports them, of the operations inside
            delegates. Recording values needs a trace, by default at the level "operators". Each run copies its values.
        debug_limit: Bytes for these values. Runs with equal values share memory. Values that do not fit are dropped,
            and the ETDump records how many.
        verify: Compare weights, blobs and `.ptd` data with the SHA-256 hashes that the compiler wrote into the file.
            This reads all of them, at about 0.2 GB per second.

    Returns:
        The program with all its methods.

    Raises:
        FormatError: The file is not a `.pte` file, or it is damaged.
        BackendError: A backend that the method needs is not installed, broken or disabled; or no method needs a backend
            in `options`.
        ExecutionError: The file cannot run for another reason: no access, a missing kernel, an unknown option, an
            unknown load mode.
        ValueError: `threads` is below 1, `trace` or `debug` is not a level, or a limit is negative.

    Example:
        >>> program = edgecore.load("model.pte", threads=4)
        >>> output = program.forward(torch.randn(1, 3, 224, 224))
    """
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1; got {threads}")
    for name, limit in (("trace_limit", trace_limit), ("debug_limit", debug_limit)):
        if limit < 0:
            raise ValueError(f"{name} must be at least 0; got {limit}")
    debugged = _debug_level(debug) if debug is not None else 0
    if hasattr(path, "data_buffers"):
        path, data = path.buffer, [*path.data_buffers, *_parts(data)]
    _read_log_level()
    program = open_program(_source(path), [_source(part) for part in _parts(data)], dict(limits or {}), load_mode)
    if verify:
        program.check_digests()
    backends = FileBackends(program.backend_ids, options or {}, providers)
    level = _trace_level(trace or debugged > 0)
    methods = program.make_methods(
        threads or 0, trust, share_state, level, trace_limit, values, debugged, debug_limit, backends.prepare
    )
    if len(methods) == 1:
        program.load_method(0)
    return Program(program, methods, backends)


def _is_nested(method: Method) -> bool:
    """Return True if calls must convert containers: if the model takes or returns any besides a single flat list.

    Searches the text of the containers without parsing it: importing `json` takes longer than loading a small file.
    """
    containers = method.output_containers  # JSON text; a dict is stored with its keys as "context": [...]
    has_nested_results = containers.count('"type": "') > 1 or '"context": "[' in containers
    return has_nested_results or any("." in info.name or "[" in info.name for info in method.inputs)


def _debug_level(debug: str) -> int:
    """Convert a level of `load(debug=...)` to the number that the native module takes: 1 "outputs", 2 "values".

    Raises:
        ValueError: There is no such level.
    """
    levels = ("outputs", "values")
    if debug not in levels:
        raise ValueError(f"debug is {' or '.join(levels)}; got {debug!r}")
    return levels.index(debug) + 1


def _trace_level(trace: bool | str) -> int:
    """Convert a level of `load(trace=...)` to the number that the native module takes; -1 for no trace."""
    if not trace:
        return -1
    from edgecore.runtime.tracing import level_number

    return level_number(trace)


def _read_log_level() -> None:
    """Set the native log level to the current level of the logger `edgecore`, if the application uses `logging`."""
    if "logging" in sys.modules or "EDGECORE_LOG" in os.environ:
        from edgecore.runtime.log import native_level

        set_log_level(native_level())


def _parts(data: Any) -> Sequence[Any]:
    """Return `data` as a sequence: the caller may pass a single file instead of a list."""
    return [data] if isinstance(data, (str, os.PathLike, bytes)) or hasattr(data, "read") else data


def _source(file: Any) -> Any:
    """Convert a file to a form that `open_program` takes: a tuple with the path as bytes, or a buffer object."""
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
