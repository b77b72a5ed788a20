from collections.abc import Callable, Generator
from typing import Any

from typing_extensions import Buffer

class Tensor:
    """A dense tensor that a method returned, in CPU memory of its own.

    Take its elements through the buffer protocol (`memoryview(tensor)`, `numpy.asarray(tensor)`), through DLPack
    (`torch.from_dlpack(tensor)`), or as Python numbers with `tolist`.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of all dims, in elements; `()` for a scalar."""

    @property
    def dtype(self) -> str:
        """Name of the element type, such as "float32", "int64" or "bool"."""

    def tolist(self) -> Any:
        """Convert the elements to nested lists of Python numbers.

        Returns:
            One level of lists for each dim, and numbers inside: int, float, bool or complex. A tensor without dims
            gives the number alone.

        Raises:
            TypeError: Elements of this dtype have no Python equivalent (quantized types).
        """

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the tensor as a DLPack capsule, without a copy.

        Args:
            stream: Ignored: the memory is on the CPU.
            max_version: The newest DLPack version (major, minor) that the consumer reads. From (1, 0) on the capsule is
                versioned.
            dl_device: None, or (1, 0), which is the CPU.
            copy: None or False.

        Returns:
            A capsule named "dltensor_versioned" or "dltensor". It keeps the memory alive.

        Raises:
            BufferError: `dl_device` is another device, or `copy` is true.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """Name the tensor's device for DLPack.

        Returns:
            (1, 0): the CPU.
        """

class DimInfo:
    """One dim of an input or output tensor."""

    @property
    def name(self) -> str:
        """Name of the symbolic size, such as "batch" or "8*s0"; empty if the size is fixed or the file does not say."""

    @property
    def min(self) -> int:
        """Minimum size of the dim, in elements."""

    @property
    def max(self) -> int:
        """Maximum size of the dim, in elements."""

class TensorInfo:
    """Description of one input or output of a method, as the file declares it.

    If the input or output is a number, a string or None, `is_tensor` is false, and `shape`, `dims` and `dim_order` are
    empty.
    """

    @property
    def name(self) -> str:
        """Name such as "x" or "past[0].key"; empty if another toolchain wrote the file."""

    @property
    def dims(self) -> tuple[DimInfo, ...]:
        """The dims of the tensor, outermost first."""

    @property
    def dtype(self) -> str:
        """Name of the element type, such as "float32"; "int", "float", "bool", "str" or "none" for other values."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Maximum size of each dim, in elements."""

    @property
    def dim_order(self) -> tuple[int, ...]:
        """Dims from the outermost to the innermost in memory; (0, 2, 3, 1) is channels last."""

    @property
    def is_tensor(self) -> bool:
        """True for a tensor, false for a number, a string or None."""

    @property
    def dynamic(self) -> bool:
        """True if a run may have smaller sizes than `shape`."""

    @property
    def planned(self) -> bool:
        """True if the tensor is in the method's planned memory; an input is then copied there before each run."""

