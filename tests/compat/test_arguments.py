"""Each argument of the compatibility layer has its effect, or warns that it has none; `NOT_PASSED` has what no test passes."""

from __future__ import annotations

import pytest
import torch
from compat.signatures import TESTS, arguments, passes

import edgecore
from edgecore import stability
from edgecore.compat import passes as compat_passes
from edgecore.compat.backend import NamedDataStore, preprocess_result, tag_constant_data
from edgecore.compat.memory import greedy, naive
from edgecore.compat.pybindings import _load_for_executorch_from_buffer
from edgecore.errors import NoEffectWarning
from edgecore.ir.delegate import LoweredBackendModule
from edgecore.memory import TensorSpec
from edgecore.partition import TAG


def linear():
    return torch.export.export(torch.nn.Linear(4, 4).eval(), (torch.ones(1, 4),))


def module():
    program = edgecore.compile(torch.nn.Linear(4, 4).eval(), (torch.ones(1, 4),), backends=[])
    return _load_for_executorch_from_buffer(bytes(program.buffer))


def fold(**settings):
    compat_passes.constant_prop_pass(linear().run_decompositions({}), **settings)


def call(kind):
    kind()(linear().graph_module)


WITHOUT_EFFECT = {
    "tensor_layout": lambda: NamedDataStore().add_named_data("key", b"1", tensor_layout=object()),
    "forward(clone_outputs)": lambda: module().forward([torch.ones(1, 4)], clone_outputs=False),
    "run_method(clone_outputs)": lambda: module().run_method("forward", [torch.ones(1, 4)], clone_outputs=False),
    "custom_skip_targets": lambda: fold(custom_skip_targets=set()),
    "_skip_dim_order": lambda: fold(_skip_dim_order=False),
    "ConstraintBased": lambda: call(compat_passes.ConstraintBasedSymShapeEvalPass),
    "HintBased": lambda: call(compat_passes.HintBasedSymShapeEvalPass),
    "DuplicateDynamicQuantChain": lambda: call(compat_passes.DuplicateDynamicQuantChainPass),
}


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_an_argument_without_effect_warns(name, monkeypatch):
    monkeypatch.setattr(stability, "_without_effect", set())
    with pytest.warns(NoEffectWarning, match="has no effect in edgecore"):
        WITHOUT_EFFECT[name]()


@pytest.mark.parametrize("planner", [greedy, naive])
def test_planners_leave_the_bytes_free_that_inputs_of_an_arena_need(planner):
    graph_module = linear().graph_module
    graph_module.input_mem_buffer_sizes = [0, 100]
    specs = [TensorSpec(torch.float32, (size,), (0,), lifetime=(0, 2)) for size in (8, 2)]
    plan = planner(16, specs, graph_module, None, 8)
    assert min(plan.spec_dict[spec].mem_offset for spec in specs) == 112
    without = planner(16, specs, None)
    assert plan.bufsizes[1] == without.bufsizes[1] + 112 + 8


def test_what_a_backend_adds_for_tools_is_in_the_lowered_module():
    result = preprocess_result(b"blob", {1: (2,)}, _delegate_info_meta={"stage": 3})
    lowered = LoweredBackendModule("Acme", result, [], linear(), ("acme", "1.0"))
    assert lowered.meta == {"debug_handle_map": {1: (2,)}, "_delegate_info_meta": {"stage": 3}}


def test_constants_get_the_first_tag_of_their_users():
    program = linear()
    (node,) = [node for node in program.graph.nodes if node.op == "call_function"]
    node.meta[TAG] = "part"
    tag_constant_data(program)
    tags = {node.name: node.meta.get(TAG) for node in program.graph.find_nodes(op="placeholder")}
    assert tags == {"p_weight": "part", "p_bias": "part", "input": None}


