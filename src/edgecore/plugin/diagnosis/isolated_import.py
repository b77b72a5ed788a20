"""Import packages and call their functions in a child process, so that a hang, a crash or output does no harm.

The child (`main`) sends a message before each step and after each task. If the child dies in a step or exceeds the time
limit of the step, then the task of this step has failed, and a new child continues with the remaining tasks.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from edgecore.errors import BackendError, EdgecoreError
from edgecore.plugin import registry
from edgecore.plugin.api import InstalledBackend
from edgecore.plugin.backend_info import BackendInfo
from edgecore.plugin.installed.entry_points import Provider, searched
from edgecore.processes.command import exit_text
from edgecore.processes.worker import Parent, Worker, WorkerEnded, WorkerHangs

STEP_SECONDS = 20.0
_COMPILER_TIMEOUT_FACTOR = 3
"""Importing a backend's compiler may take this many times longer than other steps, because it imports torch."""
_START_SECONDS = 60.0
_MAX_PRINTED = 1000


@dataclass(frozen=True)
class Task:
    """A request to a package. `kind` selects the action, and the content of `Trial.answer`.

    - `hook`: import the package and call its hook. The answer is None.
    - `library`: call `native_library()` and `load_options()`. The answer is the path of the library, or None.
    - `kernels`: the answer is the path of the package's library of kernels.
    - `check`: call `check()` of the compiler. The answer is a list of [what, remedy].
    - `self_test`: call `self_test()`. The answer is its list of [check, passed, detail] or [check, passed, detail,
      remedy]; empty if there is no self-test.
    - `tables`: the answer is {"options": rows, "operators": rows}, see `documentation`.
    """

    kind: Literal["hook", "library", "kernels", "check", "self_test", "tables"]
    provider: Provider


@dataclass(frozen=True)
class Trial:
    """The result of a task.

    Attributes:
        problem: The reason why the task failed; empty if it succeeded.
        hangs: True if a step exceeded its time limit.
        missing_module: Name of the Python module whose absence made the import fail; else empty.
        printed: The beginning of the package's output to stdout and stderr.
        answer: See `Task`.
    """

    problem: str = ""
    hangs: bool = False
    missing_module: str = ""
    printed: str = ""
    answer: Any = None


def installed(seconds: float = STEP_SECONDS) -> tuple[list[InstalledBackend], dict[tuple[str, str], Trial]]:
    """List the installed backends, as `registry.installed` does, but first try to import each package in a child.

    A package that fails in the child is marked as broken, and this process does not import it.

    Args:
        seconds: Time limit for importing one package.

    Returns:
        The backends, and (backend id, distribution) -> the result of its import.
    """
    providers = [provider for provider in registry.providers_here() if not registry.excluded_by(provider)]
    trials = mark_broken(providers, seconds)
    # `Trial.printed` already contains the package's output. Printing it here, too, would spoil the command's output.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        listed = registry.installed()
    keys = [(provider.name, provider.distribution) for provider in providers]
    return listed, dict(zip(keys, trials))


def backends(seconds: float) -> list[InstalledBackend]:
    """List the installed backends, and warn about each broken backend.

    If this process can start a child process, the child first imports the packages that this process has not imported
    yet. A package that hangs or crashes on import is then only marked as broken.

    Args:
        seconds: Time limit for importing one package.
    """
    if can_start_python():
        new = [
            provider
            for provider in registry.providers_here()
            if not registry.is_loaded(provider) and not registry.excluded_by(provider)
        ]
        mark_broken(new, seconds)
    listed = registry.installed()
    for backend in listed:
        if backend.state == "broken":
            warnings.warn(f"{backend.problem}; `edgecore doctor` tells more", category=RuntimeWarning, stacklevel=3)
    return listed


def mark_broken(providers: Sequence[Provider], seconds: float) -> list[Trial]:
    """Call the hook of each package in a child. Mark a package as broken if this fails, so that it is not imported."""
    trials = run([Task("hook", provider) for provider in providers], seconds)
    for provider, trial in zip(providers, trials):
        if trial.problem:
            registry.set_broken(provider, trial.problem)
    return trials