class Run:
    """A run that `Method.start` has started. `await run` returns its results, like `wait`.

    The device works without the caller. The steps of the method after that work, on the CPU or on another device, run
    inside `done`, `wait` or the next call of the method. If the object is deleted, the results are lost.
    """

    def done(self) -> bool:
        """Advance the run without blocking.

        Returns:
            True once the run has finished, with results or with an error.
        """

    def wait(self) -> Any:
        """Wait until the run has finished.

        Returns:
            The results that calling the method would have returned; the same objects each time.

        Raises:
            ExecutionError: The run failed.
        """

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the run in a thread of asyncio, so that other tasks continue.

        Returns:
            An iterator for `await`, whose value is that of `wait`.
        """

class Method:
    """A method of a loaded program. Call it to run it:
    `outputs = method(*inputs, out=None, **named_inputs)`.

    Args:
        *inputs: The values of the first inputs: for a tensor a numpy array, a torch tensor, or an object with the
            buffer protocol or DLPack, in CPU memory, of the declared dtype and of a shape within the declared sizes; a
            Python number for a number. Tensors may have any strides: a tensor that is not contiguous in the expected
            dim order is copied. Instead of flat inputs, the arguments of the model's `forward` may be given, with
            their lists, tuples, dicts and dataclasses.
        **named_inputs: The values of the other inputs, by name (`TensorInfo.name` of the entries of `inputs`); of
            nested arguments by the name of the parameter.
        out: A sequence with a writable buffer for each output: contiguous, with the output's dtype and its shape for
            these inputs. For a method with one output also the buffer itself. The call writes the results there and
            returns these objects.

    Returns:
        The output itself if there is one, a list if there are several; if the model returns a dict or nested
        containers, these. Tensors are numpy arrays if the first tensor input is a numpy array, torch tensors if it is a
        torch tensor, and `edgecore.Tensor` otherwise. They belong to the caller: later runs do not change them.

    Raises:
        ExecutionError: An input does not fit (the error names the input and the expected value), or a kernel or a
            backend failed.

    Calls of one method from several threads run one after the other; the GIL is released meanwhile.

    Example:
        >>> forward = edgecore.load("model.pte").forward
        >>> forward
        <edgecore.Method forward(x: float32 [batch: 1..8, 16]) -> logits: float32 [batch: 1..8, 10]>
        >>> logits = forward(numpy.zeros((4, 16), "float32"))
        >>> logits = forward(x=numpy.ones((4, 16), "float32"), out=logits)
    """

    def __call__(self, *inputs: Any, out: Any = None, **named_inputs: Any) -> Any: ...
    def start(self, *inputs: Any, **named_inputs: Any) -> Run:
        """Start a run, and return while a device works on it.

        A tensor that a backend may still read later is copied, so the caller may change it at once. A run that uses no
        device has finished when `start` returns. The next call or start of this method, or of a method that shares
        state with it, first waits for the run. A program that writes to an input can only be called, not started.

        Args:
            *inputs: The values of the first inputs, as in a call.
            **named_inputs: The values of the other inputs, by name.

        Returns:
            The run, to `wait` for or to `await`.

        Raises:
            ExecutionError: An input does not fit. The `Run` raises later failures.
        """

    @property
    def name(self) -> str:
        """Name of the method in the file, such as "forward"."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Descriptions of all inputs, in the order of the positional arguments."""

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Descriptions of all outputs, in the order of the results."""

    @property
    def input_containers(self) -> str:
        """The positional and named arguments, with the tuples, lists and dicts around the inputs, as JSON of torch's
        pytree; empty if the file does not say.
        """

    @property
    def output_containers(self) -> str:
        """The tuples, lists and dicts around the outputs, as JSON of torch's pytree; empty if the file does not say."""

    def set_nesting(
        self,
        flatten: Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, ...] | None] | None,
        unflatten: Callable[[list[Any]], Any] | None,
    ) -> None:
        """Let the method take nested arguments and return nested results.

        Args:
            flatten: A function from a tuple of the first arguments and a dict of named ones to the tuple of all inputs,
                or to None if the arguments are flat inputs; None if no argument is nested.
            unflatten: A function from the list of outputs to the results; None if these are one output or a list.
        """

    @property
    def delegates(self) -> tuple[str, ...]:
        """Backend ids of all delegates of the method, such as "XnnpackBackend"; one entry for each delegate."""

    @property
    def planned_bytes(self) -> int:
        """Bytes of planned memory: the arenas that hold intermediate tensors."""

    @property
    def delegate_bytes(self) -> int:
        """Bytes of memory that the delegates have asked for until now."""

    @property
    def staging_bytes(self) -> int:
        """Bytes of memory for copies of delegates' arguments that did not meet a buffer requirement, until now."""

