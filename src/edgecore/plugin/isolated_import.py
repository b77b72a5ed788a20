"""Calls what packages provide in a process of its own: one that hangs, dies or prints must not spoil a command for all.

The child (`main`) writes a line of JSON before each step and after each task. When it dies or falls silent, the package
that it was at is to blame, and a new child goes on with the rest.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from edgecore.errors import BackendError, EdgecoreError
from edgecore.plugin import entry_points, registry
from edgecore.plugin.api import InstalledBackend
from edgecore.plugin.backend_info import BackendInfo
from edgecore.plugin.entry_points import Provider
from edgecore.plugin.exit_status import exit_text

STEP_SECONDS = 20.0
_COMPILER_PATIENCE = 3
"""Times as long may importing a compiler take: torch comes with it."""
_START_SECONDS = 60.0
_PRINTED_AT_MOST = 1000
# The path of this process, so that both find the same packages; nothing is imported before it is set.
_CHILD = "import sys; sys.path[:] = sys.argv[2:]; from edgecore.plugin import isolated_import; isolated_import.main(sys.argv[1])"


@dataclass(frozen=True)
class Task:
    """What to ask of a package.

    `hook`: import it and call its hook, no answer. `library`: the path that its `native_library()` gives, None if it has
    none; its `load_options` are called too. `kernels`: the
    path of its library of operators. `check`: [what, remedy] of each problem that its compiler reports. `self_test`: [what, right, detail] rows of
    its `self_test()`, none without one. `tables`: rows of
    its options and its operators, see `documentation`.
    """

    kind: Literal["hook", "library", "kernels", "check", "self_test", "tables"]
    provider: Provider


@dataclass(frozen=True)
class Trial:
    """What came of a task: a problem, whether that is a hang, a Python module that the package lacks, what it printed."""

    problem: str = ""
    hangs: bool = False
    missing_module: str = ""
    printed: str = ""
    answer: Any = None


def installed(seconds: float = STEP_SECONDS) -> tuple[list[InstalledBackend], dict[tuple[str, str], Trial]]:
    """`registry.installed`, but what does not survive a trial is not imported here; trials by backend_id and distribution.

    Args:
        seconds: How long importing a package may take.
    """
    providers = [provider for provider in registry.providers_here() if not registry.excluded_by(provider)]
    trials = mark_broken(providers, seconds)
    # What a package prints is in its trial.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        found = registry.installed()
    keys = [(provider.name, provider.distribution) for provider in providers]
    return found, dict(zip(keys, trials))


def backends(seconds: float) -> list[InstalledBackend]:
    """List the installed backends, with one warning for each that is broken.

    Packages that this process has not imported yet are tried in a process of their own first, where that can be.
    """
    if possible():
        new = [
            one for one in registry.providers_here() if not registry.is_loaded(one) and not registry.excluded_by(one)
        ]
        mark_broken(new, seconds)
    found = registry.installed()
    for backend in found:
        if backend.state == "broken":
            warnings.warn(f"{backend.problem}; `edgecore doctor` tells more", category=RuntimeWarning, stacklevel=3)
    return found


def mark_broken(providers: Sequence[Provider], seconds: float) -> list[Trial]:
    """Try the hook of each; those that have a problem are broken in this process from now on, without an import."""
    trials = run([Task("hook", provider) for provider in providers], seconds)
    for provider, trial in zip(providers, trials):
        if trial.problem:
            registry.set_broken(provider, trial.problem)
    return trials


def possible() -> bool:
    """Whether this process can start another Python: not in a frozen application, nor where Python is embedded."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def run(tasks: Sequence[Task], seconds: float = STEP_SECONDS) -> list[Trial]:
    """Try each one.

    Raises:
        EdgecoreError: This process cannot start another Python.
    """
    if not possible():
        raise EdgecoreError("a frozen application cannot check its backends; check them where it is made")
    trials: list[Trial] = []
    while len(trials) < len(tasks):
        trials += _run_until_it_fails(tasks[len(trials) :], seconds)
    return trials


def _run_until_it_fails(tasks: Sequence[Task], seconds: float) -> list[Trial]:
    """Trials of the first ones, up to the first that the child does not survive."""
    request = json.dumps([(task.kind, task.provider.name, task.provider.value) for task in tasks])
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, request, *entry_points.searched()],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_forward, args=(child.stdout, lines), daemon=True).start()
    trials: list[Trial] = []
    step, limit = "starting Python", max(seconds, _START_SECONDS)
    try:
        while len(trials) < len(tasks):
            line = lines.get(timeout=limit)
            if not line:
                return [*trials, Trial(f"{step} ends the process with {exit_text(child.wait())}")]
            said = json.loads(line)
            if isinstance(said, list):
                step, limit = said[0], seconds * said[1]
            else:
                trials.append(Trial(**said))
    except queue.Empty:
        trials.append(Trial(f"{step} does not end within {limit:g} s", hangs=True))
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        assert child.stderr is not None
        child.stderr.close()
    return trials


def _forward(stream: io.TextIOBase, lines: queue.Queue[str]) -> None:
    """Put each line into the queue, then an empty one."""
    with contextlib.suppress(ValueError):  # closed meanwhile
        for line in stream:
            lines.put(line)
    lines.put("")


def main(request: str) -> None:
    """The child: lines for each (kind, backend_id, value) in `request`.

    They are [step, times the usual patience] before each step, and the fields of the `Trial` at the end.
    """
    # Whatever packages write, by Python or C, goes to a file.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")

    def say(what: object) -> None:
        print(json.dumps(what, default=str), file=results, flush=True)

    with tempfile.TemporaryFile() as file:
        output = file.fileno()
        os.dup2(output, 1)
        os.dup2(output, 2)
        for kind, backend_id, value in json.loads(request):
            os.lseek(output, 0, os.SEEK_SET)
            os.ftruncate(output, 0)
            problem = missing_module = ""
            answer = None
            try:
                answer = _answer(
                    kind, Provider(backend_id, value, "", lambda _: None), lambda step, times=1: say([step, times])
                )
            except (Exception, SystemExit) as error:
                problem = registry.text_of(error)
                missing_module = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
            sys.stdout.flush()
            sys.stderr.flush()
            os.lseek(output, 0, os.SEEK_SET)
            printed = os.read(output, _PRINTED_AT_MOST).decode(errors="replace").strip()
            say({"problem": problem, "missing_module": missing_module, "printed": printed, "answer": answer})


def _answer(kind: str, provider: Provider, begin: Callable[..., None]) -> Any:
    """What the package gives for a task; `begin` is called before each step of it."""
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
    begin(f"importing {info.compiler}", _COMPILER_PATIENCE)
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
                given = function()
            except Exception as error:
                raise BackendError(f"{name}() raised {type(error).__name__}: {error}") from error
            path = str(given) if name == "native_library" else path
    return path
