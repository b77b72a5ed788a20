"""The Python runtime: programs, methods, metadata, registries; weights in a file of their own."""

from pathlib import Path

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.extension.export_util.utils import save_pte_program
from executorch.extension.pybindings import portable_lib
from executorch.runtime import Runtime, Verification

# %% weights in a file of their own
model = torch.nn.Linear(3, 2)
x = torch.randn(1, 3)
program = to_edge(torch.export.export(model, (x,))).to_executorch(
    ExecutorchBackendConfig(external_constants=lambda node: "weights")
)
path = save_pte_program(program, "linear", ".")
program.write_tensor_data_to_file(".")

# %% load a program and read its metadata
runtime = Runtime.get()
loaded = runtime.load_program(Path(path), verification=Verification.InternalConsistency, data_path="weights.ptd")
assert loaded.method_names == {"forward"}
method = loaded.load_method("forward")
assert method.metadata.num_inputs() == 1 and method.metadata.input_tensor_meta(0).sizes() == (1, 3)

# %% execute a method
torch.testing.assert_close(method.execute([x])[0], model(x))
torch.testing.assert_close(portable_lib._load_for_executorch(path, "weights.ptd").forward([x])[0], model(x))

# %% registries of operators and backends
assert "aten::linear.out" in runtime.operator_registry.operator_names
assert runtime.backend_registry.is_available("XnnpackBackend")
