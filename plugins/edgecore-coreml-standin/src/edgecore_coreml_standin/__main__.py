"""A process that computes Core ML models with PyTorch, where the delegate cannot call Core ML: on Linux, in tests.

The delegate starts this process if the load option `standin` is set. The process reads requests from standard input and
writes replies to standard output. Both are lists of items, in the format that `native/src/standin.cpp` of
edgecore-coreml defines: a 32-bit count, then for each item a 64-bit size and the item's bytes.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from edgecore.errors import FormatError
from edgecore_coreml.package.blob import COMPILED
from edgecore_coreml.package.compiled import ONLY_CORE_ML
from edgecore_coreml.package.files import SPECIFICATION, WEIGHTS
from edgecore_coreml_standin.interpreter import MilFunction, Values

UNUSED = ("executorch", "libsvm", "scipy", "sklearn", "tensorflow", "torchao", "transformers", "xgboost")
"""Modules that coremltools imports, if they are installed, for converters that this process does not use. They take
four of the five seconds of importing coremltools."""

Items = list[bytes]

_DTYPES = {"float16": np.float16, "float32": np.float32, "int32": np.int32}


class Server:
    """Holds models and sessions by number, and executes the commands of requests, such as "load" and "predict"."""

    def __init__(self) -> None:
        self._models: dict[bytes, tuple[MilFunction, list[str], list[str]]] = {}
        self._choices: dict[bytes, dict[str, list[list[int]]]] = {}
        self._sessions: dict[bytes, tuple[bytes, Values]] = {}
        self._numbers = count()

    def answer(self, command: bytes, arguments: Items) -> Items:
        """Execute the command of a request, and return the items of the reply that follow its first item, "ok"."""
        commands: dict[bytes, Callable[..., Items]] = {
            b"load": self._load,
            b"session": self._session,
            b"predict": self._predict,
            b"read_state": self._read_state,
            b"write_state": self._write_state,
            b"forget": self._forget,
        }
        return commands[command](*arguments)

    def _load(self, folder: bytes, function: bytes, input_count: bytes, *names: bytes) -> Items:
        root = Path(os.fsdecode(folder))
        if (root / COMPILED).is_dir():
            raise FormatError(ONLY_CORE_ML)
        model = MilFunction((root / SPECIFICATION).read_bytes(), (root / WEIGHTS).parent, function.decode())
        texts = [name.decode() for name in names]
        inputs, outputs = texts[: int(input_count)], texts[int(input_count) :]
        number = self._number()
        self._models[number] = model, inputs, outputs
        self._choices[number] = {item.name: shapes for item in model.description.input if (shapes := _shapes(item))}
        described = {item.name: item for item in (*model.description.input, *model.description.output)}
        variables = {var.name: var for var in model.function.outputs}
        features = [_input(described[name]) for name in inputs]
        return [number, *features, *(_output(described[name], variables[name]) for name in outputs)]

    def _session(self, model: bytes) -> Items:
        number = self._number()
        self._sessions[number] = model, self._models[model][0].new_states()
        return [number]

    def _predict(self, session: bytes, *inputs: bytes) -> Items:
        model, states = self._sessions[session]
        function, names, outputs = self._models[model]
        values = {name: _array(*inputs[2 * i : 2 * i + 2]) for i, name in enumerate(names)}
        choices = self._choices[model]
        shapes = tuple(list(values[name].shape) for name in choices)
        if choices and shapes not in zip(*choices.values(), strict=True):
            raise ValueError(f"the shapes of {', '.join(choices)} are not enumerated together")
        with torch.inference_mode():
            results = function(values, states)
        return [item for name in outputs for item in _described(results[name])]

    def _read_state(self, session: bytes, name: bytes) -> Items:
        return [_described(self._sessions[session][1][name.decode()])[1]]

    def _write_state(self, session: bytes, name: bytes, content: bytes) -> Items:
        states, key = self._sessions[session][1], name.decode()
        states[key] = torch.from_numpy(np.frombuffer(content, np.float16).copy()).reshape(states[key].shape)
        return []

    def _forget(self, number: bytes) -> Items:
        self._sessions.pop(number, None)
        self._models.pop(number, None)
        self._choices.pop(number, None)
        return []

    def _number(self) -> bytes:
        return str(next(self._numbers)).encode()


def _type(item: Any) -> str:
    array = item.type.multiArrayType
    return str(array.ArrayDataType.Name(array.dataType)).lower()


def _shapes(item: Any) -> list[list[int]]:
    """Return the shapes that a model's input enumerates (Core ML's `EnumeratedShapes`); [] if it enumerates none."""
    return [list(shape.shape) for shape in item.type.multiArrayType.enumeratedShapes.shapes]


def _input(item: Any) -> bytes:
    """Describe an input as text: its dtype, the least and greatest size of each dim, and its enumerated shapes."""
    array = item.type.multiArrayType
    shapes = _shapes(item)
    ranges = [(size.lowerBound, size.upperBound) for size in array.shapeRange.sizeRanges]
    if shapes:
        ranges = [(min(sizes), max(sizes)) for sizes in zip(*shapes, strict=True)]
    ranges = ranges or [(size, size) for size in array.shape]
    limit = 2**31 - 1  # an upper bound of -1 in Core ML means an unlimited size
    words = [f"{low} {high if high > 0 else limit}" for low, high in ranges]
    words += [" ".join(map(str, ["|", *shape])) for shape in shapes]
    return " ".join([_type(item), "fixed" if all(low == high for low, high in ranges) else "free", *words]).encode()


def _output(item: Any, variable: Any) -> bytes:
    """Describe an output as text: its dtype, and its shape unless the shape depends on the inputs."""
    if not all(isinstance(size, int) for size in variable.shape):
        return f"{_type(item)} free".encode()
    return " ".join([_type(item), "fixed", *(f"{size} {size}" for size in variable.shape)]).encode()


def _array(described: bytes, content: bytes) -> torch.Tensor:
    dtype, *sizes = described.decode().split()
    return torch.from_numpy(np.frombuffer(content, _DTYPES[dtype]).copy()).reshape([int(size) for size in sizes])


def _described(value: torch.Tensor) -> Items:
    array = np.ascontiguousarray(value.numpy())
    return [" ".join(map(str, [array.dtype.name, *value.shape])).encode(), array.tobytes()]


def _read(stream: BinaryIO) -> Items | None:
    """Read the items of one request; return None at the end of the stream."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    (items,) = struct.unpack("<I", head)
    return [stream.read(struct.unpack("<Q", stream.read(8))[0]) for _ in range(items)]


def _write(stream: BinaryIO, items: Sequence[bytes]) -> None:
    stream.write(struct.pack("<I", len(items)))
    for item in items:
        stream.write(struct.pack("<Q", len(item)))
        stream.write(item)
    stream.flush()


def main() -> None:
    """Answer requests until the standard input ends."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # send what libraries print to stderr, because stdout carries the replies
    torch.set_num_threads(1)
    sys.modules.update(dict.fromkeys(UNUSED))  # type: ignore[arg-type]  # None makes the import of the module fail
    server = Server()
    while (request := _read(sys.stdin.buffer)) is not None:
        try:
            _write(replies, [b"ok", *server.answer(request[0], request[1:])])
        except Exception as error:
            _write(replies, [b"error", f"{type(error).__name__}: {error}".encode()])


if __name__ == "__main__":
    main()
