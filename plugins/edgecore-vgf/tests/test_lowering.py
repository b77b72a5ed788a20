"""Partitions become VGF files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from vgf_models import SUB_INPUTS, Sub, blob_of, sub_file

import edgecore
from edgecore.errors import FallbackWarning
from edgecore_vgf import lowering
from edgecore_vgf.vgf import read_vgf


def test_arguments_that_the_converter_changes_are_an_error(monkeypatch):
    vgf = read_vgf(blob_of(sub_file()))
    monkeypatch.setattr(lowering, "read_vgf", lambda blob: replace(vgf, inputs=vgf.inputs[::-1]))
    with pytest.warns(FallbackWarning, match=r"the converter changed the inputs of the delegate: float32\[1, 4\]"):
        edgecore.compile(Sub().eval(), SUB_INPUTS, backends=["vgf"])
