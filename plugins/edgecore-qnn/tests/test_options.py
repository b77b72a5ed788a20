"""Options of the backend, and the same under the names of ExecuTorch."""

from __future__ import annotations

import pytest
import torch
from qnn_models import compile_model

from edgecore.errors import CompileError
from edgecore_qnn.executorch import (
    QcomChipset,
    QnnPartitioner,
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
    to_edge_transform_and_lower_to_qnn,
)
from edgecore_qnn.options import QnnOptions
from edgecore_qnn.provider.socs import SOCS


def test_the_socs_of_the_documentation_are_there():
    documented = (
        "SA8295 SM8450 SM8475 SM8550 SM8650 SM8750 SSG2115P SSG2125P SXR1230P SXR2230P SXR2330P QCM6490 QCS9100".split()
    )
    assert set(documented) <= set(SOCS)
    assert (SOCS["SM8650"].number, SOCS["SM8650"].htp_arch, SOCS["SM8750"].htp_arch) == (57, 75, 79)


def test_only_an_npu_of_v68_has_no_floating_point():
    assert [soc.name for soc in SOCS.values() if not soc.has_fp16] == ["SM8350", "SA8295", "QCM6490"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"soc_model": "SM1"}, "'SM1' is no SoC: there are SM8350, "),
        ({"performance_mode": "fast"}, "'fast' is no performance mode: there are default, burst"),
        ({"optimization_level": 4}, "optimization_level"),
        ({"operators": "no_such_operator"}, "no operator 'no_such_operator'"),
        ({"online_prepare": True}, "online_prepare: .* writes compiled context binaries only"),
        ({"use_multi_contexts": True}, "use_multi_contexts: each delegate has one context"),
        (
            {"use_weight_sharing": True},
            "use_weight_sharing: QNN's emulator .* crashes when it loads a context of several graphs",
        ),
        ({"hvx_threads": 2}, "hvx_threads: .* the NPU uses all its HVX threads"),
        ({"use_dlbc": True}, "use_dlbc: .* has no such option"),
        ({"use_slc_allocator": True}, "use_slc_allocator: .* has no such option"),
        ({"shared_buffer": True}, "shared_buffer: the delegate passes the memory"),
        ({"op_package_options": "x"}, "op_package_options: operator packages need Qualcomm's SDK"),
    ],
)
def test_an_impossible_option_is_an_error_that_says_why(options: dict[str, object], message: str):
    with pytest.raises(CompileError, match=message):
        compile_model(torch.nn.ReLU(), (torch.ones(1, 4),), **options)


def test_options_reach_the_compile_specs_and_come_back():
    options = QnnOptions(soc_model="sm8750", vtcm_mb=4, optimization_level=3, performance_mode="burst")
    assert QnnOptions.from_specs(options.to_specs()) == options
    assert options.provider_options() == {"vtcm_mb": "4", "htp_graph_finalization_optimization_mode": "3"}
    assert {spec.key: spec.value for spec in options.to_specs()}["performance_mode"] == b"burst"


def test_the_compile_specs_of_executorch_have_the_documented_options():
    htp = generate_htp_compiler_spec(use_fp16=False)
    options = QnnOptions.from_specs(generate_qnn_executorch_compiler_spec(QcomChipset.SM8550, htp))
    assert (options.soc_model, options.use_fp16, options.performance_mode) == ("SM8550", False, "burst")
    with pytest.raises(ValueError, match="use_weight_sharing: QNN's emulator"):
        generate_htp_compiler_spec(use_fp16=True, use_weight_sharing=True)
    with pytest.raises(ValueError, match="profile_level is 7: there are 0"):
        generate_qnn_executorch_compiler_spec(QcomChipset.SM8550, htp, profile_level=7)
    with pytest.raises(ValueError, match="online_prepare"):
        generate_qnn_executorch_compiler_spec(QcomChipset.SM8550, htp, online_prepare=True)


def test_the_partitioner_of_executorch_is_usable_in_its_flow():
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(x + 1)

    from edgecore import to_edge_transform_and_lower

    specs = generate_qnn_executorch_compiler_spec(QcomChipset.SM8650, generate_htp_compiler_spec(use_fp16=True))
    partitioner = QnnPartitioner(specs, skip_node_op_set={"aten.sigmoid.default"}, skip_mutable_buffer=True)
    program = to_edge_transform_and_lower(
        torch.export.export(Model().eval(), (torch.randn(2, 8),)), partitioner=[partitioner]
    ).to_executorch()
    assert len(bytes(program.buffer)) > 4096


def test_the_documented_function_lowers_each_method_with_its_compile_specs():
    specs = generate_qnn_executorch_compiler_spec(QcomChipset.SM8650, generate_htp_compiler_spec(use_fp16=True))
    models = {"first": torch.nn.Sigmoid(), "second": torch.nn.Tanh()}
    inputs = {"first": (torch.randn(2, 8),), "second": (torch.randn(3, 4),)}
    program = to_edge_transform_and_lower_to_qnn(models, inputs, specs, constant_methods={"size": 8}).to_executorch()
    plans = {plan.name: plan for plan in program.pte.program.execution_plan}
    assert set(plans) == {"first", "second", "size"}
    assert [plans[name].delegates[0].id for name in models] == ["QnnBackend"] * 2
    with pytest.raises(ValueError, match="inputs has no entry for the method 'second'"):
        to_edge_transform_and_lower_to_qnn(models, {"first": inputs["first"]}, specs)