class Program:
    """A verified file; the native part of `edgecore.Program`.

    Call `open_program`, `make_methods`, then the others. A method is loaded by `load_method`, or when it is first used.
    """

    @property
    def backend_ids(self) -> list[str]:
        """Ids of the backends that the file's delegates need, each once."""

    @property
    def target_runtime(self) -> str:
        """Runtime that the file was compiled for: "executorch-1.5" or "edgecore"; empty if it is not known."""

    def check_digests(self) -> None:
        """Compare weights, blobs and `.ptd` data with the SHA-256 hashes in the file.

        Raises:
            FormatError: Data in the file have changed; the error names them.
            ExecutionError: Data of a `.ptd` file have changed, or the file has no hashes.
        """

    def load_backend(self, path: bytes, backend_id: str, options: dict[str, Any]) -> None:
        """Load the library of a backend and open the backend for this file.

        Args:
            path: Absolute path of the library, in the encoding of the file system.
            backend_id: Id that the library must have, such as "XnnpackBackend".
            options: Values by option name: bool, int, float, str, bytes, or a list or dict that is passed as JSON.

        Raises:
            ExecutionError: The library cannot be opened, is no backend, was built for another version of the native
                interface, has another id, or refuses an option.
        """

    def missing_backends(self, method: int) -> list[str]:
        """List the backends that a method needs and that were not loaded yet.

        Args:
            method: Index of the method in the file.

        Returns:
            Ids such as "XnnpackBackend".
        """

    def missing_operators(self, method: int) -> list[str]:
        """List the operators that a method calls and that have no kernel yet.

        Args:
            method: Index of the method in the file.

        Returns:
            Names such as "acme::blur.out".
        """

    def load_kernels(self, path: bytes) -> None:
        """Load a library of kernels for this file.

        Args:
            path: Absolute path of the library, in the encoding of the file system.

        Raises:
            ExecutionError: The library cannot be opened, has no kernels, or was built for another version of the native
                interface.
        """

    def operators(self, method: int) -> list[str]:
        """List the operators that a method calls outside of delegates.

        Args:
            method: Index of the method in the file.

        Returns:
            Names such as "aten::add.out".
        """

    def replace_kernel(self, path: bytes, operator: str) -> None:
        """Let the kernel of one operator in a library come before all others, in methods that are loaded later.

        It runs if it supports the dtypes of all tensors of a call; otherwise, and where it returns NOT_SUPPORTED, the
        kernel that was there runs.

        Args:
            path: Absolute path of the library, in the encoding of the file system.
            operator: Name such as "aten::add.out".

        Raises:
            ExecutionError: The library cannot be opened, has no kernel of the operator, or was built for another
                version of the native interface.
        """

    def make_methods(
        self,
        threads: int,
        trust: bool,
        share_state: bool | None,
        trace: int,
        trace_limit: int,
        values: bool,
        debug: int = 0,
        debug_limit: int = ...,
        prepare: Callable[[Program, int], None] | None = None,
    ) -> list[Method]:
        """Make the methods of the file, without loading them.

        Args:
            threads: Number of threads of each method, the calling thread included; 0: the number of performance cores.
            trust: Accept delegates without a SHA-256 in the file for backends that do not validate their blobs.
            share_state: True: mutable buffers of equal name are shared by all methods. False: each method has its own.
                None: as the file says.
            trace: Level of the trace that starts with loading, 0 (calls), 1 (operators) or 2 (threads); -1: no trace.
            trace_limit: Bytes for the events of traces.
            values: Record the values of operations inside delegates for `take_values`.
            debug: Values that the trace holds: 0 (none), 1 (outputs of runs) or 2 (of all instructions and operations).
            debug_limit: Bytes for these values.
            prepare: A function that is called with the program and the index of a method before the method is loaded,
                to load the backends and kernels that the method lacks; None: they are there.

        Returns:
            The methods, in the order of the file.
        """

    def load_method(self, method: int) -> None:
        """Load a method now, if it is not loaded.

        Args:
            method: Index of the method in the file.

        Raises:
            ExecutionError: An operator or a backend is missing, a delegate cannot be loaded, or memory does not
                suffice; and what `prepare` raises.
        """

    def is_method_loaded(self, method: int) -> bool:
        """Return True if the method is loaded.

        Args:
            method: Index of the method in the file.

        Returns:
            False before `load_method` and the first use.
        """

    def new_session(self) -> tuple[Program, list[Method]]:
        """Make the methods once more, with state of their own, and load those that are loaded here. May be called while
        methods run.

        Returns:
            The session, which shares the file, the weights and the backends, and its methods, in the order of the file.

        Raises:
            ExecutionError: A delegate cannot be loaded, or memory does not suffice.
        """

    def set_options(self, backend_id: str, options: dict[str, Any]) -> None:
        """Set options of a backend that may change after loading, for all methods. Waits until no method is running.

        Args:
            backend_id: Id of a loaded backend.
            options: Values by option name, as in `load_backend`.

        Raises:
            ExecutionError: The backend is not loaded, an option is unknown or of another type, or the backend refuses
            it.
        """

    def reset(self) -> None:
        """Give all mutable buffers their initial values. Waits until no method is running.

        Raises:
            ExecutionError: A backend cannot reset its state; methods that use it fail until `reset` or `import_state`
                succeeds.
        """

    def export_state(self) -> bytes:
        """Save all mutable buffers and the state of backends. Waits until no method is running.

        Returns:
            Bytes for `import_state`.

        Raises:
            ExecutionError: A run has failed in a backend that keeps state, or a backend fails.
        """

    def import_state(self, state: Buffer) -> None:
        """Restore a state that `export_state` returned. Waits until no method is running.

        Args:
            state: An object with the buffer protocol.

        Raises:
            ExecutionError: `state` is damaged or of another program; nothing is changed then. Or a backend fails; then
                methods that use its state fail until `reset` or `import_state` succeeds.
        """

    @property
    def metadata(self) -> bytes | None:
        """The file's named data `edgecore.meta.v1`; None if it has none."""

    def take_values(
        self, method: int, dim_orders: dict[tuple[int, str | int], tuple[int, ...]]
    ) -> list[tuple[int, str, int, Tensor]]:
        """Return the values that a method's delegates have computed since the last call. Waits until it is not running.

        Args:
            method: Index of the method in the file.
            dim_orders: Dims from the outermost to the innermost in memory, for operations whose values have another
                order than the graph's: (index of the delegate, name or id of the operation) -> tuple of dims.

        Returns:
            Tuples (index of the delegate, name of the operation, its id, `Tensor`), oldest first; none if the methods
            were loaded without `values`.

        Raises:
            ValueError: A dim order is no permutation.
        """

    def start_trace(self, level: int) -> None:
        """Wait for all runs, then record the times of further runs.

        Args:
            level: 0 (calls), 1 (operators) or 2 (threads).

        Raises:
            ValueError: There is no such level.
        """

    def stop_trace(self) -> None:
        """Wait for all runs, then record no further times."""

    def clear_trace(self) -> None:
        """Wait for all runs, then forget the recorded times."""

    @property
    def trace_info(self) -> tuple[int, int, int, int]:
        """Level of the running trace or -1, number of recorded events, number of dropped ones, bytes in use."""

    def write_trace(self, path: bytes, values: bytes | None = None) -> None:
        """Wait for all runs, then write the recorded times as an ETDump file.

        Args:
            path: Path of the file, in the encoding of the file system.
            values: Path for the bytes of recorded values, the debug buffer; None: they are not written.

        Raises:
            ExecutionError: Nothing was ever traced, or the file cannot be written.
        """

