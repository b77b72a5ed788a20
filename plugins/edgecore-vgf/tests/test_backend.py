"""The package as edgecore finds it: the emulation layer, and the rows of `edgecore doctor`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgecore_vgf import backend, versions


def test_doctor_lists_converter_layer_and_loader(monkeypatch):
    rows = {name: (passed, detail) for name, passed, detail, _ in backend.self_test()}
    assert list(rows) == ["model converter", "emulation layer", "Vulkan loader"]
    assert rows["model converter"][1].startswith("0.11")
    monkeypatch.setattr(versions, "installed", lambda package: None)
    monkeypatch.setattr(versions, "loader_version", lambda path: None)
    converter, layer, loader = versions.self_test()
    assert converter[1] and layer[1] and "not installed" in converter[2] and "not installed" in layer[2]
    assert loader[1:] == (False, "libvulkan.so.1 does not load", "apt-get install libvulkan1")


def test_the_loader_finds_the_manifests_of_the_layer_by_the_environment(monkeypatch):
    folder = backend.emulation_folder()
    if folder is None:
        pytest.skip("the emulation layer is not installed")
    manifests = str(Path(folder) / "share/vulkan/explicit_layer.d")
    monkeypatch.delenv("VK_LAYER_PATH", raising=False)
    monkeypatch.setenv("VK_ADD_LAYER_PATH", "/other")
    for _ in range(2):
        assert backend.load_options() == {"emulation": folder}
        assert os.environ["VK_ADD_LAYER_PATH"] == f"{manifests}:/other"
    monkeypatch.setenv("VK_LAYER_PATH", "/mine")  # with which the loader ignores the other variable
    backend.load_options()
    assert os.environ["VK_LAYER_PATH"] == f"{manifests}:/mine"
