"""Debugging delegation: the table of operators, the graph with delegates, and a node in it; records for the Inspector."""

import copy

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools import ETRecord, Inspector, generate_etrecord, parse_etrecord
from executorch.devtools.backend_debug import get_delegation_info
from executorch.exir import to_edge, to_edge_transform_and_lower
from executorch.exir.backend.utils import DelegateMappingBuilder, format_delegated_graph, print_delegated_graph
from executorch.exir.print_program import inspect_node
from executorch.runtime import Runtime
from torch.export import export

# %% export with a record
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Softplus()).eval()
inputs = (torch.randn(2, 4),)
edge = to_edge_transform_and_lower(export(model, inputs), partitioner=[XnnpackPartitioner()], generate_etrecord=True)
graph_module = edge.exported_program().graph_module

# %% summary and table of operators
info = get_delegation_info(graph_module)
assert info.num_delegated_nodes and "linear" in info.get_summary() + str(info.get_operator_delegation_dataframe())

# %% the graph with delegates
assert "lowered_module_0" in format_delegated_graph(graph_module)

# %% a node in its graph
node = next(node for node in graph_module.graph.nodes if node.op == "call_function")
assert node.name in inspect_node(graph_module.graph, node)

# %% profile with the record
program = edge.to_executorch()
program.get_etrecord().save("record.etrecord")
assert isinstance(parse_etrecord("record.etrecord"), ETRecord)
with open("model.pte", "wb") as f:
    f.write(program.buffer)
loaded = Runtime.get().load_program("model.pte", enable_etdump=True)
loaded.load_method("forward").execute(list(inputs))
loaded.write_etdump_result_to_file("run.etdp", None)
inspector = Inspector(etdump_path="run.etdp", etrecord="record.etrecord")
assert inspector.event_blocks
assert program.debug_handle_map["forward"] and program.delegate_map["forward"]

# %% a record of a program without delegates
plain = to_edge(export(model, inputs))
before = copy.deepcopy(plain)
generate_etrecord("other.etrecord", before, plain.to_executorch())

# %% print the graph with delegates
print_delegated_graph(edge.exported_program().graph_module)

# %% identifiers of the operators in a delegate
nodes = [node for node in plain.exported_program().graph.nodes if node.op == "call_function"]
for node in nodes:
    node.meta.setdefault("debug_handle", 1 + nodes.index(node))
manual = DelegateMappingBuilder(generated_identifiers=False)
assert manual.insert_delegate_mapping_entry(nodes=nodes[0], identifier="first") == "first"
assert manual.insert_delegate_mapping_entry(handles=[7, 8], identifier="others") == "others"
assert set(manual.get_delegate_mapping()) == {"first", "others"}
generated = DelegateMappingBuilder(generated_identifiers=True)
assert [generated.insert_delegate_mapping_entry(nodes=node) for node in nodes] == list(range(len(nodes)))
assert len(generated.get_delegate_mapping()) == len(nodes)

# %% metadata of a delegate in the Inspector
inspector = Inspector(
    etdump_path="run.etdp",
    etrecord="record.etrecord",
    delegate_metadata_parser=lambda entries: [str(entry) for entry in entries],
)
inspector.print_data_tabular()