def open_program(
    file: Buffer | tuple[bytes], data: list[Buffer | tuple[bytes]], limits: dict[str, int], load_mode: str
) -> Program:
    """Open and verify a `.pte` file, or the program in a `.bpte` file.

    Args:
        file: A tuple with the path as bytes, or an object with the buffer protocol, which is copied.
        data: `.ptd` files in the same form.
        limits: Values of limits by name, for those that differ from the default.
        load_mode: How files at paths become memory: "mmap", "file" and so on; see `edgecore.load`.

    Returns:
        The program; its methods are not loaded yet.

    Raises:
        FormatError: The file is no `.pte`, or it is damaged.
        ExecutionError: A file cannot be read, or its version is not supported.
        KeyError: A limit has an unknown name.
    """

def set_log_level(level: int) -> None:
    """Set the level below which messages are dropped before they reach Python.

    Args:
        level: 0 (debug) to 3 (error), or 4 (off).
    """

def kernels(path: bytes | None = None) -> list[tuple[str, str]]:
    """List the operators that the runtime, or a library of kernels, has kernels for.

    Args:
        path: None for the runtime itself, or the absolute path of a library, in the encoding of the file system.

    Returns:
        Pairs of operator name and overload: ("aten::add", "out").

    Raises:
        ExecutionError: The library cannot be opened, has no kernels, or was built for another version of the native
            interface.
    """
