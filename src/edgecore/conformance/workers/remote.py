"""Programs that an external command runs instead of the runtime in this process; see `runner.py`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgecore.conformance.check import BackendUnderTest, Skipped
from edgecore.conformance.workers.runner import Died, end_text
from edgecore.errors import ErrorCode, ExecutionError


class LoadFailed(ExecutionError):
    """The external command cannot load the file, or cannot load it with these options on its processor."""


_OUTCOME = re.compile(r"^call (\d+): (ok|failed: .*)$", re.M)


class RemoteProgram:
    """A loaded program as the checks use it: a subset of `edgecore.Program`. The first call loads the file.

    Each call starts the command anew. The new process repeats all earlier calls first, which restores the state.
    """

    def __init__(
        self,
        subject: BackendUnderTest,
        file: bytes,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        threads: int = 0,
        trust: bool = True,
        share_state: bool | None = None,
        trace: bool = False,
        data: Sequence[bytes] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._process = _Process(subject, environment)
        folder = self._process.folder
        (folder / "program.pte").write_bytes(file)
        arguments = ["program.pte", "--calls", "calls.txt", "--output-dir", "."]
        for index, content in enumerate(data):
            (folder / f"data_{index}.ptd").write_bytes(content)
            arguments += ["--data", f"data_{index}.ptd"]
        for backend, values in (options or {}).items():
            for name, value in values.items():
                arguments += ["--option", f"{backend}:{name}={_text(value)}"]
        arguments += ["--threads", str(threads)] if threads else []
        arguments += ["--trust"] if trust else []
        arguments += ["--separate-state"] if share_state is False else []
        arguments += ["--trace", "run.etdp"] if trace else []
        self._process.arguments = arguments
        self._session = 0

    @property
    def forward(self) -> partial[list[torch.Tensor]]:
        """The method `forward`."""
        return self["forward"]

    def __getitem__(self, method: str) -> partial[list[torch.Tensor]]:
        return partial(self._call, method)

    def _call(self, method: str, *inputs: Any) -> list[torch.Tensor]:
        return self.call_each(method, [inputs])[0]

    def call_each(self, method: str, calls: Sequence[Sequence[Any]]) -> list[list[torch.Tensor]]:
        """Call a method several times; return the outputs of each call.

        Raises:
            LoadFailed: The file does not load.
            ExecutionError: A call fails.
        """
        numbers = [
            self._process.add(self._session, " ".join(["call", method, *map(self._process.save, inputs)]))
            for inputs in calls
        ]
        self._process.run()
        return [self._process.outputs(number) for number in numbers]

    def new_session(self) -> RemoteProgram:
        """Return a session of the same program with separate state; one process runs all sessions."""
        other = object.__new__(RemoteProgram)
        other._process, other._session = self._process, self._process.new_session()
        return other

    def reset(self) -> None:
        """Restore the initial state."""
        self._do("reset")

    def export_state(self) -> bytes:
        """Return the state."""
        name = f"state_{len(self._process.lines)}"
        self._do(f"export {name}")
        return self._process.read(name)

    def import_state(self, state: bytes) -> None:
        """Restore a state."""
        name = f"state_{len(self._process.lines)}"
        (self._process.folder / name).write_bytes(state)
        self._do(f"import {name}")

    def write_trace(self, path: Path) -> None:
        """Write the trace of all calls to a file; only for a program that was made with `trace=True`."""
        path.write_bytes(self._process.read("run.etdp"))

    def _do(self, line: str) -> None:
        number = self._process.add(self._session, line)
        self._process.run()
        self._process.expect(number)


class _Process:
    """The external process of a program and its sessions: the calls to make, the files, and the calls' outcomes."""

    def __init__(self, subject: BackendUnderTest, environment: Mapping[str, str] | None) -> None:
        assert subject.runner is not None
        self.subject = subject
        self.runner = subject.runner
        self.environment = environment
        self.arguments: list[str] = []
        self.lines: list[str] = []
        self._temporary = tempfile.TemporaryDirectory(dir=subject.folder)
        self.folder = Path(self._temporary.name)
        self._sessions, self._current = 1, 0
        self._inputs = 0
        self._outcomes: list[str] = []

    def add(self, session: int, line: str) -> int:
        """Append a line with an action for one session of the program to `calls.txt`; return the line's index."""
        if session != self._current:
            self.lines.append(f"session {session}")
            self._current = session
        self.lines.append(line)
        return len(self.lines) - 1

    def new_session(self) -> int:
        """Add a session of the program, and return its number."""
        self._current = self._sessions
        self._sessions += 1
        self.lines.append(f"session {self._current}")
        return self._current

    def save(self, value: Any) -> str:
        """Write an input tensor to an `.npy` file, and return the name of the file."""
        tensor = torch.as_tensor(value).detach().contiguous()
        array = tensor.view(torch.int16).numpy().view("V2") if tensor.dtype == torch.bfloat16 else tensor.numpy()
        name = f"input_{self._inputs}.npy"
        self._inputs += 1
        np.save(self.folder / name, array)
        return name

    def run(self) -> None:
        """Start the command, which makes all calls of `calls.txt` in a new process.

        Raises:
            LoadFailed: The file does not load.
            Died: The command crashes or hangs, is not edgecore-run, or a repeated call has another outcome than before.
        """
        # Delete the outputs of earlier processes, so that they cannot be mistaken for results of this process.
        for path in [*self.folder.glob("call_*_output_*.npy"), self.folder / "run.etdp"]:
            path.unlink(missing_ok=True)
        (self.folder / "calls.txt").write_text("".join(f"{line}\n" for line in self.lines))
        self.subject.trying(self.subject.last_input)  # emit the current input again, which restarts the time limit
        seconds = 0.9 * self.subject.limit
        done = self.runner.run(str(self.folder), self.arguments, seconds, self.environment)
        outcomes = _OUTCOME.findall(done.out)
        status = int(any(text != "ok" for _, text in outcomes))
        if [int(number) for number, _ in outcomes] != list(range(len(self.lines))) or done.status != status:
            _, own, sentence = done.err.rpartition("edgecore-run: ")
            if own and done.status == 1 and not outcomes:
                raise LoadFailed(sentence.strip(), ErrorCode.INTERNAL)
            raise Died(f"{self.runner} made {len(outcomes)} of {len(self.lines)} calls and ended with {end_text(done)}")
        texts = [text for _, text in outcomes]
        for line, now, before in zip(self.lines, texts, self._outcomes, strict=False):
            if (now == "ok") != (before == "ok"):
                raise Died(f"{self.runner}: {line!r} ends with {now!r}, and before with {before!r}")
        self._outcomes = texts
        for number, line in enumerate(self.lines):
            if line.startswith("session "):
                self.expect(number)

    def expect(self, number: int) -> None:
        """Raise `ExecutionError` if line `number` of `calls.txt` has failed in the last run of the command."""
        if self._outcomes[number] != "ok":
            raise ExecutionError(self._outcomes[number].removeprefix("failed: "), ErrorCode.INTERNAL)

    def outputs(self, number: int) -> list[torch.Tensor]:
        """Return the outputs of line `number` of `calls.txt` in the last run; raise `ExecutionError` if it failed."""
        self.expect(number)
        tensors: list[torch.Tensor] = []
        while not tensors or self._output(number, len(tensors)).is_file():
            try:
                array = np.load(self._output(number, len(tensors)))
            except (OSError, ValueError) as error:
                raise Died(f"{self.runner}: call {number} is ok, but its output cannot be read: {error}") from error
            is_bfloat16 = array.dtype.kind == "V"
            tensor = torch.from_numpy(array.view(np.int16) if is_bfloat16 else array)
            tensors.append(tensor.view(torch.bfloat16) if is_bfloat16 else tensor)
        return tensors

    def _output(self, number: int, index: int) -> Path:
        return self.folder / f"call_{number}_output_{index}.npy"

    def read(self, name: str) -> bytes:
        """Read a file that the command has written."""
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise Died(f"{self.runner} has not written {name}: {error}") from error


def _text(value: Any) -> str:
    """Format the value of a load option for the command line of edgecore-run."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'  # quote the text: edgecore-run would read text such as `8` as a number
    raise Skipped(f"edgecore-run cannot be given {value!r} for an option")
