"""Whole networks in every recipe: the runtime gives what quantized eager gives, as far as roundings explain."""

import pytest
import zoo

import edgecore

pytest.importorskip("edgecore_xnnpack")
pytestmark = pytest.mark.full


@pytest.mark.parametrize("recipe", ["int8", "int8-dynamic", "int4-weights", "fp16"])
@pytest.mark.parametrize("name", zoo.ALL)
def test_outputs_are_those_of_quantized_eager(name, recipe):
    pytest.importorskip("torchvision")
    if name == "bert_mini":
        pytest.importorskip("transformers")
    model, inputs = zoo.make(name)
    calls = [inputs, zoo.other_inputs(inputs)]
    calibration = calls if recipe == "int8" else None
    program = edgecore.compile(model, inputs, backends=["xnnpack"], quantize=recipe, calibration=calibration)
    found = program.compare(model, calls)
    assert found.ok, found
