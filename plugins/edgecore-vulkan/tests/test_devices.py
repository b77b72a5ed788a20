"""`edgecore doctor vulkan` and loading a file, with devices and without: no library, no driver, no device, an old one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import edgecore
import edgecore_vulkan
from edgecore.plugin.diagnosis.doctor import Finding, diagnose
from edgecore_vulkan.devices import list_devices

LOAD = """
import sys, edgecore
try:
    edgecore.load(sys.argv[1])
except edgecore.errors.EdgecoreError as error:
    print(error)
"""
# What the machine lacks: a part of the sentence, and of the command that repairs it.
SENTENCES = {
    "library": ("has no Vulkan library (libvulkan.so.1)", "mesa-vulkan-drivers"),
    "driver": ("has the Vulkan library, but no Vulkan driver", "mesa-vulkan-drivers"),
    "device": ("has a Vulkan driver, but no device", "mesa-vulkan-drivers"),
    "version": ("the Vulkan driver of Fake GPU has version 1.0, and 1.1 is needed", "update the driver"),
}


def own_findings() -> list[Finding]:
    (diagnosis,) = diagnose("vulkan")
    return [finding for finding in diagnosis.findings if finding.is_part]


def test_devices_and_their_features_are_listed():
    devices = list_devices(edgecore_vulkan.native_library())
    assert [device.index for device in devices] == list(range(len(devices)))
    assert sum(device.is_default for device in devices) == 1
    findings = own_findings()
    assert all(finding.ok for finding in findings)
    for device in devices:
        text = " ".join(finding.detail for finding in findings if str(device.index) in finding.check)
        assert device.name in text and device.driver in text and f"Vulkan {device.api}" in text
        for feature in ("16-bit storage", "8-bit storage", "subgroups", "cooperative matrices", "timestamps"):
            assert text.count(feature) == 1
            assert sum(feature in names for names in (device.used, device.unused, device.missing)) == 1


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a delegate."""
    path = tmp_path_factory.mktemp("files") / "model.pte"
    edgecore.compile(torch.nn.ReLU().eval(), (torch.randn(4),), backends=["vulkan"]).save(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("lack", SENTENCES)
def test_what_is_missing_is_one_sentence(lack, tmp_path, saved, monkeypatch):
    make_machine(lack, tmp_path, monkeypatch)
    sentence, remedy = SENTENCES[lack]
    (finding,) = own_findings()
    assert not finding.ok and sentence in finding.detail and remedy in finding.remedy
    done = subprocess.run([sys.executable, "-c", LOAD, saved], capture_output=True, text=True, check=True)
    assert finding.detail in done.stdout and done.stdout.count("\n") == 1


def make_machine(lack: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give new processes a Vulkan that lacks something."""
    if lack == "library":
        for name in ("libvulkan.so", "libvulkan.so.1"):
            (folder / name).write_bytes(b"no library")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
        return
    manifest = folder / "driver.json"
    if lack != "driver":
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None:
            pytest.skip("no C compiler for a driver without devices")
        library = folder / "libdriver.so"
        source = Path(__file__).with_name("fake_driver.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
        icd = {"library_path": str(library), "api_version": "1.1.0"}
        manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}))
    monkeypatch.setenv("FAKE_DEVICES", "1" if lack == "version" else "0")
    for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.setenv(variable, str(manifest))
