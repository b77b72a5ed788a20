"""Send requests to ONNX Runtime's QNN provider. Each request runs in a separate process; answers are cached.

Each user has a cache folder. The key of an entry is a hash of everything that the answer depends on: model, options,
and versions of the packages.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from math import ceil
from pathlib import Path
from typing import Any, Literal

from edgecore.errors import CompileError
from edgecore.plugin import exit_text, run_command
from edgecore_qnn.provider.child import FAILURE
from edgecore_qnn.provider.socs import Soc

INSTALL = 'pip install "edgecore-qnn[compile]"'
PACKAGES = ("onnxruntime", "onnxruntime-qnn", "onnx")
CONTEXT_MODEL = "context.onnx"
LOG = "provider.log"
Task = Literal["compile", "assign", "dump"]

_CACHE_FORMAT = 1
_PROFILE = "profile.csv"
_CACHE_BYTES = 2**30
_INFO, _VERBOSE = 1, 0  # log severities of ONNX Runtime
_LINES = 3
_GRACE = 5  # the child ends itself this many seconds after the parent's time limit
_NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1"}
"""Environment variable that keeps ONNX Runtime (1.29 and later) from sending events to Microsoft."""
_COLOR = re.compile(r"\x1b?\[[0-9;]*m")
_LOG_HEAD = re.compile(r"^\S+ \S+ \[([A-Z]):onnxruntime:[^\]]*\] ?")
_CORE_API = re.compile(r"Found valid interface, version: ([\d.]+)")
_NODE_NAME = re.compile(r"Node name: (\S+) Node index")
_REASON = re.compile(r"\s*REASON : (.*)")


@dataclass(frozen=True)
class Answer:
    """The provider's answer to a request.

    Attributes:
        result: The JSON that the child process wrote.
        context: The context binary; empty unless the task is `compile`.
        log: The provider's log.
    """

    result: Mapping[str, Any]
    context: bytes
    log: str


def versions() -> dict[str, str]:
    """Map each package needed to compile to its version.

    Raises:
        CompileError: One of the packages is not installed.
    """
    installed = {}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            raise CompileError(f"{package} is not installed, which compiles for Qualcomm's NPUs: {INSTALL}") from None
    return installed


def is_installed() -> bool:
    """Return True if the packages needed to compile are installed."""
    try:
        versions()
    except CompileError:
        return False
    return True


def ask(task: Task, model: bytes, soc: Soc, provider_options: Mapping[str, str], *, seconds: float) -> Answer:
    """Ask the provider about a model.

    Args:
        task: `compile`: compile the model. `assign`: find the nodes that the provider supports.
        model: The ONNX model.
        soc: The target.
        provider_options: Options of the provider, except the target.
        seconds: Time limit.

    Raises:
        CompileError: The provider is not installed, refuses the model, or takes longer than the time limit.
    """
    options = {"backend_type": "htp", "soc_model": str(soc.number), **provider_options}
    request = {"task": task, "provider_options": options, "session_options": _session_options(task)}
    key = _key(model, {**request, "versions": versions()})
    entry = cache_folder() / key
    if (answer := _read(entry)) is not None:
        return answer
    with tempfile.TemporaryDirectory(prefix="edgecore-qnn-") as name:
        request_folder = Path(name)
        _write_request(request_folder, model, request, seconds)
        try:
            _run_child(request_folder, soc, seconds)
            answer = _answer(request_folder, task)
        except CompileError:
            messages = _refusals(_log(request_folder)) if task == "assign" else {}
            if not messages:
                raise
            answer = Answer({"refused": messages}, b"", "")  # the provider refused all nodes, so none is left
    _store(entry, answer)
    return answer


def dump(model: bytes, soc: Soc, provider_options: Mapping[str, str], folder: Path, *, seconds: float) -> None:
    """Write a model's graph as QNN's JSON and as a DLC into an existing folder.

    Args:
        model: The ONNX model.
        soc: The target.
        provider_options: Options of the provider, except the target.
        folder: The folder.
        seconds: Time limit for each of the two requests.

    Raises:
        CompileError: The provider cannot write a file.
    """
    json_options = {"backend_type": "htp", **provider_options, "dump_json_qnn_graph": "1", "json_qnn_graph_dir": "."}
    dlc_options = {"backend_type": "ir", "dump_qnn_ir_dlc": "1", "dump_qnn_ir_dlc_dir": "."}
    for options, suffixes in ((json_options, (".json", ".log")), (dlc_options, (".dlc",))):
        with tempfile.TemporaryDirectory(prefix="edgecore-qnn-") as name:
            request_folder = Path(name)
            provider = {**options, "soc_model": str(soc.number)} if options["backend_type"] == "htp" else options
            request = {"task": "dump", "provider_options": provider, "session_options": {}}
            _write_request(request_folder, model, request, seconds)
            _run_child(request_folder, soc, seconds)
            for path in sorted(request_folder.iterdir()):
                if path.suffix in suffixes and path.name != "request.json":
                    # Rename the provider's files: they are named after the graph, whose name is a hash.
                    kind = "graph_tensors" if path.stem.endswith("_tensor_log") else "graph"
                    shutil.copy(path, folder / (path.name if path.name == LOG else kind + path.suffix))


def profile(model: bytes, soc: Soc, provider_options: Mapping[str, str], level: str, *, seconds: float) -> str:
    """Compile a model without the cache, and return the profile of its compilation as CSV.

    Args:
        model: The ONNX model.
        soc: The target.
        provider_options: Options of the provider, except the target.
        level: "basic" or "detailed".
        seconds: Time limit.

    Raises:
        CompileError: The provider cannot compile the model, or writes no profile.
    """
    options = {"backend_type": "htp", "soc_model": str(soc.number), **provider_options}
    options |= {"profiling_level": level, "profiling_file_path": _PROFILE}
    with tempfile.TemporaryDirectory(prefix="edgecore-qnn-") as name:
        request_folder = Path(name)
        _write_request(
            request_folder, model, {"task": "dump", "provider_options": options, "session_options": {}}, seconds
        )
        _run_child(request_folder, soc, seconds)
        try:
            return (request_folder / _PROFILE).read_text(encoding="utf-8")
        except OSError as error:
            raise CompileError(f"the QNN provider wrote no profile for {soc.name}: {error}") from None


def _write_request(request_folder: Path, model: bytes, request: Mapping[str, Any], seconds: float) -> None:
    (request_folder / "model.onnx").write_bytes(model)
    severity = _INFO if request["task"] == "compile" else _VERBOSE
    (request_folder / "request.json").write_text(
        json.dumps({**request, "log_severity": severity, "seconds": ceil(seconds) + _GRACE}), encoding="utf-8"
    )


def cache_folder() -> Path:
    """Return the cache folder: `EDGECORE_QNN_CACHE`, or the system's usual place."""
    if chosen := os.environ.get("EDGECORE_QNN_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "edgecore-qnn" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "edgecore-qnn"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgecore-qnn"


def _session_options(task: Task) -> dict[str, str]:
    if task == "assign":
        return {"session.record_ep_graph_assignment_info": "1"}
    return {
        "session.disable_cpu_ep_fallback": "1",
        "ep.context_enable": "1",
        "ep.context_embed_mode": "0",
        "ep.context_file_path": CONTEXT_MODEL,  # path relative to the child's working folder
    }


def _key(model: bytes, facts: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(model)
    digest.update(json.dumps([_CACHE_FORMAT, facts], sort_keys=True).encode())
    return digest.hexdigest()


def _run_child(request_folder: Path, soc: Soc, seconds: float) -> None:
    command = [sys.executable, "-m", "edgecore_qnn.provider.child", str(request_folder)]
    done = run_command(command, seconds=seconds, folder=request_folder, environment=_NO_TELEMETRY | os.environ)
    (request_folder / LOG).write_text(done.err, encoding="utf-8")
    if done.stopped:
        raise CompileError(
            f"the QNN provider did not answer for {soc.name} within {seconds:g} s: set the option timeout to more "
            "seconds, or delegate less"
        )
    if done.status:
        raise CompileError(
            f"the QNN provider cannot compile for {soc.name}: {_message(_log(request_folder), done.status)}"
        )


def _log(request_folder: Path) -> str:
    return _COLOR.sub("", (request_folder / LOG).read_text(encoding="utf-8", errors="replace"))


def _message(log: str, status: int) -> str:
    """Return the child's error message, or the last line of its log if it crashed."""
    _, mark, text = log.rpartition(FAILURE)
    lines = [line.strip() for line in (text if mark else log).splitlines() if line.strip()]
    if mark:
        return " ".join(lines[:_LINES])
    last = f", after {_LOG_HEAD.sub('', lines[-1])!r}" if lines else ""
    return f"its process ended with {exit_text(status)}{last}"


def _answer(request_folder: Path, task: Task) -> Answer:
    log = _log(request_folder)
    if task == "assign":
        messages = _refusals(log)
        names = json.loads((request_folder / "refused.json").read_text(encoding="utf-8"))
        return Answer({"refused": {name: messages.get(name, "") for name in names}}, b"", "")
    facts = _facts(request_folder / CONTEXT_MODEL)
    match = _CORE_API.search(log)
    facts["core_api"] = match.group(1) if match else ""
    return Answer(facts, (request_folder / facts["context"]).read_bytes(), log)


def _facts(path: Path) -> dict[str, Any]:
    """Read the attributes of the EPContext node. It must be the only node of the model that the provider wrote."""
    import onnx

    if not path.is_file():
        raise CompileError("the QNN provider found nothing to compile: all of the graph is constant")
    nodes = list(onnx.load(path, load_external_data=False).graph.node)
    if len(nodes) != 1 or nodes[0].op_type != "EPContext":
        kinds = ", ".join(sorted({node.op_type for node in nodes}))
        raise CompileError(f"the QNN provider made {len(nodes)} nodes ({kinds}) of the graph, not one context binary")
    node = nodes[0]
    attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    return {
        "context": attributes["ep_cache_context"].decode(),
        "sdk_build": attributes["ep_sdk_version"].decode(),
        "partition_name": attributes["partition_name"].decode(),
        "graph": node.name,
        "inputs": list(node.input),
        "outputs": list(node.output),
    }


def _refusals(log: str) -> dict[str, str]:
    """Return the provider's messages about refused nodes, by node name.

    The log lists the nodes of each group (such as an operator with its quantizers), then a message about the group.
    """
    messages: dict[str, str] = {}
    names: list[str] = []
    is_refused = False
    for line in log.splitlines():
        if _LOG_HEAD.match(line):
            is_refused, names = "Validation FAILED" in line, []
        elif is_refused and (node := _NODE_NAME.search(line)):
            names.append(node.group(1))
        elif is_refused and (reason := _REASON.match(line)):
            messages.update(dict.fromkeys(names, reason.group(1).strip()))
    return messages


def _read(entry: Path) -> Answer | None:
    """Return the answer in a cache entry; None if the entry is missing or damaged."""
    try:
        stored = json.loads((entry / "answer.json").read_text(encoding="utf-8"))
        context = (entry / "context.bin").read_bytes()
        if hashlib.sha256(context).hexdigest() != stored["sha256"]:
            return None
        os.utime(entry)
        return Answer(stored["result"], context, stored["log"])
    except (OSError, ValueError, KeyError):
        return None


def _store(entry: Path, answer: Answer) -> None:
    """Write a cache entry. If the cache cannot be written, do nothing."""
    stored = {
        "result": answer.result,
        "log": answer.log,
        "sha256": hashlib.sha256(answer.context).hexdigest(),
    }
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=entry.parent, prefix="new-") as name:
            fresh = Path(name) / entry.name
            fresh.mkdir()
            (fresh / "context.bin").write_bytes(answer.context)
            (fresh / "answer.json").write_text(json.dumps(stored), encoding="utf-8")
            shutil.rmtree(entry, ignore_errors=True)
            fresh.rename(entry)
        _forget_oldest(entry.parent)
    except OSError:
        return


def _forget_oldest(folder: Path) -> None:
    """Delete the least recently used entries until the cache is below its size limit."""
    entries = []
    for path in folder.iterdir():
        context = path / "context.bin"
        if context.is_file():
            entries.append((path.stat().st_mtime, context.stat().st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= _CACHE_BYTES:
            break
        shutil.rmtree(path, ignore_errors=True)
        total -= size
