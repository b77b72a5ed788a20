"""What becomes of a mutable buffer that a backend holds: in the program, in the partition, and in the file."""

import copy

import torch
from state_models import (
    Cached,
    X,
    compile_,
    count,
    fill,
    holder,
    holders,
    read,
    run,
    sine_of_cache,
    write,
)
from torch.export.graph_signature import InputKind, OutputKind

from edgecore import format as fmt
from edgecore.ir.delegate import delegates
from edgecore.ir.program.mutable_state import mutable_buffers
from edgecore.memory import MemoryPlanningPass
from edgecore.partition import PartitionView
from edgecore.partition.extract import extract
from edgecore.pipeline import ExecutorchBackendConfig, to_edge
from edgecore.plugin import NamedBlob, PreprocessResult

aten = torch.ops.aten


def test_a_claimed_buffer_leaves_the_program_and_enters_the_partition():
    edge = compile_({"forward": fill}, holder())
    program = edge.exported_program()
    assert not mutable_buffers(program) and "cache" not in program.state_dict
    assert [spec.kind for spec in program.graph_signature.input_specs] == [InputKind.USER_INPUT]
    assert [spec.kind for spec in program.graph_signature.output_specs] == [OutputKind.USER_OUTPUT]
    ((call, module),) = delegates(program)
    partition = module.original_module
    assert len(call.args) == 2 and len(call.meta["val"]) == 1
    assert partition.graph_signature.inputs_to_buffers == {"b_cache": "cache"}
    assert list(partition.graph_signature.buffers_to_mutate.values()) == ["cache"]
    torch.testing.assert_close(partition.state_dict["cache"], torch.arange(4.0))
    view = PartitionView(partition)
    (buffer,) = view.buffers
    assert (buffer.name, buffer.nbytes, buffer.is_written) == ("cache", 16, True)
    assert buffer.node.meta["val"].shape == (4,) and buffer.update.target is aten.add.Tensor
    assert [node.name for node in view.inputs] == ["x"] and len(view.outputs) == 1 and not view.constants
    assert holders(edge) == {"cache": ("Acme", ("forward",))}
    assert "1 mutable buffer in Acme (cache), 16 bytes" in str(edge.report())


def test_a_delegate_that_holds_a_buffer_computes_what_eager_computes():
    model = Cached(fill).eval()
    eager = copy.deepcopy(model)
    edge = compile_({"forward": model}, holder())
    for _ in range(3):
        torch.testing.assert_close(run(edge, "forward", X), eager(X))


def test_prefill_and_decode_share_a_claimed_buffer():
    edge = compile_({"prefill": fill, "decode": read}, holder())
    assert holders(edge) == {"cache": ("Acme", ("prefill", "decode"))}
    ((_, module),) = delegates(edge.exported_program("decode"))
    (buffer,) = module.held_buffers
    assert buffer.update is buffer.node and not module.writes_state, "decode only reads, and the buffer is no constant"
    assert module.original_module.graph_signature.buffers_to_mutate


def test_a_buffer_that_is_only_written_is_claimed():
    edge = compile_({"forward": write}, holder())
    ((_, module),) = delegates(edge.exported_program())
    (buffer,) = module.held_buffers
    assert buffer.is_written and not [user for user in buffer.node.users if user.op != "output"]


def test_a_delegate_whose_only_result_is_state_stays_in_the_program():
    model = Cached(count)
    edge = compile_({"forward": model}, holder())
    ((call, module),) = delegates(edge.exported_program())
    assert module.writes_state and call.meta["val"] == ()
    edge = edge.transform([])
    assert len(delegates(edge.exported_program())) == 1
    for step in (1, 2):
        run(edge, "forward", X)
        torch.testing.assert_close(module.original_module.state_dict["cache"], torch.arange(4.0) + step)
    (plan,) = fmt.read_pte(edge.to_executorch().buffer).program.execution_plan
    assert [len(plan.delegates), len(plan.chains[0].instructions)] == [1, 2]


def test_a_dead_buffer_of_one_method_leaves_it_with_the_claim_of_another():
    def dead(self, x):
        return x + 0 * self.cache.shape[0]

    edge = compile_({"prefill": fill, "decode": dead}, holder())
    assert holders(edge) == {"cache": ("Acme", ("prefill",))}
    assert not edge.exported_program("decode").graph_signature.buffers


def test_the_file_has_neither_the_tensor_nor_a_copy_of_a_held_buffer():
    program = compile_({"forward": fill}, holder()).to_executorch()
    (plan,) = program.pte.program.execution_plan
    assert len(plan.chains[0].instructions) == 1 and not program.pte.mutable
    assert not [value for value in plan.values if getattr(value.val, "extra_tensor_info", None)]
    outside = compile_({"forward": fill}).to_executorch()
    assert outside.pte.mutable


def test_methods_that_share_state_share_what_a_backend_holds():
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=True))
    program = compile_({"prefill": fill, "decode": read}, holder()).to_executorch(config)
    assert fmt.get_meta(program.pte).shared_state == ["cache"]
    program = compile_({"prefill": fill, "decode": read}, holder()).to_executorch()
    assert fmt.get_meta(program.pte).shared_state == []


def test_initial_values_under_the_qualified_name_go_to_the_file_that_the_user_chose():
    def stores_initial_values(backend_id, program, specs):
        named = {buffer.name: NamedBlob(buffer.initial.numpy().tobytes()) for buffer in PartitionView(program).buffers}
        return PreprocessResult(b"blob", {**named, "weights": NamedBlob(b"1234")}), ("fake", "1")

    edge = compile_({"forward": fill}, holder(), preprocess=stores_initial_values)
    config = ExecutorchBackendConfig(external_constants={"cac*": "state"})
    program = edge.to_executorch(config)
    entry = program.data["state"].entries["cache"]
    assert bytes(entry.data) == torch.arange(4.0).numpy().tobytes()
    assert list(program.data) == ["state"] and "weights" in program.pte.named_data
    program = compile_({"forward": fill}, holder(), preprocess=stores_initial_values).to_executorch()
    assert not program.data and "cache" in program.pte.named_data


def test_the_page_of_the_report_lists_the_buffers_and_their_holders(tmp_path):
    edge = compile_({"prefill": fill, "decode": sine_of_cache}, holder())
    edge.report().to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert '"title":"Mutable buffers"' in page and "uses it outside of the backend" in page
    text = str(edge.report())
    assert "1 mutable buffer in edgecore (cache), 16 bytes: Acme: in method decode aten.sin.default" in text


def test_a_partition_with_the_inputs_of_its_program_returns_a_tuple_of_its_own_outputs() -> None:
    class Nested(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"both": torch.tanh(x).sum() * torch.cumsum(torch.relu(x), 0)}

    x = torch.randn(3)
    program = to_edge(torch.export.export(Nested(), (x,))).exported_program()
    nodes = [node for node in program.graph.nodes if str(node.target) in ("aten.tanh.default", "aten.relu.default")]
    extracted = extract(program, nodes, ())
    results = extracted.program.module(check_guards=False)(x)
    assert isinstance(results, tuple) and len(results) == 2


def test_constants_that_stay_in_the_program_are_inputs_of_the_partition():
    program = to_edge(torch.export.export(torch.nn.Linear(4, 3).eval(), (torch.ones(2, 4),))).exported_program()
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    inside, outside = (
        PartitionView(extract(program, nodes, (), constants_as_inputs=flag).program) for flag in (False, True)
    )
    assert len(inside.inputs) == 1 and len(inside.constants) == 2
    assert len(outside.inputs) == 3 and not outside.constants
