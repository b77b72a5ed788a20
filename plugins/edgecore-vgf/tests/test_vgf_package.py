"""The installed package: README, checks, versions, the search for the emulation layer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from edgecore.sdk import operators_markdown, options_markdown
from edgecore_vgf import backend, versions
from edgecore_vgf.compiler import VgfCompiler

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_tables_of_the_readme_are_those_of_the_code():
    """If this fails, replace the tables of the README by what `edgecore backends vgf --markdown` prints."""
    assert options_markdown(VgfCompiler.Options) in README
    assert operators_markdown(VgfCompiler().operator_support()) in README


@pytest.mark.usefixtures("device")
def test_the_examples_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    for block in README.split("```python\n")[1:]:
        exec(block.partition("```")[0], names)
    assert (tmp_path / "model.pte").is_file() and "1 x VgfBackend" in str(names["program"].report())
    torch.testing.assert_close(names["result"], names["model"](*names["example"]), rtol=0, atol=1e-4)


def test_the_check_of_the_package_names_a_missing_library(monkeypatch):
    assert list(VgfCompiler().check()) == []
    monkeypatch.setattr(backend, "native_library", lambda: "/no/libedgecore_vgf.so")
    (library,) = VgfCompiler().check()
    assert library.what == "the delegate's library /no/libedgecore_vgf.so is missing"


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
