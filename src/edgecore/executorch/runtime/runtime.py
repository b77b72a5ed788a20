"""ExecuTorch's Python runtime: `Runtime`, and its programs, methods and registries.

`edgecore.load` does the same in one call, without torch. These classes return torch tensors, as in ExecuTorch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, TypeVar

from edgecore import format as fmt
from edgecore import runtime
from edgecore._runtime import Method as NativeMethod
from edgecore._runtime import kernels, open_program
from edgecore.errors import BackendError
from edgecore.plugin import registry
from edgecore.runtime.nesting import leaves
from edgecore.stability import warn_no_effect

Item = TypeVar("Item")


class Verification(IntEnum):
    """The level at which a file is verified before use. edgecore verifies the whole file at each level."""

    Minimal = 0
    InternalConsistency = 1


class Runtime:
    """The entry to the runtime; `Runtime.get()` returns it.

    Example:
        >>> program = Runtime.get().load_program("model.pte")
        >>> outputs = program.load_method("forward").execute([torch.randn(1, 8)])
    """

    _only: Runtime | None = None

    @classmethod
    def get(cls) -> Runtime:
        """Return the runtime, the same object each time."""
        if Runtime._only is None:
            Runtime._only = cls()
        return Runtime._only

    @property
    def operator_registry(self) -> OperatorRegistry:
        """The operators that have kernels."""
        return OperatorRegistry()

    @property
    def backend_registry(self) -> BackendRegistry:
        """The installed backends."""
        return BackendRegistry()

    def load_program(
        self,
        data: Any,
        *,
        verification: Verification = Verification.InternalConsistency,
        enable_etdump: bool = False,
        debug_buffer_size: int = 0,
        data_path: Any = None,
    ) -> Program:
        """Open and verify a file. `load_method` loads a method and its backends.

        Args:
            data: The `.pte`: a path, bytes or a binary file object.
            verification: `Minimal` has no effect.
            enable_etdump: Record the times of runs for `Program.write_etdump_result_to_file`.
            debug_buffer_size: Bytes for the values of outputs and operators in that dump; 0 for none. Without
                `enable_etdump` it has no effect.
            data_path: A `.ptd` file with weights that are not in the `.pte`.

        Raises:
            FormatError: The file is not a `.pte` file, or it is damaged.
            ExecutionError: The file cannot be read.
            ValueError: `debug_buffer_size` is negative.
        """
        if verification != Verification.InternalConsistency:
            warn_no_effect("Verification.Minimal", "a file is always verified, since it may be damaged")
        if debug_buffer_size < 0:
            raise ValueError(f"debug_buffer_size must be at least 0; got {debug_buffer_size}")
        if debug_buffer_size and not enable_etdump:
            warn_no_effect("load_program(debug_buffer_size=...)", "values belong to a dump; pass enable_etdump=True")
        return Program(data, [] if data_path is None else [data_path], enable_etdump, debug_buffer_size)


class Program:
    """A file that `Runtime.load_program` has opened."""

    def __init__(self, file: Any, data: Sequence[Any], trace: bool, debug_bytes: int) -> None:
        self._file = file.read() if hasattr(file, "read") else file
        self._data = data
        self._options: dict[str, Any] = {"trace": trace}
        if trace and debug_bytes:
            self._options |= {"debug": "values", "debug_limit": debug_bytes}
        self._methods: dict[str, Method] = {}
        sources = [runtime._source(part) for part in data]
        # checks the file: raises an error if it is damaged
        open_program(runtime._source(self._file), sources, {}, "mmap")

    @property
    def method_names(self) -> set[str]:
        """Names of all methods."""
        return set(self._plans)

    def load_method(self, name: str) -> Method:
        """Return a method, ready to run. The first call for a method loads its backends and builds it.

        Raises:
            KeyError: The program has no method of that name.
            BackendError: A backend that the method needs is not installed, broken or disabled.
            ExecutionError: The method cannot run for another reason, such as a missing kernel.
        """
        if name not in self._methods:
            metadata = self.metadata(name)
            self._methods[name] = Method(self._loaded.load_method(name), metadata)
        return self._methods[name]

    def metadata(self, method_name: str) -> MethodMeta:
        """Return the description of a method, without loading it.

        Raises:
            KeyError: The program has no method of that name.
        """
        if method_name not in self._plans:
            raise KeyError(f"the program has no method {method_name!r}; it has: {', '.join(self._plans)}")
        return MethodMeta(self._plans[method_name])

    def write_etdump_result_to_file(self, etdump_path: str, debug_buffer_path: str | None = None) -> None:
        """Write the recorded times, and the recorded values if a path is given for them.

        Raises:
            ExecutionError: The program was loaded without `enable_etdump`, or a file cannot be written.
        """
        self._loaded.write_trace(etdump_path, debug_buffer_path)

    @cached_property
    def _loaded(self) -> runtime.Program:
        return runtime.load(self._file, self._data, **self._options)

    @cached_property
    def _plans(self) -> dict[str, fmt.ExecutionPlan]:
        content = self._file
        if isinstance(content, (str, os.PathLike)):
            with Path(content).open("rb") as file:
                content = mmap(file.fileno(), 0, access=ACCESS_READ)  # avoids reading the weights
        return {plan.name: plan for plan in fmt.read_pte(fmt.embedded_pte(content)).program.execution_plan}


class Method:
    """A method that `Program.load_method` has loaded."""

    def __init__(self, method: NativeMethod, metadata: MethodMeta) -> None:
        self._method = method
        self._metadata = metadata

    @property
    def metadata(self) -> MethodMeta:
        """The description of the method's inputs, outputs and mutable buffers."""
        return self._metadata

    def execute(self, inputs: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> list[Any]:
        """Run the method.

        Args:
            inputs: The inputs in order: either flat, one for each input of the file; or as `forward` was called, with
                nested lists, tuples and dictionaries.
            kwargs: More arguments by the names of `forward`'s parameters.

        Returns:
            All outputs, in the order of the method's signature: torch tensors and numbers.

        Raises:
            ExecutionError: The model was exported with other arguments, an input does not fit, or a
                kernel or a backend failed.
            TypeError: `inputs` is neither a list nor a tuple.
        """
        if not isinstance(inputs, (list, tuple)):
            raise TypeError(f"execute takes a list of inputs, not {type(inputs).__name__}; write execute([x])")
        return [_torch_tensor(output) for output in leaves(self._method(*inputs, **(kwargs or {})))]


class MethodMeta:
    """The description of a method in a file."""

    def __init__(self, plan: fmt.ExecutionPlan) -> None:
        self._plan = plan
        self._attributes = [
            value.val
            for value in plan.values
            if isinstance(value.val, fmt.Tensor)
            and value.val.allocation_info is not None
            and value.val.extra_tensor_info is not None
            and value.val.extra_tensor_info.fully_qualified_name
        ]

    def name(self) -> str:
        """Return the name of the method."""
        return self._plan.name

    def num_inputs(self) -> int:
        """Return the number of inputs."""
        return len(self._plan.inputs)

    def num_outputs(self) -> int:
        """Return the number of outputs."""
        return len(self._plan.outputs)

    def num_attributes(self) -> int:
        """Return the number of mutable buffers."""
        return len(self._attributes)

    def input_tensor_meta(self, index: int) -> TensorMeta:
        """Return the description of an input.

        Raises:
            IndexError: There is no such input.
            TypeError: The input is not a tensor.
        """
        return self._tensor(self._plan.inputs, index, "input")

    def output_tensor_meta(self, index: int) -> TensorMeta:
        """Return the description of an output; raises the same errors as `input_tensor_meta`."""
        return self._tensor(self._plan.outputs, index, "output")

    def attribute_tensor_meta(self, index: int) -> TensorMeta:
        """Return the description of a mutable buffer."""
        return TensorMeta(_item(self._attributes, index, "mutable buffer"))

    def num_memory_planned_buffers(self) -> int:
        """Return the number of arenas."""
        return len(self._plan.non_const_buffer_sizes[1:])

    def memory_planned_buffer_size(self, index: int) -> int:
        """Return the size of an arena in bytes; the first has the index 0."""
        return _item(self._plan.non_const_buffer_sizes[1:], index, "arena")

    def backend_names(self) -> list[str]:
        """Return the ids of the backends that the method calls, each once."""
        return list(dict.fromkeys(delegate.id for delegate in self._plan.delegates))

    def __repr__(self) -> str:
        return f"MethodMeta({self.name()!r}, {self.num_inputs()} inputs, {self.num_outputs()} outputs)"

    def _tensor(self, places: Sequence[int], index: int, what: str) -> TensorMeta:
        value = self._plan.values[_item(places, index, what)].val
        if not isinstance(value, fmt.Tensor):
            raise TypeError(f"{what} {index} of method {self.name()!r} is no tensor but {type(value).__name__.lower()}")
        return TensorMeta(value)


def _item(items: Sequence[Item], index: int, what: str) -> Item:
    if not 0 <= index < len(items):
        raise IndexError(f"there is no {what} {index}; the method has {len(items)}")
    return items[index]


class TensorMeta:
    """The description of a tensor in a file."""

    def __init__(self, tensor: fmt.Tensor) -> None:
        self._tensor = tensor

    def sizes(self) -> tuple[int, ...]:
        """Return the maximum size of each dim."""
        return tuple(self._tensor.sizes)

    def dtype(self) -> int:
        """Return the number of the dtype in PyTorch's `ScalarType`: 6 is float32."""
        return int(self._tensor.scalar_type)

    def is_memory_planned(self) -> bool:
        """Return True if the tensor lies in an arena of the method."""
        return self._tensor.allocation_info is not None

    def nbytes(self) -> int:
        """Return the size in bytes at the maximum shape."""
        return self._tensor.nbytes

    def __repr__(self) -> str:
        return f"TensorInfo(sizes={self.sizes()}, dtype={self._tensor.scalar_type.name}, nbytes={self.nbytes()})"


class OperatorRegistry:
    """The operators that the runtime has kernels for."""

    @property
    def operator_names(self) -> set[str]:
        """Names with overloads, such as `aten::add.out`."""
        return {f"{name}.{overload}" if overload else name for name, overload in kernels()}


class BackendRegistry:
    """The installed backends."""

    @property
    def registered_backend_names(self) -> list[str]:
        """The ids of installed backends that no environment variable excludes. This does not import their packages."""
        providers = (provider for provider in registry.providers_here() if not registry.excluded_by(provider))
        return sorted({provider.name for provider in providers})

    def is_available(self, backend_name: str) -> bool:
        """Return True if the backend is installed, and its package can be imported and has a library to run files."""
        try:
            return registry.find(backend_name).native_library is not None
        except BackendError:
            return False


def _torch_tensor(value: Any) -> Any:
    """Return a tensor of the runtime or of numpy as a torch tensor, and other values as they are."""
    if not hasattr(value, "__dlpack__"):
        return value
    import torch.utils.dlpack

    return value if isinstance(value, torch.Tensor) else torch.utils.dlpack.from_dlpack(value)
