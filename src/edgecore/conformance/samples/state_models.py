"""Models with mutable buffers, for the checks of state: each has two methods that share its buffers.

`Eager` and `edgecore.Program` are sessions of a model with state: each call changes the buffers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import edgecore
from edgecore.conformance.check import BackendUnderTest, Failed
from edgecore.conformance.programs import check_results, eager, outputs
from edgecore.conformance.samples.network_models import Inputs
from edgecore.conformance.workers.process import call, results
from edgecore.errors import EdgecoreError

Emit = Callable[[str, Any], None]
Calls = Sequence[tuple[str, int]]
"""The calls of a session as (method name, step number); the inputs of a call follow from both."""

STEPS: Calls = (("one", 0), ("two", 1), ("one", 2), ("one", 3), ("two", 4), ("one", 5))


@dataclass(frozen=True)
class StateModel:
    """A model with mutable buffers.

    Attributes:
        make: Function that makes the methods `one` and `two`, modules that share their buffers. The function adds its
            argument to the initial values of the buffers.
        inputs: Returns the inputs of a call by method name and step number.
    """

    make: Callable[[float], dict[str, nn.Module]]
    inputs: Callable[[str, int], Inputs]

    def compile(self, backend: edgecore.Backend, offset: float = 0, **settings: Any) -> Any:
        """Compile both methods into one file with shared buffers."""
        methods = {name: module.eval() for name, module in self.make(offset).items()}
        inputs = {name: self.inputs(name, 0) for name in methods}
        return edgecore.compile(methods, inputs, backends=[backend], runtime="edgecore", share_state=True, **settings)


def without_claims(subject: BackendUnderTest) -> edgecore.Backend:
    """Set the backend's option that leaves all mutable buffers to the runtime; return the backend with this option."""
    return edgecore.Backend(subject.name, skip_mutable_buffer=True, **subject.options)


class Eager:
    """A session of a `StateModel` in eager PyTorch: the reference for the results of a compiled program."""

    def __init__(self, model: StateModel, offset: float = 0) -> None:
        self.model = model
        self.methods = model.make(offset)

    def __call__(self, method: str, step: int) -> list[torch.Tensor]:
        """Call a method with the inputs for the call number `step`, and return copies of its results."""
        return [result.clone() for result in eager(self.methods[method], self.model.inputs(method, step))]


def check_calls(
    subject: BackendUnderTest, what: str, remedy: str, session: Any, reference: Eager, calls: Calls = STEPS
) -> None:
    """Call a loaded program and the reference in the same way, and compare the results.

    Args:
        subject: The backend under test.
        what: Description of the calls for error messages.
        remedy: A sentence on how to fix the backend.
        session: The loaded program.
        reference: A session of the same model with the same history.
        calls: The calls.
    """
    for method, step in calls:
        subject.trying(f"{what}, step {step}")
        got = outputs(session[method](*reference.model.inputs(method, step)))
        compare(subject, f"{what}, step {step}", remedy, got, reference(method, step))


def compare(
    subject: BackendUnderTest, what: str, remedy: str, got: Sequence[torch.Tensor], want: Sequence[torch.Tensor]
) -> None:
    """Raise `Failed`, with the text `remedy` in the message, if the results `got` differ from `want`."""
    try:
        check_results(subject, what, got, want)
    except Failed as problem:
        raise Failed(f"{problem}. {remedy}") from None