def test_each_argument_is_passed_by_a_test_or_stands_in_the_list():
    files = [str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py") if path.name != "test_arguments.py"]
    found = {
        f"{function} {name}"
        for function, names in arguments().items()
        for name in names
        if not any(passes(file, function, name) for file in files)
    }
    assert found == set(NOT_PASSED.split("\n")[1:-1])


NOT_PASSED = """
compat.backend:BackendDetails.preprocess_multimethod edge_programs
compat.backend:NamedDataStore.add_named_data tensor_layout
compat.backend:preprocess_result _delegate_info_meta
compat.config:ExecutorchBackendConfig do_quant_fusion_and_const_prop
compat.config:ExecutorchBackendConfig dynamic_memory_planning_mode
compat.config:ExecutorchBackendConfig enable_non_cpu_memory_planning
compat.config:ExecutorchBackendConfig external_mutable_weights
compat.config:ExecutorchBackendConfig propagate_device_config
compat.config:ExecutorchBackendConfig reinplace_extra_ops
compat.config:ExecutorchBackendConfig run_reinplace_pass
compat.config:ExecutorchBackendConfig sym_shape_eval_pass
compat.config:ExecutorchBackendConfig to_out_var_pass
compat.export:AOQuantizationConfig ao_base_config
compat.export:ExportRecipe aten_transform_passes
compat.export:ExportRecipe source_transform_in_place
compat.export:ExportSession artifact_dir
compat.export:LoweringRecipe edge_compile_config
compat.export:QuantizationRecipe ao_quantization_configs
compat.export:export artifact_dir
compat.group_partitioner:GroupBasedPartitioner non_compute_ops
compat.memory:MemoryPlanningAlgorithmSuite.__call__ extra_padding
compat.memory:MemoryPlanningAlgorithmSuite.__call__ specs
compat.memory:MemoryPlanningPass allow_lifetime_and_storage_overlap
compat.memory:greedy extra_padding
compat.memory:greedy specs
compat.memory:naive extra_padding
compat.memory:naive specs
compat.passes:PassManager constraints
compat.passes:PassManager.add_constraint constraint
compat.passes:constant_prop_pass _skip_dim_order
compat.passes:constant_prop_pass custom_skip_targets
compat.pybindings:_is_available backend_name
compat.pybindings:_load_bundled_program_from_buffer non_const_pool_size
compat.pybindings:_load_for_executorch program_verification
compat.pybindings:_load_for_executorch_from_buffer program_verification
compat.recipes:BackendRecipeProvider.create_recipe recipe_type
compat.recipes:RecipeRegistry.create_recipe recipe_type
devtools.delegation:DelegationBreakdown non_delegated
devtools.delegation:DelegationBreakdown op_type
devtools.events:Event _delegate_debug_metadatas
devtools.events:Event _delegate_metadata_parser
devtools.events:Event _source
devtools.events:Event delegate_backend_name
devtools.events:Event delegate_debug_identifier
devtools.events:Event module_hierarchy
devtools.events:Event num_outputs
devtools.events:Event perf_data
devtools.events:Event stack_traces
devtools.events:Event.asdict _units
devtools.events:Event.to_dataframe _units
devtools.events:EventBlock bundled_input_index
devtools.events:EventBlock reference_output
devtools.events:EventBlock run_output
devtools.events:EventBlock source_time_scale
devtools.events:PerfData raw
devtools.inspector:Inspector buffer_path
devtools.inspector:Inspector enable_module_hierarchy
devtools.inspector:Inspector source_time_scale
devtools.inspector:Inspector.calculate_numeric_gap disable_debug_handle_valdiation
ir.delegate:LoweredBackendModule original_module
memory.specs:TensorSpec base_offset
partition.pattern_partitions:generate_pattern_op_partitions ignore_literals
partition.protocol:PartitionResult claimed_buffers
passes.base:ExportPass.call_cond false_fn
passes.base:ExportPass.call_cond pred
passes.base:ExportPass.call_cond true_fn
passes.base:ExportPass.call_map mapped_args
passes.base:ExportPass.call_map operands
passes.base:ExportPass.call_scan additional_inputs
passes.base:ExportPass.call_scan combine_fn
passes.base:ExportPass.call_scan init
passes.base:ExportPass.call_scan xs
passes.base:ExportPass.call_size_operator edge_dialect
passes.base:ExportPass.call_size_operator tensor_proxy
passes.base:ExportPass.call_size_operator_all edge_dialect
passes.base:ExportPass.call_while additional_inputs
passes.base:ExportPass.call_while body_fn
passes.base:ExportPass.call_while carried_inputs
passes.base:ExportPass.call_while cond_fn
pipeline.config:EdgeCompileConfig _skip_dim_order
pipeline.etrecord:ETRecord.add_edge_dialect_program edge_dialect_program
pipeline.etrecord:generate_etrecord extra_recorded_export_modules
pipeline.executorch_program:ExecutorchProgramManager config_methods
pipeline.whole_program:WholeBackendModule lowered
runtime.executorch_names:Program debug_bytes
"""
