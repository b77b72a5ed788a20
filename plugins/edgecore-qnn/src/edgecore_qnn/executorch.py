"""Compile specs and the partitioner for ExecuTorch scripts: the backend's options under ExecuTorch's names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import Any

import torch

import edgecore
from edgecore.plugin import CompileSpec
from edgecore.sdk import validate_options
from edgecore_qnn.options import QnnOptions
from edgecore_qnn.partitioner import OptionsPartitioner
from edgecore_qnn.provider.socs import SOCS

QcomChipset = IntEnum("QcomChipset", {soc.name: soc.number for soc in SOCS.values()})  # type: ignore[misc]
QcomChipset.__doc__ = "The SoCs, with Qualcomm's numbers."

PROFILE_LEVELS = ("off", "basic", "detailed")


def generate_htp_compiler_spec(
    use_fp16: bool,
    use_dlbc: bool = False,
    use_multi_contexts: bool = False,
    use_weight_sharing: bool = False,
    use_slc_allocator: bool = False,
    htp_performance_mode: str = "burst",
) -> Mapping[str, Any]:
    """Return the NPU's options, an argument of `generate_qnn_executorch_compiler_spec`.

    Args:
        use_fp16: Also delegate operators that are not quantized.
        use_dlbc: Must be False.
        use_multi_contexts: Must be False.
        use_weight_sharing: Must be False.
        use_slc_allocator: Must be False.
        htp_performance_mode: Clocks of the NPU, as in the option `performance_mode`.

    Raises:
        ValueError: An option cannot be set; the message says why.
    """
    values = {
        "use_fp16": use_fp16,
        "use_dlbc": use_dlbc,
        "use_multi_contexts": use_multi_contexts,
        "use_weight_sharing": use_weight_sharing,
        "use_slc_allocator": use_slc_allocator,
        "performance_mode": htp_performance_mode,
    }
    validate_options(QnnOptions, values)
    return {"use_fp16": use_fp16, "performance_mode": htp_performance_mode}


def generate_qnn_executorch_compiler_spec(
    soc_model: QcomChipset,
    backend_options: Mapping[str, Any],
    online_prepare: bool = False,
    profile_level: int = 0,
    shared_buffer: bool = False,
    op_package_options: Any = None,
    dump_intermediate_artifacts_to: str | None = None,
) -> list[CompileSpec]:
    """Return compile specs for `QnnPartitioner`.

    Args:
        soc_model: The SoC.
        backend_options: The result of `generate_htp_compiler_spec`.
        online_prepare: Must be False.
        profile_level: 0 for none, 1 for a basic and 2 for a detailed profile of the compilation.
        shared_buffer: Must be False.
        op_package_options: Must be None.
        dump_intermediate_artifacts_to: As in the option of this name.

    Raises:
        ValueError: An option cannot be set; the message says why.
    """
    if not 0 <= profile_level < len(PROFILE_LEVELS):
        raise ValueError(f"profile_level is {profile_level}: there are 0 (off), 1 (basic) and 2 (detailed)")
    values = {
        **backend_options,
        "soc_model": QcomChipset(soc_model).name,
        "online_prepare": online_prepare,
        "profile_level": PROFILE_LEVELS[profile_level],
        "shared_buffer": shared_buffer,
        "op_package_options": op_package_options,
        "dump_intermediate_artifacts_to": dump_intermediate_artifacts_to,
    }
    return validate_options(QnnOptions, values).to_specs()


def to_edge_transform_and_lower_to_qnn(
    module: torch.nn.Module | Mapping[str, torch.nn.Module],
    inputs: tuple[Any, ...] | Mapping[str, tuple[Any, ...]],
    compiler_specs: Sequence[CompileSpec] | Mapping[str, Sequence[CompileSpec]],
    constant_methods: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    skip_node_id_set: Collection[str] | None = None,
    skip_node_op_set: Collection[str] | None = None,
    skip_mutable_buffer: bool = False,
    generate_etrecord: bool = False,
) -> edgecore.EdgeProgramManager:
    """Export modules, and lower them for Qualcomm's NPUs.

    Args:
        module: A module, or a mapping from method to module.
        inputs: The example inputs, or a mapping from method to example inputs.
        compiler_specs: The result of `generate_qnn_executorch_compiler_spec`, or a mapping from method to it.
        constant_methods: Additional methods that return a constant.
        dynamic_shapes: As for `torch.export.export`, or a mapping from method to dynamic shapes.
        skip_node_id_set: As in `QnnPartitioner`.
        skip_node_op_set: As in `QnnPartitioner`.
        skip_mutable_buffer: As in `QnnPartitioner`.
        generate_etrecord: Keep the programs for developer tools.

    Returns:
        The program manager; its `to_executorch` creates the file.

    Raises:
        CompileError: The model cannot be lowered.
        ValueError: A method has no inputs or compile specs.
    """
    modules = dict(module) if isinstance(module, Mapping) else {"forward": module}

    def of_method(name: str, value: Any, argument: str) -> Any:
        if not isinstance(value, Mapping):
            return value
        if name not in value:
            raise ValueError(f"{argument} has no entry for the method {name!r}")
        return value[name]

    by_method = isinstance(module, Mapping)
    programs, partitioners = {}, {}
    for name, method in modules.items():
        shapes = of_method(name, dynamic_shapes, "dynamic_shapes") if by_method else dynamic_shapes
        example = of_method(name, inputs, "inputs")
        programs[name] = torch.export.export(method.eval(), example, dynamic_shapes=shapes, strict=True)
        specs = of_method(name, compiler_specs, "compiler_specs")
        partitioners[name] = [QnnPartitioner(specs, skip_node_id_set, skip_node_op_set, skip_mutable_buffer)]
    return edgecore.to_edge_transform_and_lower(
        programs,
        partitioner=partitioners,
        constant_methods=constant_methods,
        generate_etrecord=generate_etrecord,
    )


class QnnPartitioner(OptionsPartitioner):
    """The backend's partitioner with ExecuTorch's arguments.

    Args:
        compiler_specs: The result of `generate_qnn_executorch_compiler_spec`.
        skip_node_id_set: Names of nodes that are not delegated.
        skip_node_op_set: Operators that are not delegated, such as `aten.add.Tensor`.
        skip_mutable_buffer: Ignored, because mutable buffers are always inputs of a delegate.
    """

    def __init__(
        self,
        compiler_specs: Sequence[CompileSpec],
        skip_node_id_set: Collection[str] | None = None,
        skip_node_op_set: Collection[str] | None = None,
        skip_mutable_buffer: bool = False,
    ) -> None:
        skips = {
            "skip_node_id_set": tuple(sorted(skip_node_id_set or ())),
            "skip_node_op_set": tuple(sorted(skip_node_op_set or ())),
        }
        chosen = QnnOptions.from_specs(compiler_specs).model_dump()
        super().__init__(validate_options(QnnOptions, {**chosen, **skips}))
