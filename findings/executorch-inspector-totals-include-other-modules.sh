#!/bin/sh
# executorch's Inspector adds the time of layers.10 and layers.11 to the total of layers.1.
#
# Expected: find_total_for_module("layers.1") is the time of the operators inside of the module layers.1, as its
# documentation says.
# What happens (torch 2.13.0, executorch 1.5.1): it adds up every event with a module path that contains these letters,
# so also layers.10 to layers.19, and layers.100. In a network of 12 blocks, blocks 1 and 0 so look different from
# others: a profile shows three times the time for layers.1. The name "0" matches nearly everything.
# What to do: add up events yourself, with the exact path in event.module_hierarchy.
# edgecore: its Inspector counts as executorch's, and its page says so (`tests/executorch_names/devtools/test_inspector.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 executorch==1.5.1)
cat > "$folder/run.py" <<'PY'
import tempfile
import warnings
from pathlib import Path

import torch
from executorch.devtools import Inspector
from executorch.exir import to_edge
from executorch.runtime import Runtime

warnings.simplefilter("ignore")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Sigmoid() for _ in range(12))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def paths(event):
    return {path for modules in event.module_hierarchy.values() for path, _ in modules.values()}


x = torch.rand(8, 8)
manager = to_edge(torch.export.export(Net(), (x,)), generate_etrecord=True).to_executorch()
with tempfile.TemporaryDirectory() as folder:
    record, dump, values = (str(Path(folder, name)) for name in ("record", "dump", "values"))
    manager.get_etrecord().save(record)
    program = Runtime.get().load_program(manager.buffer, enable_etdump=True)
    program.load_method("forward").execute([x])
    program.write_etdump_result_to_file(dump, values)
    inspector = Inspector(etdump_path=dump, etrecord=record)
events = [event for block in inspector.event_blocks for event in block.events if event.name != "OPERATOR_CALL"]
included = {}
for name in ("layers.1", "layers.2"):
    total = float(inspector.find_total_for_module(name))
    exact = sum(float(event.perf_data.avg) for event in events if name in paths(event))
    containing = [event for event in events if any(name in path for path in paths(event))]
    letters = sum(float(event.perf_data.avg) for event in containing)
    assert abs(total - letters) < 1e-9, "the behaviour has changed"
    included[name] = sorted({path for event in containing for path in paths(event) if path})
    kind = "that of this module," if abs(total - exact) < 1e-9 else "the sum of"
    print(f"{name}: the total is {kind} {included[name]}")
print("torch", torch.__version__, "executorch 1.5.1")
assert included == {"layers.1": ["layers.1", "layers.10", "layers.11"], "layers.2": ["layers.2"]}, "it has changed"
PY
"$python" "$folder/run.py"
