"""The process that is connected to a Ray cluster (`Driver`), and the task that it runs on nodes (`run_on_node`).

The process receives requests from `RayPool`, and sends the results of tasks. After the last request, it cancels all
tasks.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from edgecore.devtools.track import processor
from edgecore.processes.worker import Parent
from edgecore.sweeps.fingerprint import file_digest
from edgecore.sweeps.pools.pools import run_step
from edgecore.sweeps.pools.ray_pool import TIMING, packages_of
from edgecore.sweeps.step import Step, StepResult

RETRIES = 3
"""Number of times that a task is repeated if its node is lost."""
_CHECK_SECONDS = 2.0
_ANSWER_SECONDS = 20.0
"""Time limit in seconds for asking the cluster for its nodes; a cluster that does not answer counts as lost."""
_CANCEL_SECONDS = 5.0


class NodeProblem(Exception):
    """A node of the cluster has other packages or files, so it cannot run a step in the same way as this machine."""


def run_on_node(request: dict[str, Any], files: dict[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Run a step in a process of this node. Return its result, and the files that it made.

    Args:
        request: The request from `RayPool.submit`.
        files: References to the contents of the files that the request names.

    Raises:
        NodeProblem: This node has other packages, or lacks a file.
    """
    step = Step.of_text(request["step"])
    _check_packages(step, request["packages"])
    # Ray sets OMP_NUM_THREADS: restore the value of the sweep's machine, so that the step runs in the same way.
    if request["threads_of_openmp"] is None:
        os.environ.pop("OMP_NUM_THREADS", None)
    else:
        os.environ["OMP_NUM_THREADS"] = request["threads_of_openmp"]
    with tempfile.TemporaryDirectory() as output, tempfile.TemporaryDirectory() as copied:
        folder = Path(output) if step.kind != "time" else Path(copied)
        place = Path(request["place"])
        if not place.is_dir():
            place = Path(copied)
        if step.kind == "time" or not _has(place, request["files"]):
            for name in request["files"]:
                if Path(name).is_absolute() or ".." in Path(name).parts:
                    raise NodeProblem(f"has not the same file {name}; put it on a path that all nodes have")
                file = Path(copied, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(ray.get(files[name]))
            place = Path(copied)
        result = asdict(run_step(step, folder, place=place))
        own = f"{Path(copied).resolve()}{os.sep}"
        result["inputs"] = {
            path.replace(own, request["place"] + os.sep): value for path, value in result["inputs"].items()
        }
        contents = {file.name: file.read_bytes() for file in Path(output).iterdir() if file.is_file()}
        return result, contents


def _check_packages(step: Step, wanted: list[str]) -> None:
    here = packages_of(step.build.backend_name, step.build.source.partition(":")[0])
    differing = sorted(set(here) ^ set(wanted))
    if differing:
        names = ", ".join(dict.fromkeys(package.partition("==")[0] for package in differing))
        raise NodeProblem(f"has not the same packages as the machine of the sweep: {names}; install the same versions")


def _has(place: Path, files: dict[str, tuple[str, str]]) -> bool:
    """Return True if this node already has all `files`, unchanged, below `place`, for example on a shared disk."""
    return all(file_digest(place / name) == digest for name, (_, digest) in files.items())


class Driver:
    """The connection to a cluster. It makes a task of each request, and sends a message when a task ends."""

    def __init__(self, parent: Parent) -> None:
        self.parent = parent
        self.requests: dict[int, tuple[dict[str, Any], Any]] = {}
        self.task = ray.remote(max_retries=RETRIES)(run_on_node)
        self.nodes: dict[str, Any] = {}

    def send(self, kind: str, content: object) -> None:
        self.parent.send((kind, content))

    def find_nodes(self, with_processors: bool = False) -> None:
        """Read the resources of the nodes; with `with_processors`, also the processors of nodes that measure times."""
        alive = [node for node in ray.nodes() if node["Alive"]]
        measuring = [node for node in alive if node["Resources"].get(TIMING, 0) >= 1]
        self.resources = [node["Resources"] for node in alive]
        cores = int(sum(resources.get("CPU", 0) for resources in self.resources))
        processors = self.nodes.get("processors", [])
        if with_processors:
            ask = ray.remote(num_cpus=0)(processor)
            on_nodes = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in measuring]
            processors = ray.get([ask.options(scheduling_strategy=on_node).remote() for on_node in on_nodes])
        self.nodes = {"cores": cores, "timing": len(measuring), "processors": processors}

    def ask(self, answered: threading.Event) -> None:
        """Read the resources of the nodes again; set the event `answered` when the cluster has replied."""
        self.find_nodes()
        answered.set()

    def watch(self) -> None:
        """Exit if the cluster does not answer; exit with a message if no node can run a waiting step."""
        while True:
            time.sleep(_CHECK_SECONDS)
            answered = threading.Event()
            threading.Thread(target=self.ask, args=(answered,), daemon=True).start()
            if not answered.wait(_ANSWER_SECONDS):
                os._exit(1)
            for request, _ in list(self.requests.values()):
                self.check(request)

    def check(self, request: dict[str, Any]) -> None:
        """Exit with a message if no node of the cluster has the resources that a step needs."""
        wanted = {**request["resources"], "CPU": request["cores"], "memory": request["memory"]}
        if any(all(node.get(name, 0) >= size for name, size in wanted.items()) for node in self.resources):
            return
        named = ", ".join(repr(name) for name in request["resources"])
        self.fail(
            f"no node of the Ray cluster can run {request['name']}: it needs {request['cores']} CPU and "
            f"{request['memory'] >> 20:,} MiB{f' and the resources {named}' if named else ''} (limits and needs of the "
            "sweep, --num-cpus, --memory and --resources of `ray start`); what is finished is kept"
        )

    def fail(self, message: str) -> NoReturn:
        self.send("error", message)
        os._exit(1)

    def submit(self, number: int, request: dict[str, Any]) -> None:
        self.check(request)
        request["threads_of_openmp"] = os.environ.get("OMP_NUM_THREADS")
        put = _put if TIMING in request["resources"] else _put_once
        try:
            files = {name: put(path, digest) for name, (path, digest) in request["files"].items()}
        except (FileNotFoundError, PermissionError) as error:
            self.fail(
                f"{request['name']} needs {error.filename}, which cannot be read: {error.strerror}; what is finished "
                "is kept"
            )
        task = self.task.options(
            num_cpus=request["cores"], memory=request["memory"], resources=request["resources"], name=request["name"]
        )
        reference = task.remote(request, files)
        self.requests[number] = (request, reference)
        reference.future().add_done_callback(lambda future: self.ended(number, future))

    def ended(self, number: int, future: Any) -> None:
        """Write the files of a task into its folder, and send its result."""
        request, _ = self.requests.pop(number)
        try:
            result, contents = future.result()
            for name, content in contents.items():
                Path(request["folder"], name).write_bytes(content)
        except RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, NodeProblem):
                self.fail(f"a node of the Ray cluster {cause}; what is finished is kept")
            what = f"its node or process was lost {RETRIES + 1} times: {type(error).__name__}"
            if cause is not None:
                what = f"its node failed: {type(cause).__name__}: {cause}"
            result = asdict(StepResult("failed", f"{what}; run the sweep again", transient=True))
        except OSError as error:
            self.fail(f"cannot write into {request['folder']}: {error.strerror}")
        self.send("ended", (number, result, self.nodes))

    def cancel(self) -> None:
        for _, reference in list(self.requests.values()):
            ray.cancel(reference)
        end = time.monotonic() + _CANCEL_SECONDS
        while self.requests and time.monotonic() < end:
            time.sleep(0.05)


def _put(path: str, digest: str) -> Any:
    return ray.put(Path(path).read_bytes())


_put_once = cache(_put)  # cached by path and digest, so that a changed file is stored again


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def main(parent: Parent) -> None:
    """Connect to a Ray cluster, and run a task for each request until there are no more."""
    requests = parent.requests()
    address = next(requests)
    driver = Driver(parent)
    try:
        ray.init(address, log_to_driver=False, configure_logging=False)
    except Exception as error:
        driver.fail(f"cannot connect to the Ray cluster at {address}: {_first_line(error)}")
    try:
        driver.find_nodes(with_processors=True)
        driver.send("ready", driver.nodes)
        threading.Thread(target=driver.watch, daemon=True).start()
        for number, request in requests:
            driver.submit(number, request)
        driver.cancel()
    except Exception as error:
        driver.fail(
            f"the connection to the Ray cluster at {address} failed: {_first_line(error)}; what is finished is kept"
        )
    ray.shutdown()
    os._exit(0)
