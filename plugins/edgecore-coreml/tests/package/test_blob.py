"""The blob: both directions against ExecuTorch's own helper, and damaged bytes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch

import edgecore
from edgecore.errors import FormatError
from edgecore.format import read_pte
from edgecore_coreml.package.blob import read_blob, write_blob, write_reference
from edgecore_coreml.package.files import unpack

FILES = {
    "metadata.json": b'{"inputNames": []}',
    "model.mlpackage/Manifest.json": b"{}",
    "model.mlpackage/Data/com.apple.CoreML/model.mlmodel": bytes(range(256)),
    "model.mlpackage/Data/com.apple.CoreML/weights/weight.bin": b'{"nodes":[' * 50,
    'é "quoted".txt': b"text",
}


def helper():
    """Return ExecuTorch's module of two functions. Importing its package would import all of ExecuTorch."""
    package = importlib.util.find_spec("executorch")
    folders = list(package.submodule_search_locations or ()) if package else []
    paths = [path for folder in folders for path in Path(folder).glob("backends/apple/coreml/executorchcoreml.*.so")]
    if not paths:
        pytest.skip("ExecuTorch with its Core ML backend is not installed")
    spec = importlib.util.spec_from_file_location("executorchcoreml", paths[0])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def files_in(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_executorch_unpacks_our_blob_byte_for_byte(tmp_path):
    assert helper().unflatten_directory_contents(write_blob(FILES), str(tmp_path))
    assert files_in(tmp_path / "lowered_module") == FILES


def test_we_unpack_a_blob_of_executorch(tmp_path):
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    assert read_blob(helper().flatten_directory_contents(str(tmp_path)), {}) == FILES


def test_executorch_and_we_unpack_the_blob_of_a_model_alike(tmp_path):
    """The whole way: a compiled model, ExecuTorch's folder of it, that folder packed by ExecuTorch, and ours of that."""
    program = edgecore.compile(torch.nn.Linear(64, 32).eval(), (torch.randn(1, 64),), backends=["coreml"])
    (blob,) = map(bytes, read_pte(bytes(program.buffer)).delegate_blobs)
    assert helper().unflatten_directory_contents(blob, str(tmp_path))
    files = files_in(tmp_path / "lowered_module")
    assert files == read_blob(blob, {}) and "model.mlpackage/Data/com.apple.CoreML/weights/weight.bin" in files
    packed = helper().flatten_directory_contents(str(tmp_path / "lowered_module"))
    assert read_blob(packed, {}) == files and unpack(packed, {}) == unpack(blob, {})


def test_equal_folders_give_equal_blobs():
    blob = write_blob(FILES)
    assert write_blob(dict(reversed(FILES.items()))) == blob
    assert read_blob(blob, {}) == FILES
    assert read_blob(write_blob({"empty": b""}), {}) == {"empty": b""}


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a//b", "a/./b", "a\\b", ""])
def test_a_path_out_of_the_folder_is_rejected(path):
    with pytest.raises(ValueError, match="no path inside a folder"):
        write_blob({path: b""})
    with pytest.raises(FormatError, match="no name of a file"):
        read_blob(tree({path: 0}), {})


@pytest.mark.parametrize("files", [{"a": b"", "a/b": b""}, {"a/b": b"", "a": b""}])
def test_a_file_that_is_a_folder_too_is_rejected(files):
    with pytest.raises(ValueError, match="is a file and a folder"):
        write_blob(files)


def tree(files, **changes) -> bytes:
    file = {"name": "a", "kind": 0, "dataRegion": {"offset": 0, "size": 3}, "children": {}} | changes
    root = {"name": "root", "kind": 1, "dataRegion": {"offset": 0, "size": 0}, "children": files}
    return b"abc" + json.dumps({"nodes": [file, root]}).encode()[::-1]


def chain(depth) -> bytes:
    """Return a tree of folders, each in the next one, around a file."""
    region = {"offset": 0, "size": 0}
    nodes = [{"name": "f", "kind": 0, "dataRegion": region, "children": {}}]
    nodes += [{"name": "d", "kind": 1, "dataRegion": region, "children": {"d": number}} for number in range(depth)]
    return json.dumps({"nodes": nodes}).encode()[::-1]


def test_folders_may_be_nested():
    assert read_blob(chain(16), {}) == {"/".join("d" * 16): b""}


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"", "no tree of files is at its end"),
        (b"[" * 100_000, "no tree of files is at its end|has no nodes"),
        (b"CMJR{}", "is no reference to a model"),
        (b"CMJR[", "is no reference to a model"),
        (b'CMJR{"version": 2, "key": "k", "functionName": "f"}', "in an unknown way, version 2"),
        (write_reference("k", "f"), "has no named data 'k'"),
        (b'CMJR{"version": 1, "key": ["k"], "functionName": "f"}', r"has no named data \['k'\]"),
        (b"}{", "has no nodes"),
        (tree({"a": 2}), "2 is no node of its tree of files"),
        (tree({"a": True}), "True is no node"),
        (tree({"a": 1}), "or two folders have it"),
        (tree({"a": 0, "b": 0}), "or two folders have it"),
        (tree({"a": 0}, children=[]), "node 0 of its tree of files lacks a field"),
        (tree({"a": 0}, kind=2), "node 0 of its tree of files has a wrong number"),
        (tree({"a": 0}, children={"b": 0}), "node 0 of its tree of files is no file"),
        (tree({"a": 0}, dataRegion={"offset": 1, "size": 3}), "the file 'a' lies outside its 3 bytes"),
        (tree({"a": 0}, dataRegion={"offset": -1, "size": 3}), "has a wrong number"),
        (tree({"a": 0}, dataRegion={"offset": 0, "size": "3"}), "has a wrong number"),
        (tree({"a": 0}, dataRegion={"offset": 2**70, "size": 3}), "the file 'a' lies outside its 3 bytes"),
        (tree({"a": 0}, dataRegion=[]), "lacks a field"),
        (tree({"a": "0"}), "'0' is no node"),
        (tree({"a": [0]}), r"\[0\] is no node"),
        (tree({"a": 0}, kind=1, children={"b": 1}), "1 is no node of its tree of files, or two folders have it"),
        (tree({"a": 0}).replace(b'0 :"a"', b'0 :"a" ,0 :"a"'), "no tree of files is at its end"),
        (b'CMJR{"version": 1, "key": "k", "key": "l", "functionName": "f"}', "is no reference to a model"),
        (b"CMJR" + b" " * 2_000_000 + b"{}", "is no reference to a model"),
        (b'CMJR\xff{"version": 1}', "is no reference to a model"),
        (chain(17), "has more than 16 folders in each other"),
        (chain(5000), "has more than 16 folders in each other"),
    ],
)
def test_a_damaged_blob_gives_one_error(blob, message):
    with pytest.raises(FormatError, match=message):
        read_blob(blob, {})


def test_every_changed_or_missing_byte_is_read_or_rejected():
    blob = tree({"a": 0})
    for index in range(len(blob)):
        for damaged in (blob[:index], blob[index:], blob[:index] + bytes([blob[index] ^ 0x81]) + blob[index + 1 :]):
            try:
                assert sum(map(len, read_blob(damaged, {}).values())) <= len(blob)
            except FormatError:
                continue
