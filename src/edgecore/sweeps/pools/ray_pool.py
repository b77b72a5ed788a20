"""A pool that runs steps on a Ray cluster.

Ray ends a process whose cluster is gone. So the connection is in a process of its own (`ray_driver.py`), and losing the
cluster raises an error here instead of ending the user's program.
"""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgecore.errors import EdgecoreError
from edgecore.plugin.installed.entry_points import searched
from edgecore.processes.command import last_line
from edgecore.processes.worker import Worker, WorkerEnded
from edgecore.sweeps.fingerprint import file_digest, versions
from edgecore.sweeps.plan import named_files
from edgecore.sweeps.step import FILE, Kind, Step, StepResult

TIMING = "timing"
"""Name of the Ray resource that marks the nodes on which a sweep measures times."""
_DRIVER = "edgecore.sweeps.pools.ray_driver:main"
_SECONDS_TO_CONNECT = 10
_SECONDS_TO_END = 20


@cache
def packages_of(backend: str, library: str) -> list[str]:
    """Return `versions` for a backend and a library of models. The result is cached, since it takes 10 ms."""
    return versions(backend, [library])


def _check_reachable(address: str) -> None:
    """Raise an error if there is no cluster at the address, because Ray itself would wait for it for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise EdgecoreError(f"the address of a Ray cluster is HOST:PORT; got {address!r}")
    try:
        socket.create_connection((host, int(port)), _SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise EdgecoreError(f"there is no Ray cluster at {address}: {error}") from error


class RayPool:
    """Runs steps on the nodes of a Ray cluster, each step in its own process, like `LocalPool`. Ray chooses the nodes.

    Args:
        address: `HOST:PORT` of the cluster.
        jobs: Maximum number of files that are made at the same time; None for the cluster's number of cores.

    Raises:
        EdgecoreError: Ray is not installed, or the cluster cannot be reached.
    """

    def __init__(self, address: str, jobs: int | None) -> None:
        if find_spec("ray") is None:
            raise EdgecoreError("a sweep on a cluster needs Ray; run: pip install 'edgecore[ray]'")
        _check_reachable(address)
        self.address, self.jobs = address, jobs
        self.steps: dict[int, Step] = {}
        self.submitted = 0
        self.digests: dict[Path, str] = {}
        self.nodes: dict[str, Any] = {}
        usage = {"RAY_USAGE_STATS_ENABLED": os.environ.get("RAY_USAGE_STATS_ENABLED", "0")}
        self.connection = Worker(_DRIVER, searched(), {**os.environ, **usage})
        try:
            self.connection.send(address)
            self.nodes = self._receive("ready")
        except BaseException:
            self.cancel()
            raise

    @property
    def processor(self) -> str:
        names: list[str] = sorted(set(self.nodes["processors"]))
        if not names:
            raise EdgecoreError(
                f"no node of the Ray cluster at {self.address} measures times; start one with "
                f"`ray start --resources '{{\"{TIMING}\": 1}}'`, or write runs = 0"
            )
        if len(names) > 1:
            raise EdgecoreError(f"the nodes with the resource {TIMING!r} have different processors: {'; '.join(names)}")
        return names[0]

    def width(self, kind: Kind) -> int:
        if kind == "time":
            return max(1, int(self.nodes["timing"]))
        return min(self.jobs or sys.maxsize, max(1, int(self.nodes["cores"])))

    def submit(self, step: Step, folder: Path) -> None:
        self.submitted += 1
        self.steps[self.submitted] = step
        files = {FILE: folder / FILE} if step.kind == "time" else named_files(step.build)
        request = {
            "step": step.text(),
            "name": step.name,
            "folder": str(folder),
            "place": str(Path.cwd()),
            "packages": packages_of(step.build.backend_name, step.build.source.partition(":")[0]),
            "files": {name: (str(path.resolve()), self._digest(path)) for name, path in files.items()},
            "resources": dict.fromkeys([*step.needs, *([TIMING] if step.kind == "time" else [])], 1),
            "cores": max(1, step.threads),
            "memory": step.limits.memory_mb << 20,
        }
        self.connection.send((self.submitted, request))

    def wait(self) -> list[tuple[Step, StepResult]]:
        number, result, self.nodes = self._receive("ended")
        return [(self.steps.pop(number), StepResult(**result))]

    def cancel(self) -> None:
        """Close the connection to the driver process, which then cancels the running steps."""
        self.connection.close(_SECONDS_TO_END)

    def _digest(self, path: Path) -> str:
        """Return the digest of a file. Cache it for the files of a model, which many steps need."""
        if path.name == FILE:
            return file_digest(path)
        if path not in self.digests:
            self.digests[path] = file_digest(path)
        return self.digests[path]

    def _receive(self, wanted: str) -> Any:
        try:
            kind, content = self.connection.receive()
        except WorkerEnded as error:
            raise self._lost() from error
        if kind != wanted:
            raise EdgecoreError(content)
        return content

    def _lost(self) -> EdgecoreError:
        if not self.nodes:
            last = last_line(self.connection.printed()) or "it printed nothing"
            return EdgecoreError(f"the process that connects to the Ray cluster at {self.address} has ended: {last}")
        return EdgecoreError(
            f"the Ray cluster at {self.address} is gone; the cells that are finished are kept: run the sweep again "
            "when it is back, or without ray"
        )
