"""The finished program: its final graphs, its instructions as text, the maps for developer tools."""

import io
import re

from edge_programs import INPUTS, net
from fake_backends import echo_backend  # noqa: F401
from torch.export import export

from edgecore import format as fmt
from edgecore.format import ExternalData, NamedBlob, PtdFile
from edgecore.ir.graph import calls
from edgecore.pipeline import to_edge, to_edge_transform_and_lower


def test_the_final_program_has_the_place_of_each_tensor():
    edge = to_edge(export(net(), INPUTS))
    program = edge.to_executorch()
    nodes = calls(program.exported_program().graph_module)
    assert program.methods == {"forward"} and nodes
    assert any(node.meta["spec"].mem_id == 1 for node in nodes[:-1])


def test_the_handle_map_names_the_nodes_of_the_final_program():
    program = to_edge(export(net(), INPUTS)).to_executorch()
    handles = program.debug_handle_map["forward"]
    instructions = program.executorch_program.execution_plan[0].chains[0].instructions
    assert sorted(handles) == list(range(len(instructions)))
    known = {node.meta["debug_handle"] for node in calls(program.exported_program().graph_module)}
    assert set(handles.values()) <= known
    assert program.delegate_map == program.instruction_id_to_num_outs_map == {"forward": {}}


def test_the_tables_of_a_program_have_its_weights_and_blobs(echo_backend):  # noqa: F811
    finished = to_edge_transform_and_lower(export(net(), INPUTS), partitioner=[echo_backend]).to_executorch()
    program = finished.executorch_program
    (delegate,) = program.execution_plan[0].delegates
    assert delegate.processed.location is fmt.DataLocation.INLINE
    assert program.backend_delegate_data[delegate.processed.index].data == finished.pte.delegate_blob(delegate)
    weights = to_edge(export(net(), INPUTS)).to_executorch().executorch_program.constant_buffer
    assert len(weights[0].storage) == 0
    assert sorted(len(one.storage) for one in weights[1:]) == [12, 216]  # of the convolution, with the batch norm in it


def test_the_delegate_map_names_the_backend(echo_backend):  # noqa: F811
    program = to_edge_transform_and_lower(export(net(), INPUTS), partitioner=[echo_backend]).to_executorch()
    ((index, delegate),) = program.delegate_map["forward"].items()
    assert delegate["name"] == echo_backend.spec.backend_id
    assert program.instruction_id_to_num_outs_map["forward"] == {index: 1}
    assert isinstance(program.debug_handle_map["forward"][index], (int, list))


def test_the_repr_counts_delegates_kernels_and_bytes(echo_backend):  # noqa: F811
    by_kernels = to_edge(export(net(), INPUTS)).to_executorch()
    assert re.fullmatch(
        r"<edgecore.ExecutorchProgramManager forward: \d+ x kernel; [\d,]+ bytes of .*>", repr(by_kernels)
    )
    program = to_edge_transform_and_lower(export(net(), INPUTS), partitioner=[echo_backend]).to_executorch()
    assert f" forward: 1 x {echo_backend.spec.backend_id}; " in repr(program)
    by_kernels.pte.constants = [b""]
    by_kernels.pte.named_data |= {"a": NamedBlob(weight := bytes(1000)), "b": NamedBlob(weight)}
    by_kernels.data["weights"] = PtdFile({"w": ExternalData(bytes(500))})
    assert "; 1,500 bytes of weights and blobs>" in repr(by_kernels)


def test_the_program_is_printed_as_text(capsys):
    program = to_edge(export(net(), INPUTS)).to_executorch()
    program.dump_executorch_program()
    short = capsys.readouterr().out
    assert short.startswith("forward(%") and "[0] aten::" in short and "float [" not in short
    out = io.StringIO()
    program.dump_executorch_program(verbose=True, out=out)
    assert set(short.splitlines()) < set(out.getvalue().splitlines()) and "= float [" in out.getvalue()


def test_the_repr_counts_a_weight_of_a_kernel_and_of_a_delegate_once():
    program = to_edge(export(net(), INPUTS)).to_executorch()
    program.pte.constants = [b"", bytes(1000)]
    program.pte.named_data |= {"weight": NamedBlob(bytes(bytearray(1000)))}
    assert "; 1,000 bytes of weights and blobs>" in repr(program)
