"""Imports backend packages in a process of its own: one that hangs, dies or prints must not spoil a command for all.

The child (`main`) writes a line of JSON before and after each package. When it dies or falls silent, the package that it was
at is to blame, and a new child goes on with the rest.
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
from collections.abc import Sequence
from dataclasses import dataclass

from edgecore.errors import EdgecoreError
from edgecore.plugin import registry
from edgecore.plugin.entries import Provider
from edgecore.plugin.types import InstalledBackend

IMPORT_SECONDS = 20.0
_PRINTED_AT_MOST = 1000
# The path of this process, so that both find the same packages; nothing is imported before it is set.
_CHILD = "import sys; sys.path[:] = sys.argv[2:]; from edgecore.plugin import trial; trial.main(sys.argv[1])"


@dataclass(frozen=True)
class Trial:
    """What came of importing a package and calling its hook: a problem, a Python module that it lacks, what it printed."""

    problem: str = ""
    missing_module: str = ""
    printed: str = ""


def installed(seconds: float = IMPORT_SECONDS) -> tuple[list[InstalledBackend], dict[tuple[str, str], Trial]]:
    """`registry.installed`, but what does not survive a trial is not imported here; trials by backend_id and distribution.

    Args:
        seconds: How long a package may take.
    """
    providers = [provider for provider in registry.providers_here() if not registry.excluded_by(provider)]
    trials = run(providers, seconds)
    for provider, trial in zip(providers, trials):
        if trial.problem:
            registry.set_broken(provider, trial.problem)
    # What a package prints is in its trial.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        found = registry.installed()
    keys = [(provider.backend_id, provider.distribution) for provider in providers]
    return found, dict(zip(keys, trials))


def run(providers: Sequence[Provider], seconds: float = IMPORT_SECONDS) -> list[Trial]:
    """Try each one.

    Raises:
        EdgecoreError: This is a frozen application, whose executable is no Python.
    """
    if getattr(sys, "frozen", False):
        raise EdgecoreError("a frozen application cannot check its backends; check them where it is made")
    trials: list[Trial] = []
    while len(trials) < len(providers):
        trials += _run_until_it_fails(providers[len(trials) :], seconds)
    return trials


def _run_until_it_fails(providers: Sequence[Provider], seconds: float) -> list[Trial]:
    """Trials of the first ones, up to the first that the child does not survive."""
    request = json.dumps([(provider.backend_id, provider.value) for provider in providers])
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, request, *filter(None, sys.path)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_forward, args=(child.stdout, lines), daemon=True).start()
    trials: list[Trial] = []
    try:
        while len(trials) < len(providers):
            line = lines.get(timeout=seconds)
            if not line:
                status = child.wait()
                how = f"signal {-status}" if status < 0 else f"status {status}"
                return [*trials, Trial(f"importing {providers[len(trials)].module} ends the process with {how}")]
            trials.append(Trial(**json.loads(line)))
    except queue.Empty:
        module = providers[len(trials)].module
        trials.append(Trial(f"importing {module} and calling its hook does not end within {seconds:g} s"))
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
    """The child: a line for each (backend_id, value) in `request`."""
    # Whatever packages write, by Python or C, goes to a file.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with tempfile.TemporaryFile() as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        for backend_id, value in json.loads(request):
            output.truncate(0)
            problem = missing_module = ""
            try:
                registry.call_hook(Provider(backend_id, value, "", lambda _: None))
            except (Exception, SystemExit) as error:
                problem = registry.text_of(error)
                missing_module = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
            sys.stdout.flush()
            sys.stderr.flush()
            output.seek(0)
            printed = output.read(_PRINTED_AT_MOST).decode(errors="replace").strip()
            answer = {"problem": problem, "missing_module": missing_module, "printed": printed}
            print(json.dumps(answer), file=results, flush=True)
