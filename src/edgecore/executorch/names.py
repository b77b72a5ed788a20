"""The modules and names of ExecuTorch's documentation, and their counterparts in edgecore.

`docs/coming-from-executorch.md` has the same tables. This module does not import the counterparts.
"""

from __future__ import annotations

from collections.abc import Mapping


def _same(module: str, *names: str) -> dict[str, str]:
    return {name: f"{module}:{name}" for name in names}


_LOWERING = {
    **_same("edgecore.executorch.exir.scripts.managers", "EdgeProgramManager"),
    **_same("edgecore.executorch.exir.program", "ExecutorchProgramManager"),
    **_same("edgecore.executorch.exir.scripts.lowering", "to_edge", "to_edge_transform_and_lower"),
}
_CONFIGS = {
    **_same("edgecore", "EdgeCompileConfig"),
    **_same("edgecore.executorch.exir.scripts.config", "ExecutorchBackendConfig"),
}
_RECORDS = _same("edgecore.devtools", "ETRecord", "generate_etrecord", "parse_etrecord")
_INSPECTOR = _same("edgecore.devtools", "Event", "EventBlock", "Inspector", "PerfData", "TimeScale", "compare_results")
_COMPARATORS = _same("edgecore.devtools", "L1Comparator", "MSEComparator", "NumericalComparatorBase", "SNRComparator")
_PLANNING = _same("edgecore.executorch.exir.memory", "MemoryPlanningPass")
_LOADING = _same(
    "edgecore.executorch.runtime.pybindings", "_get_operator_names", "_get_registered_backend_names", "_is_available",
    "_load_bundled_program_from_buffer", "_load_for_executorch", "_load_for_executorch_from_buffer",
    "_load_for_executorch_from_bundled_program",
)  # fmt: skip

_SCHEMA = (
    "AllocationDetails BackendDelegate BackendDelegateDataReference BackendDelegateInlineData Bool BoolList Chain "
    "ContainerMetadata DataLocation DataSegment DelegateCall DeviceType Double DoubleList EValue ExecutionPlan "
    "ExtraTensorInfo Frame FrameList FreeCall Instruction Int IntList JumpFalseCall KernelCall MoveCall NamedData "
    "NonConstBufferDevice Null Operator OptionalTensorList Program String SubsegmentOffsets Tensor TensorDataLocation "
    "TensorList TensorShapeDynamism"
).split()
"""Names of the classes that describe the tables of a `.pte`."""