def two_at_once(subject: BackendUnderTest, what: str, model: StateModel, first: Any, remedy: str) -> None:
    """Run `first` and a new session in two threads at once: each repeats a reset and all calls of `STEPS`."""
    problems: list[BaseException] = []

    def run_session(session: Any) -> None:
        try:
            for _ in range(5 if subject.quick else 20):
                session.reset()
                reference = Eager(model)
                for method, step in STEPS:
                    got = outputs(session[method](*model.inputs(method, step)))
                    compare(subject, f"{what}, two sessions at once, step {step}", remedy, got, reference(method, step))
        except Exception as problem:
            problems.append(problem)

    threads = [
        threading.Thread(target=run_session, args=(session,), daemon=True) for session in (first, first.new_session())
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for problem in problems:
        if isinstance(problem, (Failed, EdgecoreError)):
            raise problem
        raise Failed(f"{what}, in a thread: {type(problem).__name__}: {problem}") from problem


# Sessions in child processes ------------------------------------------------------------------------------------------


def in_child(subject: BackendUnderTest, target: str, program: Any, model: StateModel, calls: Calls, **more: Any) -> Any:
    """In a child process, call a function that makes the calls of a session. Return the function's results.

    The function receives the path `program` of the `.pte`, the load `options`, the `calls`, the path of their `inputs`,
    and the arguments `more`.
    """
    folder = subject.folder
    (folder / "session.pte").write_bytes(program.buffer)
    arrays = {
        f"{method} {step} {index}": tensor.numpy()
        for method, step in calls
        for index, tensor in enumerate(model.inputs(method, step))
    }
    np.savez(folder / "session.npz", **arrays)  # type: ignore[arg-type]  # mypy takes the arrays for `allow_pickle`
    arguments = {
        "program": str(folder / "session.pte"),
        "options": subject.options_of_load,
        "calls": [list(pair) for pair in calls],
        "inputs": str(folder / "session.npz"),
        **more,
    }
    return results(call(target, arguments), subject.trying)


class Stored:
    """Inputs of calls, read from the `.npz` file that `in_child` has written."""

    def __init__(self, path: str) -> None:
        self.arrays: Mapping[str, Any] = dict(np.load(path))

    def __call__(self, session: Any, method: str, step: int) -> list[Any]:
        """Call a method of a loaded program with the stored inputs for call number `step`; return arrays."""
        prefix = f"{method} {step} "
        count = sum(name.startswith(prefix) for name in self.arrays)
        return outputs(session[method](*(self.arrays[f"{prefix}{index}"] for index in range(count))))


def save_results(path: str, rows: Sequence[Sequence[Any]]) -> None:
    """Write the results of calls to an `.npz` file, which `read_results` reads."""
    arrays = {f"{row} {index}": array for row, arrays in enumerate(rows) for index, array in enumerate(arrays)}
    np.savez(path, **arrays)


def read_results(path: Path) -> list[list[torch.Tensor]]:
    """Read the results of each call from the `.npz` file that `save_results` has written."""
    rows: list[list[torch.Tensor]] = []
    with np.load(path) as stored:
        for name in stored.files:
            row = int(name.partition(" ")[0])
            rows += [[] for _ in range(row + 1 - len(rows))]
            rows[row].append(torch.from_numpy(stored[name]))
    return rows


# The models -----------------------------------------------------------------------------------------------------------


class _Total(nn.Module):
    """A model that adds each input to a buffer of the same shape, or multiplies the buffer by each input."""

    def __init__(self, total: torch.Tensor, multiplies: bool) -> None:
        super().__init__()
        self.multiplies = multiplies
        self.total: torch.Tensor
        self.register_buffer("total", total)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Change the buffer `total`, and return a result computed from its new content."""
        if self.multiplies:
            self.total.copy_(self.total * x)
            return self.total + x
        self.total.copy_(self.total + x)
        return self.total * x


class _Rows(nn.Module):
    """A model whose buffer is a matrix. It writes rows of the matrix at the positions that an input gives."""

    def __init__(self, rows: torch.Tensor) -> None:
        super().__init__()
        self.rows: torch.Tensor
        self.register_buffer("rows", rows)

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Write `x` into the rows at the positions `at`, and return the squares of the whole matrix."""
        self.rows[at] = x
        return self.rows * self.rows


class _Keys(nn.Module):
    """A model that writes keys and values into caches [1, heads, positions, channels], and attends to all positions."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.keys: torch.Tensor
        self.values: torch.Tensor
        self.register_buffer("keys", keys)
        self.register_buffer("values", values)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Write keys and values at the positions `at`, and return the attention of `q` to both caches."""
        self.keys[:, :, at] = k
        self.values[:, :, at] = v
        return torch.nn.functional.scaled_dot_product_attention(q, self.keys, self.values)


def _make_totals(offset: float) -> dict[str, nn.Module]:
    total = torch.linspace(-1, 1, 24).reshape(3, 8) + offset
    return {"one": _Total(total, False), "two": _Total(total, True)}


def _make_rows(offset: float) -> dict[str, nn.Module]:
    rows = torch.linspace(-2, 2, 48).reshape(8, 6) + offset
    return {"one": _Rows(rows), "two": _Rows(rows)}


def _make_keys(offset: float) -> dict[str, nn.Module]:
    keys, values = (_random(1, 2, 8, 4, seed=seed) + offset for seed in (1, 2))
    return {"one": _Keys(keys, values), "two": _Keys(keys, values)}


def _total_inputs(method: str, step: int) -> Inputs:
    return (_random(3, 8, seed=step) / 4 + 1,)


def _row_inputs(method: str, step: int) -> Inputs:
    count = 3 if method == "one" else 2
    return _random(count, 6, seed=step), (torch.arange(count) * 3 + step) % 8


def _key_inputs(method: str, step: int) -> Inputs:
    count = 3 if method == "one" else 2
    tensors = (_random(1, 2, count, 4, seed=10 * step + index) for index in range(3))
    return *tensors, (torch.arange(count) + step) % 8


def _random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


STATE_MODELS = {
    "a running total": StateModel(_make_totals, _total_inputs),
    "rows of a matrix": StateModel(_make_rows, _row_inputs),
    "a cache of keys and values": StateModel(_make_keys, _key_inputs),
}
