"""Inspector: times, outputs and intermediate values of a run, with the lines of the model, and their errors."""

import torch
from executorch.devtools import Inspector
from executorch.devtools.inspector import compare_results
from executorch.exir import to_edge
from executorch.runtime import Runtime
from torch.export import export

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).eval()
inputs = (torch.randn(1, 4),)

# %% record a run with values
program = to_edge(export(model, inputs), generate_etrecord=True).to_executorch()
program.get_etrecord().save("model.etrecord")
program.save("model.pte")
loaded = Runtime.get().load_program("model.pte", enable_etdump=True, debug_buffer_size=1 << 20)
outputs = loaded.load_method("forward").execute(list(inputs))
loaded.write_etdump_result_to_file("run.etdp", "run.bin")

# %% create an Inspector
inspector = Inspector(etdump_path="run.etdp", debug_buffer_path="run.bin", etrecord="model.etrecord")
inspector.print_data_tabular()
block = next(block for block in inspector.event_blocks if block.name == "Execute")

# %% outputs of the program
torch.testing.assert_close(block.run_output[0], outputs[0])

# %% values, stack traces and modules of events
events = [event for event in block.events if event.debug_data]
assert events and any(event.stack_traces for event in events) and any(event.module_hierarchy for event in events)

# %% times of events
table = inspector.to_dataframe()
assert len(table) >= len(events) and block.events[0].perf_data.avg >= 0
assert inspector.find_total_for_module("0") >= 0

# %% compare outputs with a reference
errors = compare_results(block.run_output, [model(*inputs)], plot=False)
assert errors
