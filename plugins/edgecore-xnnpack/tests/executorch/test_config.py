"""ExecuTorch's names for the options of `XnnpackPartitioner`."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import edgecore
import edgecore_xnnpack
from edgecore import stability
from edgecore.errors import NoEffectWarning
from edgecore_xnnpack import partitioner
from edgecore_xnnpack.executorch import config
from edgecore_xnnpack.executorch.config import CONFIGS, ConfigPrecisionType
from edgecore_xnnpack.executorch.partitioner import XnnpackPartitioner, get_xnnpack_edge_compile_config
from edgecore_xnnpack.operators import TABLE

INPUTS = (torch.randn(2, 4),)


def outside(partitioner: XnnpackPartitioner) -> list[str]:
    """The operators that the partitioner leaves to kernels."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).eval()
    edge = edgecore.to_edge_transform_and_lower(torch.export.export(model, INPUTS), partitioner=[partitioner])
    return [row.operator for row in edge.report().rows if row.where == "edgecore"]


def test_each_configuration_names_operators_of_the_table() -> None:
    for name, configuration in CONFIGS.items():
        TABLE.check_names(configuration.operators, namespace="aten")
        assert getattr(config, name) is configuration and configuration.operators
    contributed = edgecore_xnnpack.executorch_modules["executorch.backends.xnnpack.partition.config"]
    assert set(contributed) == {*CONFIGS, "ALL_PARTITIONER_CONFIGS"}


def test_configurations_and_precisions_choose_what_is_delegated() -> None:
    assert outside(XnnpackPartitioner()) == []
    linear = XnnpackPartitioner([CONFIGS["LinearConfig"]], config_precisions=ConfigPrecisionType.FP32)
    assert set(outside(linear)) == {"aten.tanh.default"}
    assert len(outside(XnnpackPartitioner(config_precisions=[ConfigPrecisionType.DYNAMIC_QUANT]))) == 3
    assert XnnpackPartitioner(per_op_mode=True, verbose=True).options.per_op_mode


def test_an_unknown_operator_or_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="linaer"):
        XnnpackPartitioner(configs=["linaer"])
    with pytest.raises(ValueError, match="config_precisions"):
        XnnpackPartitioner(config_precisions="FP64")
    with pytest.raises(TypeError, match=r"not list; write XnnpackOptions\(configs=...\)"):
        partitioner.XnnpackPartitioner([CONFIGS["LinearConfig"]])  # type: ignore[arg-type]


def test_the_settings_for_xnnpack_take_the_argument_of_executorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stability, "_without_effect", set())
    with pytest.warns(NoEffectWarning, match="_skip_dim_order=True"):
        get_xnnpack_edge_compile_config(skip_dim_order=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'preserve'"):
        get_xnnpack_edge_compile_config(preserve=True)  # type: ignore[call-arg]


def test_the_argument_for_bfloat16_warns_that_it_has_no_effect() -> None:
    with pytest.warns(NoEffectWarning, match="operators in bfloat16 run in edgecore's kernels"):
        XnnpackPartitioner(enable_bf16=True)