def can_start_python() -> bool:
    """Return False in a frozen application and in an embedded Python, which cannot start another Python."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def run(tasks: Sequence[Task], seconds: float = STEP_SECONDS) -> list[Trial]:
    """Run tasks in child processes.

    Args:
        tasks: The tasks.
        seconds: Time limit for each step of a task.

    Returns:
        The results, in the order of `tasks`.

    Raises:
        EdgecoreError: This process cannot start another Python.
    """
    if not can_start_python():
        raise EdgecoreError(
            "a frozen application cannot check its backends; check them where the application is frozen"
        )
    trials: list[Trial] = []
    while len(trials) < len(tasks):
        trials += _run_in_child(tasks[len(trials) :], seconds)
    return trials


def _run_in_child(tasks: Sequence[Task], seconds: float) -> list[Trial]:
    """Run tasks in one child until a task kills it or exceeds the time limit; return the results so far."""
    child = Worker("edgecore.plugin.diagnosis.isolated_import:main", searched())
    trials: list[Trial] = []
    step, limit = "starting Python", max(seconds, _START_SECONDS)
    try:
        for task in tasks:
            child.forget_printed()
            child.send((task.kind, task.provider.name, task.provider.value))
            while isinstance(message := child.receive(limit), list):
                step, limit = message[0], seconds * message[1]
            trials.append(replace(Trial(**message), printed=child.printed()[:_MAX_PRINTED].strip()))
    except WorkerHangs:
        trials.append(Trial(f"{step} does not end within {limit:g} s", hangs=True))
    except WorkerEnded as end:
        trials.append(Trial(f"{step} ends the process with {exit_text(end.status)}"))
    finally:
        child.close()
    return trials


def main(parent: Parent) -> None:
    """Run tasks in the child: send [step, timeout factor] before each step, and a `Trial` after each task.

    The parent multiplies the time limit of a step by the timeout factor.
    """
    for kind, name, value in parent.requests():
        problem = missing_module = ""
        answer = None
        try:
            answer = _answer(
                kind, Provider(name, value, "", lambda _: None), lambda step, factor=1: parent.send([step, factor])
            )
        except (Exception, SystemExit) as error:
            problem = registry.text_of(error)
            missing_module = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
        parent.send({"problem": problem, "missing_module": missing_module, "answer": answer})


def _answer(kind: str, provider: Provider, begin: Callable[..., None]) -> Any:
    """Run a task and return its answer. Calls `begin` before each step, with its description and timeout factor."""
    if kind == "kernels":
        begin(f"importing {provider.module} and asking for its library")
        return str(provider.load()())
    begin(f"importing {provider.module} and calling its hook")
    info = registry.call_hook(provider)
    if kind == "library":
        return _library(info, provider.module, begin)
    if kind == "hook":
        return None
    if kind == "self_test":
        if info.self_test is None:
            return []
        begin(f"calling self_test() of {provider.module}")
        return [list(row) for row in info.self_test()]
    begin(f"importing {info.compiler}", _COMPILER_TIMEOUT_FACTOR)
    compiler = registry.load_compiler(info)
    if kind == "check":
        begin(f"calling check() of {info.compiler}")
        return [[problem.what, problem.remedy] for problem in compiler.check()]
    from edgecore.plugin import documentation

    begin(f"asking {info.compiler} for its options and operators")
    options = documentation.option_rows(compiler.Options)
    return {"options": options, "operators": documentation.operator_rows(compiler.operator_support())}


def _library(info: BackendInfo, module: str, begin: Callable[..., None]) -> str | None:
    path = None
    for name in ("native_library", "load_options"):
        if function := getattr(info, name):
            begin(f"calling {name}() of {module}")
            try:
                result = function()
            except Exception as error:
                raise BackendError(f"{name}() raised {type(error).__name__}: {error}") from error
            path = str(result) if name == "native_library" else path
    return path
