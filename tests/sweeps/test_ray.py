"""Sweeps on a Ray cluster of three nodes on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sweep_files import MODEL, write_nets

import edgecore
from edgecore.errors import EdgecoreError
from edgecore.sweeps import read_results

LOGGED = """
import os, time
import sweep_nets

def logged(number):
    with open(os.environ["SWEEP_LOG"], "a") as log:
        print(number, "begins", file=log)
    if os.environ.get("SWEEP_WAITS"):
        time.sleep(5)
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
        # The path of Ray's sockets has a short limit.
        self.folder = folder
        self.nodes: list[subprocess.Popen[bytes]] = []

    def start(self, *extra: str) -> None:
        head = ["--head", f"--port={self.address.rpartition(':')[2]}", "--include-dashboard=false",
                f"--temp-dir={self.folder}", "--resources", '{"timing": 1, "emulator": 1}']  # fmt: skip
        command = [
            sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--node-ip-address=127.0.0.1", "--num-cpus=1",
            "--memory=3500000000", "--object-store-memory=80000000", "--disable-usage-stats",
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


@pytest.fixture
def cluster(tmp_path_factory, monkeypatch):
    pytest.importorskip("ray", reason="needs edgecore[ray]")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        made = Cluster(Path(folder))
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
    monkeypatch.setenv("SWEEP_LOG", str(tmp_path / "log"))


def begun(folder):
    log = folder / "log"
    return log.read_text().splitlines() if log.exists() else []


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
