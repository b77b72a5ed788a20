"""Options: the documented names and values, compile specs, and errors."""

from __future__ import annotations

from enum import Enum

import pytest
import torch
from pydantic import ValidationError

import edgecore
from edgecore.errors import CompileError
from edgecore.plugin import CompileSpec
from edgecore_coreml.conversion import registry
from edgecore_coreml.executorch import CoreMLBackend, coreml_partitioner
from edgecore_coreml.options import CoreMLOptions


class Target(Enum):
    iOS18 = 9


def test_options_become_the_compile_specs_of_executorch():
    options = CoreMLOptions(
        compute_unit="CPU_AND_NE", minimum_deployment_target=Target.iOS18, compute_precision="FLOAT16"
    )
    specs = {spec.key: spec.value for spec in options.to_specs()}
    assert specs == {
        "compute_units": b"cpu_and_ne",
        "model_type": b"model",
        "min_deployment_target": b"9",
        "model_compute_precision": b"float16",
    }
    assert CoreMLOptions.from_specs(options.to_specs()) == options


class ModelType(Enum):
    COMPILED_MODEL = "compiled_model"


def test_an_enumerator_of_executorch_is_the_type_of_the_model():
    options = CoreMLOptions(model_type=ModelType.COMPILED_MODEL)
    assert options.model_type == "COMPILED_MODEL" and CoreMLOptions.from_specs(options.to_specs()) == options


def test_the_other_options_survive_the_compile_specs():
    options = CoreMLOptions(lower_full_graph=True, enumerated_shapes='{"x": [[1, 2], [3, 2]]}')
    assert CoreMLOptions.from_specs(options.to_specs()) == options


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"compute_unit": "GPU"}, "ALL"),
        ({"minimum_deployment_target": "iOS14"}, "iOS15"),
        ({"model_type": "COMPILED"}, "MODEL"),
        ({"take_over_constant_data": False, "lower_full_graph": True}, "needs take_over_constant_data=True"),
        ({"skip_ops_for_coreml_delegation": ("nothing",)}, "no operator 'nothing'"),
        (
            {"lower_full_graph": True, "skip_ops_for_coreml_delegation": ("aten.add.tensor",)},
            "allows no skip_ops_for_coreml_delegation",
        ),
        ({"enumerated_shapes": {"x": [[1]]}}, "need lower_full_graph=True"),
        ({"enumerated_shapes": {"x": [[1]], "y": []}, "lower_full_graph": True}, "the same number of shapes"),
        (
            {
                "enumerated_shapes": {"x": [[1]], "y": [[1]]},
                "lower_full_graph": True,
                "minimum_deployment_target": "iOS17",
            },
            "need minimum_deployment_target='iOS18'",
        ),
    ],
)
def test_a_wrong_option_is_rejected(values, message):
    with pytest.raises(ValidationError, match=message):
        CoreMLOptions(**values)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.fft.rfft(torch.relu(x) + 1).real


def test_lower_full_graph_names_the_operator_that_is_not_supported():
    backend = edgecore.Backend("coreml", required=True, lower_full_graph=True)
    with pytest.raises(edgecore.errors.CompileError, match="lower_full_graph=True, and Core ML does not get"):
        edgecore.compile(Model().eval(), (torch.randn(2, 8),), backends=[backend])


def test_skipped_operators_are_not_delegated():
    class Add(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x + x)

    backend = edgecore.Backend("coreml", skip_ops_for_coreml_delegation=("aten.add.tensor",))
    text = str(edgecore.compile(Add().eval(), (torch.randn(4),), backends=[backend]).report())
    assert "operators delegated: 1 of 2" in text and "left out by an option" in text


def test_converters_are_found_by_the_names_of_operators():
    known = frozenset({"add", "mean.dim", "quantized_decomposed.dequantize_per_tensor"})
    for operator in ("aten.add.Tensor", "aten.mean.dim", "quantized_decomposed.dequantize_per_tensor.default"):
        assert registry.has_converter(known, operator)
    assert not registry.has_converter(known, "aten.mean.default")


@pytest.mark.parametrize(("version", "message"), [(None, "not installed"), ("8.3", "8.3 is installed, and")])
def test_a_missing_or_other_coremltools_is_named(monkeypatch, version, message):
    monkeypatch.setattr(registry, "coremltools_version", lambda: version)
    with pytest.raises(edgecore.errors.CompileError, match=message):
        registry.converters()


def test_the_partitioner_of_executorch_takes_the_documented_compile_specs():
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.sum() + y

    rows, columns = torch.export.Dim.AUTO(min=1, max=4), torch.export.Dim.AUTO(min=3, max=5)
    program = torch.export.export(
        Net().eval(), (torch.randn(4, 6), torch.randn(5, 11)), dynamic_shapes=[{0: rows}, {0: columns}]
    )
    specs = CoreMLBackend.generate_compile_specs(
        minimum_deployment_target=Target.iOS18, model_type=CoreMLBackend.MODEL_TYPE.MODEL
    )
    shapes = {"x": [[1, 6], [4, 6]], "y": [[3, 11], [5, 11]]}
    specs.append(CoreMLBackend.generate_enumerated_shapes_compile_spec(program, shapes))
    partitioner = coreml_partitioner(compile_specs=specs, lower_full_graph=True)
    lowered = edgecore.to_edge_transform_and_lower(program, partitioner=[partitioner]).to_executorch()
    (delegate,) = lowered.pte.program.execution_plan[0].delegates
    options = CoreMLOptions.from_specs([CompileSpec(spec.key, bytes(spec.value)) for spec in delegate.compile_specs])
    assert (options.minimum_deployment_target, options.compute_precision) == ("iOS18", "FLOAT16")
    assert options.enumerated_shapes == shapes

    with pytest.raises(ValueError, match="enumerated_shapes need lower_full_graph=True"):
        coreml_partitioner(compile_specs=specs)
    with pytest.raises(CompileError, match="enumerated_shapes names 'z'; the inputs are x, y"):
        CoreMLBackend.generate_enumerated_shapes_compile_spec(program, {"z": [[1, 6]]})
