"""Sweeps on a Ray cluster of three nodes on this machine."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sweep_files import MODEL, write_nets

import edgecore
from edgecore.errors import EdgecoreError
from edgecore.processes.worker import Parent
from edgecore.sweeps.plan import make_plan, named_files
from edgecore.sweeps.step import Step

LOGGED = """
import os, time
import sweep_nets

def logged(number):
    with open(os.environ["SWEEP_LOG"], "a") as log:
        print(number, "begins", file=log)
    time.sleep(1000 if number.startswith("net_hangs") else 3)
    return sweep_nets.small()

def __getattr__(name):
    if not name.startswith("net"):
        raise AttributeError(name)
    return lambda: logged(name)
"""


class Cluster:
    """Nodes of one core each, of which the first is the head and measures times."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.folder = folder
        self.nodes: list[subprocess.Popen[bytes]] = []

    def start(self, *extra: str) -> None:
        head = ["--head", f"--port={self.address.rpartition(':')[2]}", "--include-dashboard=false",
                f"--temp-dir={self.folder}", "--resources", '{"timing": 1, "emulator": 1}']  # fmt: skip
        command = [
            sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--node-ip-address=127.0.0.1", "--num-cpus=1",
            "--memory=9000000000", "--object-store-memory=80000000", "--disable-usage-stats",
            *(head if not self.nodes else [f"--address={self.address}"]), *extra,
        ]  # fmt: skip
        node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.nodes.append(node)
        for line in node.stdout:
            if b"Ray runtime started" in line:
                threading.Thread(target=node.stdout.read, daemon=True).start()
                return
        raise AssertionError(f"the node ended with status {node.wait()}")

    def kill(self, index: int) -> None:
        """Kill all processes of a node at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.nodes[index].pid, signal.SIGKILL)
        self.nodes[index].wait()

    def begun(self, name: str) -> list[str]:
        """Return the models of a name that processes have begun to make."""
        log = self.folder / "log"
        return [line for line in log.read_text().splitlines() if line.startswith(name)] if log.exists() else []

    def when(self, name: str, count: int, do: Callable[[], object]) -> None:
        """Call a function beside the test once as many models of a name have been begun."""

        def wait() -> None:
            while len(self.begun(name)) < count:
                time.sleep(0.1)
            do()

        threading.Thread(target=wait, daemon=True).start()


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray", reason="needs edgecore[ray]")
    # The path of Ray's sockets has a short limit.
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder,
    ):
        made = Cluster(Path(folder))
        for name, value in (("RAY_AUTH_MODE", "disabled"), ("PYTHONDONTWRITEBYTECODE", "1"),
                            ("SWEEP_LOG", str(made.folder / "log"))):  # fmt: skip
            patch.setenv(name, value)
        try:
            for _ in range(3):
                made.start()
            yield made
        finally:
            for index in reversed(range(len(made.nodes))):
                made.kill(index)


@pytest.fixture(autouse=True)
def nets(tmp_path, monkeypatch):
    write_nets(tmp_path, monkeypatch)
    (tmp_path / "logged.py").write_text(LOGGED)


def facts(rows):
    return [(row.cell, row.status, row.reason, row.file_bytes, row.planned_bytes, row.sqnr_db, row.delegated,
             row.accuracy, row.median_ms is None) for row in rows]  # fmt: skip


SMALL = {"seconds": 300, "memory_mb": 3000}


@pytest.mark.full
def test_three_nodes_give_the_same_table_as_this_machine(cluster):
    models = {"small": MODEL, "dies": {"source": "sweep_nets:dies"}}
    options = {"models": models, "backends": {"kernels": {"needs": ["emulator"]}}, "runs": 3, "limits": SMALL}
    there = edgecore.sweep(options, "there", ray=cluster.address)
    here = edgecore.sweep(options, "here")
    assert facts(there.rows) == facts(here.rows)
    assert [row.status for row in there.rows] == ["ok", "failed"] and "SIGSEGV" in there.rows[1].reason
    assert all(row.cached for row in edgecore.sweep(options, "there").rows)
    with pytest.raises(EdgecoreError, match=r"no node .* can run .*'camera'.*what is finished is kept"):
        edgecore.sweep({**options, "backends": {"kernels": {"needs": ["camera"]}}, "runs": 0}, "x", ray=cluster.address)


@pytest.mark.full
def test_a_search_on_three_nodes_tries_recipes_and_modules_there(cluster, monkeypatch):
    compiler = pytest.importorskip("edgecore_xnnpack.compiler").XnnpackCompiler
    some = {name: one for name, one in compiler().recipes().items() if name == "int8"}
    monkeypatch.setattr(compiler, "recipes", lambda self: some)
    found = edgecore.search(
        "sweep_nets:small",
        calibration="sweep_nets:samples",
        max_loss=0.001,
        objective="size",
        runs=2,
        ray=cluster.address,
    )
    assert found.best is not None and found.best.sqnr_db >= 60, str(found)
    assert [row.recipe for row in found.rows][:2] == ["float", "int8"] and found.rows[1].sqnr_db < 60
    assert [row.skip is not None for row in found.rows] == [False, False, True], "modules to leave in floating point"
    assert edgecore.load(found.folder / found.best.file).methods


def logged(name, count):
    models = {f"{name}{number}": {"source": f"logged:{name}{number}"} for number in range(count)}
    return {"models": models, "backends": ["kernels"], "runs": 0, "limits": SMALL}


def processes_of(name):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [path] if f"logged:{name}" in path.read_text(errors="replace") else []
    return found


@pytest.mark.full
def test_control_c_ends_the_processes_of_all_nodes(cluster):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    cluster.when("net_hangs", 3, lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            edgecore.sweep(logged("net_hangs", 5), "out", ray=cluster.address)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(cluster.begun("net_hangs")) == 3, "there are three cores"
    assert processes_of("net_hangs") == []


@pytest.mark.full
def test_a_lost_node_costs_its_running_cell_and_a_lost_head_is_one_error_after_which_the_sweep_goes_on(cluster):
    cluster.when("net_node", 4, lambda: cluster.kill(2))
    done = edgecore.sweep(logged("net_node", 6), "node", ray=cluster.address)
    assert [row.status for row in done.rows] == ["ok"] * 6, str(done)
    assert 6 <= len(cluster.begun("net_node")) <= 7

    cluster.when("net_head", 3, lambda: cluster.kill(0))
    with pytest.raises(EdgecoreError, match="is gone; the cells that are finished are kept"):
        edgecore.sweep(logged("net_head", 5), "head", ray=cluster.address)
    kept = len(list(Path("head/cells").glob("*/result.json")))
    done = edgecore.sweep(logged("net_head", 5), "head", jobs=1)
    assert [row.status for row in done.rows] == ["ok"] * 5
    assert kept >= 1 and sum(row.cached for row in done.rows) == kept


def test_a_node_without_the_folder_of_the_sweep_gets_the_files_that_it_names(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="needs edgecore[ray]")
    from edgecore.sweeps.fingerprint import file_digest, versions
    from edgecore.sweeps.pools import ray_driver

    (tmp_path / "other.pt2").write_bytes(b"no model")
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "0.npy").write_bytes(b"no array")
    models = {"a": {"source": "logged:net", "calibration": "samples"}, "b": {"source": "other.pt2"}}
    plan = make_plan({"models": models, "backends": ["kernels"]})
    files = [named_files(cell.build) for cell in plan.cells]
    assert list(files[0]) == ["logged.py", "samples/0.npy", "sweep_nets.py"] and list(files[1]) == ["other.pt2"]

    seen = {}

    def run_step(step, folder, stop=None, place=None):
        seen.update({str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()})
        (folder / "model.pte").write_bytes(b"file")
        return ray_driver.StepResult("ok", inputs={str(place.resolve() / "logged.py"): "digest"})

    monkeypatch.setattr(ray_driver, "run_step", run_step)
    monkeypatch.setattr(ray_driver.ray, "get", lambda reference: reference)
    step = Step("build", plan.cells[0].build, plan.limits)
    request = {
        "step": step.text(), "place": "/nowhere/at/all", "packages": versions("kernels", ["logged:net"]),
        "files": {name: (str(path), file_digest(path)) for name, path in files[0].items()}, "threads_of_openmp": None,
    }  # fmt: skip
    contents = {name: path.read_bytes() for name, path in files[0].items()}
    result, made = ray_driver.run_on_node(request, contents)
    assert seen == contents and made == {"model.pte": b"file"}
    assert result["inputs"] == {"/nowhere/at/all/logged.py": "digest"}
    with pytest.raises(ray_driver.NodeProblem, match="not the same packages as the machine of the sweep: torch"):
        ray_driver.run_on_node({**request, "packages": [*request["packages"], "torch==1"]}, contents)


@pytest.fixture
def connection(monkeypatch, tmp_path):
    """connection(code) makes a pool whose process runs this code instead of connecting to a cluster."""
    pytest.importorskip("ray", reason="needs edgecore[ray]")
    from edgecore.sweeps.pools import ray_pool

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def connect(code):
            folder = Path(tempfile.mkdtemp(dir=tmp_path))
            (folder / "stand_in.py").write_text(f"def main(parent):\n{textwrap.indent(code, '    ')}")
            monkeypatch.syspath_prepend(folder)
            monkeypatch.setattr(ray_pool, "_DRIVER", "stand_in:main")
            return ray_pool.RayPool(f"127.0.0.1:{listening.getsockname()[1]}", None)

        yield connect


READY = """
requests = parent.requests()
next(requests)
parent.send(("ready", {"cores": 3, "timing": 0, "processors": []}))
"""


def test_what_the_connection_has_said_before_its_end_is_not_lost(connection, tmp_path):
    cell = make_plan({"models": ["sweep_nets:small"], "backends": ["kernels"]}).cells[0]
    step = Step("build", cell.build, make_plan({"models": ["sweep_nets:small"], "backends": ["kernels"]}).limits)
    ended = (
        "parent.send(('ended', (1, {'status': 'ok'}, {'cores': 3})))\nparent.send(('error', 'the node is on fire'))\n"
    )
    pool = connection(f"{READY}next(requests)\n{ended}")
    pool.submit(step, tmp_path)
    while pool.connection.alive:
        time.sleep(0.05)
    pool.submit(step, tmp_path)  # nobody reads it any more
    assert [(one, result.status) for one, result in pool.wait()] == [(step, "ok")]
    with pytest.raises(EdgecoreError, match="^the node is on fire$"):
        pool.wait()
    pool.cancel()
    with pytest.raises(EdgecoreError, match="has ended: ImportError: no such library"):
        connection("raise ImportError('no such library')")
    pool = connection(READY)
    with pytest.raises(EdgecoreError, match="is gone; the cells that are finished are kept"):
        pool.wait()
    pool.cancel()


def test_failures_of_the_connection_are_messages_and_those_of_nodes_are_no_results(monkeypatch):
    pytest.importorskip("ray", reason="needs edgecore[ray]")
    from concurrent.futures import Future

    from ray.exceptions import NodeDiedError, RayTaskError

    from edgecore.sweeps.pools import ray_driver

    def said(do):
        answers = io.BytesIO()
        driver = ray_driver.Driver(Parent(io.BytesIO(), answers))
        driver.resources = [{"CPU": 1.0, "memory": 1.0}]
        driver.requests[1] = ({"name": "a/b", "folder": "."}, None)
        with contextlib.suppress(SystemExit):
            do(driver)
        return tuple(json.loads(answers.getvalue()))

    def exit_with(status):
        raise SystemExit(status)

    monkeypatch.setattr(os, "_exit", exit_with)
    request = {"name": "a/b", "resources": {}, "cores": 1, "memory": 1, "files": {"x.pt2": ("/nowhere/x.pt2", "")}}
    assert said(lambda driver: driver.submit(2, request)) == (
        "error", "a/b needs /nowhere/x.pt2, which cannot be read: No such file or directory; what is finished is kept",
    )  # fmt: skip
    for error, words in (
        (NodeDiedError("gone"), "its node or process was lost 4 times: NodeDiedError"),
        (
            RayTaskError("run_on_node", "", OSError(28, "No space left")),
            "its node failed: OSError: [Errno 28] No space",
        ),
    ):
        future = Future()
        future.set_exception(error)
        kind, (number, result, _) = said(lambda driver, future=future: driver.ended(1, future))
        assert (kind, number, result["status"], result["transient"]) == ("ended", 1, "failed", True)
        assert words in result["reason"] and result["reason"].endswith("; run the sweep again")


def test_an_address_without_a_cluster_is_one_sentence():
    pytest.importorskip("ray", reason="needs edgecore[ray]")
    options = {"models": ["sweep_nets:small"], "backends": ["kernels"]}
    with pytest.raises(EdgecoreError, match="there is no Ray cluster at 127.0.0.1:1"):
        edgecore.sweep(options, "out", ray="127.0.0.1:1")
    with pytest.raises(EdgecoreError, match="HOST:PORT; got 'here'"):
        edgecore.search("sweep_nets:small", target="kernels", ray="here")


def test_a_sweep_without_the_option_imports_nothing_of_ray(tmp_path):
    script = (
        "import sys, edgecore\n"
        "edgecore.sweep({'models': {'a': {'source': 'missing.pt2'}}, 'backends': ['kernels']}, 'out')\n"
        "assert not any(name.partition('.')[0] == 'ray' or name.startswith('edgecore.sweeps.ray') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)