MODULES: Mapping[str, Mapping[str, str]] = {
    "executorch.devtools": {
        **_same("edgecore", "BundledProgram"), **_RECORDS, **_same("edgecore.devtools", "Inspector"),
    },
    "executorch.devtools.backend_debug": _same(
        "edgecore.devtools", "DelegationBreakdown", "get_delegation_info", "print_delegation_info"
    ),
    "executorch.devtools.bundled_program.config": _same("edgecore", "MethodTestCase", "MethodTestSuite"),
    "executorch.devtools.bundled_program.core": _same("edgecore", "BundledProgram"),
    "executorch.devtools.bundled_program.serialize": _same(
        "edgecore.pipeline", "serialize_from_bundled_program_to_flatbuffer",
        "deserialize_from_flatbuffer_to_bundled_program",
    ),
    "executorch.devtools.etrecord": _RECORDS,
    "executorch.devtools.inspector": _INSPECTOR,
    "executorch.devtools.inspector.numerical_comparator": _COMPARATORS,
    "executorch.exir": {**_LOWERING, **_CONFIGS, "ExportedProgram": "torch.export:ExportedProgram"},
    "executorch.exir.backend.backend_api": {
        **_same("edgecore.executorch.exir.scripts.lowering", "MethodProgramsPartitionerSpec", "to_backend"),
        "CompileSpec": "edgecore.plugin:CompileSpec",
        "LoweredBackendModule": "edgecore.pipeline:WholeBackendModule",
    },
    "executorch.exir.backend.backend_details": {
        **_same("edgecore.executorch.exir.backend", "BackendDetails"),
        "PreprocessResult": "edgecore.executorch.exir.backend:preprocess_result",
        "CompileSpec": "edgecore.plugin:CompileSpec",
        "ExportedProgram": "torch.export:ExportedProgram",
    },
    "executorch.exir._serialize._named_data_store": _same("edgecore.executorch.exir.backend", "NamedDataStore"),
    "executorch.exir.backend.canonical_partitioners.all_node_partitioner": _same(
        "edgecore.executorch.exir.partitioners", "AllNodePartitioner"
    ),
    "executorch.exir.backend.canonical_partitioners.group_partitioner": _same(
        "edgecore.executorch.exir.group_partitioner", "GroupBasedPartitioner"
    ),
    "executorch.exir.backend.canonical_partitioners.pattern_op_partitioner": _same(
        "edgecore.partition", "generate_partitions_from_list_of_nodes", "generate_pattern_op_partitions"
    ),
    "executorch.exir.backend.compile_spec_schema": _same("edgecore.plugin", "CompileSpec"),
    "executorch.exir.backend.partitioner": {
        **_same("edgecore.partition", "DelegationSpec", "PartitionResult"),
        **_same("edgecore.executorch.exir.partitioners", "Partitioner"),
    },
    "executorch.exir.backend.utils": {
        **_same("edgecore.devtools", "DelegateMappingBuilder", "format_delegated_graph", "print_delegated_graph"),
        **_same("edgecore.executorch.exir.backend", "tag_constant_data"),
        **_same("edgecore.executorch.exir.partitioners", "get_delegates", "get_non_lowered_nodes"),
    },
    "executorch.exir.capture": _CONFIGS,
    "executorch.exir.capture._config": _CONFIGS,
    "executorch.exir.delegate": {"executorch_call_delegate": "edgecore.ir.delegate:call_delegate"},
    "executorch.exir.dialects._ops": {
        "ops": "edgecore.executorch.exir.dialects:ops",
        "bind_pattern_to_op": "edgecore.ir.operators.backend_operators:bind_pattern_to_op",
    },
    "executorch.exir.dialects.edge._ops": {"EdgeOpOverload": "torch._ops:OpOverload"},
    "executorch.exir.dim_order_utils": _same(
        "edgecore.executorch.exir.tensors", "get_dim_order", "get_memory_format", "is_channel_last_dim_order",
        "is_contiguous_dim_order",
    ),
    "executorch.exir.error": {
        "ExportError": "edgecore.errors:CompileError",
        "InternalError": "edgecore.errors:CompileError",
    },
    "executorch.exir.graph_module": _same(
        "edgecore.executorch.exir.partitioners", "get_cond_while_submodules", "get_control_flow_submodules"
    ),
    "executorch.exir.lowered_backend_module": {
        **_same("edgecore.ir.delegate", "LoweredBackendModule"),
        **_same("edgecore.executorch.exir.partitioners", "get_lowered_backend_modules", "get_lowered_submodules"),
    },
    "executorch.exir.memory_planning": _same(
        "edgecore.executorch.exir.memory", "MemoryAlgoResult", "MemoryPlanningAlgorithmSuite", "SpecAllocResult",
        "greedy", "naive",
    ),
    "executorch.exir.pass_base": {
        **_same("edgecore.passes", "ExportPass", "NodeMetadata", "PassBase", "PassResult", "ProxyValue", "map_args"),
        "Argument": "typing:Any",
        "ExportPassBaseError": "edgecore.errors:CompileError",
    },
    "executorch.exir.pass_manager": _same("edgecore.executorch.exir.passes", "PassManager"),
    "executorch.exir.passes": {**_PLANNING, **_same("edgecore.passes", "ScalarToTensorPass")},
    "executorch.exir.passes.constant_prop_pass": _same("edgecore.executorch.exir.passes", "constant_prop_pass"),
    "executorch.exir.passes.memory_planning_pass": _PLANNING,
    "executorch.exir.passes.scalar_to_tensor_pass": _same("edgecore.passes", "ScalarToTensorPass"),
    "executorch.exir.passes.sym_shape_eval_pass": _same(
        "edgecore.executorch.exir.passes", "ConstraintBasedSymShapeEvalPass", "HintBasedSymShapeEvalPass"
    ),
    "executorch.exir.print_program": _same("edgecore.devtools", "inspect_node"),
    "executorch.exir.program": _LOWERING,
    "executorch.exir.program._program": _LOWERING,
    "executorch.exir.schema": {**_same("edgecore.format", *_SCHEMA), "Buffer": "edgecore.format:ConstantBuffer"},
    "executorch.exir.tensor": {
        **_same("edgecore.memory", "TensorSpec"),
        **_same(
            "edgecore.executorch.exir.tensors", "contiguous_stride_from_shape", "dim_order_from_stride",
            "num_bytes_from_shape_and_dtype", "stride_from_dim_order",
        ),
    },
    "executorch.export": {
        **_same(
            "edgecore.executorch.export.export", "AOQuantizationConfig", "ExportRecipe", "ExportSession",
            "LoweringRecipe", "QuantizationRecipe", "StageType", "export",
        ),
        **_same("edgecore.executorch.export.recipes", "BackendRecipeProvider", "RecipeType", "recipe_registry"),
    },
    "executorch.extension.export_util.utils": _same("edgecore.executorch.runtime.pybindings", "save_pte_program"),
    "executorch.extension.pybindings.portable_lib": {
        **_LOADING,
        **_same("edgecore.executorch.runtime.runtime", "Verification"),
    },
    "executorch.extension.pytree": _same(
        "torch.utils._pytree", "TreeSpec", "tree_flatten", "tree_map", "tree_unflatten"
    ),
    "executorch.runtime": _same(
        "edgecore.executorch.runtime.runtime", "BackendRegistry", "Method", "MethodMeta", "OperatorRegistry", "Program",
        "Runtime", "Verification",
    ),
    "executorch.util.activation_memory_profiler": _same("edgecore.devtools", "generate_memory_trace"),
}  # fmt: skip
"""Module of ExecuTorch -> name in it -> counterpart, as `module:attribute`. Installed backends contribute more."""

