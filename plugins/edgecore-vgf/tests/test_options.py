"""Options of the backend, and `VgfCompileSpec` and `VgfQuantizer` with the documented arguments."""

from __future__ import annotations

import pytest
import torch

import edgecore
from edgecore_vgf.executorch import VgfCompileSpec
from edgecore_vgf.options import VgfOptions


def test_compile_specs_keep_the_options_under_the_keys_of_executorch():
    options = VgfOptions(
        tosa_spec="TOSA-1.0+INT+int16",
        compiler_flags=["--type-narrowing full", "--emit-debug-info"],
        dump_intermediate_artifacts_to="folder",
    )
    specs = {spec.key: spec.value for spec in options.to_specs()}
    assert specs == {
        "tosa_spec": b"TOSA-1.0+INT+int16",
        "compile_flags": b"--type-narrowing full --emit-debug-info",
        "output_format": b"vgf",
        "debug_artifact_path": b"folder",
    }
    assert VgfOptions.from_specs(options.to_specs()) == options
    assert VgfOptions.from_specs(VgfOptions().to_specs()) == VgfOptions()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"tosa_spec": "TOSA-2.0+FP"}, "only version 1 of TOSA is supported"),
        ({"tosa_spec": "TOSA-1.0"}, "has no profile"),
        ({"tosa_spec": "TOSA-1.0+INT+u55"}, "u55 is for Ethos-U55, whose backend is edgecore-ethosu"),
        ({"compiler_flags": ["--output=x.vgf"]}, "edgecore-vgf sets --output itself"),
        ({"compiler_flags": ["--tosa-flatbuffer"]}, "with --tosa-flatbuffer the converter writes no VGF file"),
    ],
)
def test_an_impossible_choice_is_one_error(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        VgfCompileSpec(**arguments)


def test_an_impossible_choice_stops_the_compilation():
    backend = edgecore.Backend("vgf", tosa_spec="TOSA-1.0")
    with pytest.raises(edgecore.errors.CompileError, match="has no profile"):
        edgecore.compile(torch.nn.ReLU().eval(), (torch.ones(2),), backends=[backend])


def test_a_profile_of_integers_refuses_a_model_that_is_not_quantized():
    backend = edgecore.Backend("vgf", required=True, tosa_spec="TOSA-1.0+INT")
    with pytest.raises(
        edgecore.errors.CompileError, match=r"is not quantized, and TOSA-1\.0\+INT computes with integers only"
    ):
        edgecore.compile(torch.nn.ReLU().eval(), (torch.ones(2),), backends=[backend])
