"""Requests to the provider: their cache, their errors, and that equal models give equal bytes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from qnn_models import Small, blobs, compile_model, image

from edgecore.errors import CompileError, FallbackWarning
from edgecore.plugin import Ended
from edgecore_qnn.blob import decode
from edgecore_qnn.provider import process as provider
from edgecore_qnn.provider.socs import SOCS

SOC = SOCS["SM8650"]


def model_of(op_type: str, **attributes: object) -> bytes:
    """Return a model of one operator on float32 [2, 8], which a relu reads."""
    nodes = [
        helper.make_node(op_type, ["x"], ["y"], name="first", **attributes),
        helper.make_node("Relu", ["y"], ["z"], name="second"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 8]) for name in "xz"]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return bytes(model.SerializeToString())


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of the requests that were not answered from the cache."""
    folders: list[Path] = []
    original = provider._run_child

    def recorded(work: Path, *args: object) -> None:
        folders.append(work)
        original(work, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(provider, "_run_child", recorded)
    return folders


def test_a_model_is_compiled_once_and_then_found_in_the_cache(own_cache, children):
    model, example = Small().eval(), image()
    first = compile_model(model, example)
    assert len(children) == 1  # the partitioner's question and the compilation are the same request
    again = compile_model(model, example)
    assert len(children) == 1 and blobs(first) == blobs(again)


def test_equal_models_give_equal_bytes_without_the_cache(own_cache, monkeypatch, tmp_path):
    model, example = Small().eval(), image()
    first = blobs(compile_model(model, example, "int8"))
    monkeypatch.setenv("EDGECORE_QNN_CACHE", str(tmp_path / "other"))
    assert first == blobs(compile_model(model, example, "int8"))


def test_two_socs_give_different_context_binaries():
    model, example = Small().eval(), image()
    contexts = []
    for name in ("SM8650", "SM8750"):
        (blob,) = blobs(compile_model(model, example, soc_model=name))
        header, context = decode(blob)
        assert (header.soc, header.soc_id) == (name, SOCS[name].number)
        contexts.append(context)
    assert contexts[0] != contexts[1]


def test_a_damaged_entry_of_the_cache_is_not_used(own_cache, children):
    first = provider.ask("compile", model_of("Abs"), SOC, {}, seconds=60)
    (context,) = own_cache.glob("*/context.bin")
    context.write_bytes(context.read_bytes()[:-1] + b"?")
    assert provider.ask("compile", model_of("Abs"), SOC, {}, seconds=60).context == first.context
    assert len(children) == 2


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("EDGECORE_QNN_CACHE", str(tmp_path / "file" / "cache"))
    assert provider.ask("compile", model_of("Abs"), SOC, {}, seconds=60).context


def test_the_oldest_entries_are_deleted_above_the_limit(own_cache, monkeypatch):
    provider.ask("compile", model_of("Abs"), SOC, {}, seconds=60)
    (old,) = own_cache.iterdir()
    os.utime(old, (1, 1))
    monkeypatch.setattr(provider, "_CACHE_BYTES", 1)
    provider.ask("compile", model_of("Neg"), SOC, {}, seconds=60)
    assert not old.exists()


def test_the_answer_has_the_versions_of_sdk_and_interface():
    result = provider.ask("compile", model_of("Abs"), SOC, {}, seconds=60).result
    assert result["sdk_build"].startswith("v2.") and result["core_api"].count(".") == 2
    assert (result["inputs"], result["outputs"]) == (["x"], ["z"])


def test_a_refused_node_has_the_providers_message():
    answer = provider.ask("assign", model_of("Erf"), SOC, {}, seconds=60)
    assert list(answer.result["refused"]) == ["first"]
    assert "`Erf` are not supported" in answer.result["refused"]["first"]


def test_a_graph_that_needs_the_cpu_is_not_compiled():
    with pytest.raises(CompileError, match="the QNN provider cannot compile for SM8650: .*CPU"):
        provider.ask("compile", model_of("Erf"), SOC, {}, seconds=60)


def test_a_graph_of_constants_is_not_compiled():
    node = helper.make_node("Constant", [], ["z"], value_floats=[1.0, 2.0])
    graph = helper.make_graph([node], "graph", [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(CompileError, match="QNN provider"):
        provider.ask("compile", bytes(model.SerializeToString()), SOC, {}, seconds=60)


def test_a_request_has_a_time_limit(own_cache):
    with pytest.raises(CompileError, match=r"did not answer for SM8650 within 0.01 s: set the option timeout"):
        provider.ask("compile", model_of("Abs"), SOC, {}, seconds=0.01)


def test_a_crash_of_the_provider_is_one_sentence(own_cache, monkeypatch):
    monkeypatch.setattr(provider, "run_command", lambda *_, **__: Ended(-11, "", "last words\n"))
    with pytest.raises(CompileError, match=r"its process ended with signal 11 \(SIGSEGV\), after 'last words'"):
        provider.ask("compile", model_of("Abs"), SOC, {}, seconds=60)


def test_a_machine_without_a_device_of_the_provider_is_an_error(own_cache, monkeypatch):
    answer = f"{provider.FAILURE}the QNN provider offers no device on this machine\n"
    monkeypatch.setattr(provider, "run_command", lambda *_, **__: Ended(1, "", answer))
    with pytest.raises(CompileError, match="SM8650: the QNN provider offers no device on this machine"):
        provider.ask("compile", model_of("Abs"), SOC, {}, seconds=60)


def test_a_partition_that_the_provider_refuses_late_names_the_node(monkeypatch):
    """If the partitioner did not ask, compiling a partition names the node that the provider refuses."""
    from edgecore_qnn import partitioner

    monkeypatch.setattr(partitioner, "is_installed", lambda: False)
    monkeypatch.setattr(partitioner, "_computes_floats", lambda node: False)
    with pytest.warns(FallbackWarning, match=r"aten\.\w+.* \(node .*the QNN provider does not take it for QCM6490"):
        compile_model(Small(), image(), soc_model="QCM6490")


def test_the_report_has_the_times_of_the_compilation():
    report = str(compile_model(torch.nn.ReLU(), (torch.randn(1, 8),), profile_level="basic").report())
    assert re.search(r"QNN \(finalize\) time: \d+ us", report)
    assert "Graph Optimizations" not in report
    report = str(compile_model(torch.nn.ReLU(), (torch.randn(1, 8),), profile_level="detailed").report())
    assert re.search(r"Graph Optimizations: \d+ us", report)


def test_compiling_reports_nothing_to_microsoft(own_cache, tmp_path, monkeypatch):
    """With telemetry ONNX Runtime stores an identifier of the device and unsent events in the user's cache folder."""
    for name in ("CI", "ORT_DISABLE_TELEMETRY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(home))
    assert provider.ask("compile", model_of("Abs"), SOC, {}, seconds=60).context
    assert not list(home.rglob("*onnxruntime*"))


def test_artifacts_have_the_graph_as_onnx_json_and_dlc(tmp_path):
    compile_model(
        torch.nn.ReLU(), (torch.randn(1, 8),), dump_intermediate_artifacts_to=str(tmp_path), profile_level="basic"
    )
    (folder,) = tmp_path.iterdir()
    names = {path.name for path in folder.iterdir()}
    expected = "model.onnx context.bin delegate.bin graph.json graph_tensors.json graph.dlc provider.log profile.csv"
    assert folder.name.startswith("qnn-SM8650-") and set(expected.split()) <= names
    onnx.checker.check_model(onnx.load(folder / "model.onnx"))
    assert "graph" in json.loads((folder / "graph.json").read_text())
    assert decode((folder / "delegate.bin").read_bytes())[1] == (folder / "context.bin").read_bytes()