REASONS: Mapping[str, str] = {
    "executorch.exir.capture.CaptureConfig": "programs come from torch.export; the nearest is EdgeCompileConfig",
    "executorch.exir.CaptureConfig": "programs come from torch.export; the nearest is EdgeCompileConfig",
    "executorch.exir.backend.test": "the nearest is a BackendDetails or Partitioner of your own",
    "executorch.exir.passes.external_constants_pass": (
        "the nearest is ExecutorchBackendConfig(external_constants=...)"
    ),
    "executorch.exir.passes.SpecPropPass": "planning makes the specs; the nearest is MemoryPlanningPass.run",
    "executorch.exir.passes.spec_prop_pass": "planning makes the specs; the nearest is MemoryPlanningPass.run",
    "executorch.exir.tensor.TensorSpec.from_tensor": "planning makes the specs; see MemoryPlanningPass.run",
    "executorch.export.ExportSession.register_stage": "the stages are fixed; the nearest is a recipe's pass",
    "executorch.examples": "the nearest is the command `edgecore compile`",
    "executorch.backends.xnnpack": "its package is not installed; the nearest is pip install edgecore-xnnpack",
    "executorch.backends.vulkan": "its package is not installed; the nearest is pip install edgecore-vulkan",
    "executorch.backends.apple.coreml": "its package is not installed; the nearest is pip install edgecore-coreml",
    "executorch.backends.qualcomm": "its package is not installed; the nearest is pip install edgecore-qnn",
    "executorch.backends.openvino": "its package is not installed; the nearest is pip install edgecore-openvino",
    "executorch.backends.arm": "no installed package has it; the nearest are edgecore-ethosu and edgecore-vgf",
    "executorch.backends": "no installed package has it; the nearest are the backends that `edgecore backends` lists",
}
"""Names without counterpart -> the end of the error message: the reason, or what to use instead."""
