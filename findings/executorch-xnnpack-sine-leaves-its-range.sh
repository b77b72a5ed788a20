#!/bin/sh
# executorch's XNNPACK delegate gives sines and cosines of large numbers far outside of -1 to 1.
#
# Expected: the sine of a large float32 may lose digits in the reduction to one period, but stays between -1 and 1.
# What happens (torch 2.13.0, executorch 1.5.1, XNNPACK on x86-64): up to 1e7 the error is below 2e-5. From about 1e8 it
# grows, and for the seconds since 1970 (1.7e9) sin gives numbers beyond 1000; for 1e12 beyond 500,000. A time stamp in
# a sinusoidal embedding so scales a whole network by a thousand. The portable kernel is right for all of them.
# What to do: reduce times and positions to one period outside of the model, in integers or float64.
# edgecore: leaves sin and cos of float32 to kernels that use the C library
# (`tests/compile/test_values_of_findings.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 executorch==1.5.1)
cat > "$folder/run.py" <<'PY'
import warnings

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime

warnings.simplefilter("ignore")


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sin(x), torch.cos(x)


def run(x, partitioners):
    program = to_edge_transform_and_lower(torch.export.export(Model(), (x,)), partitioner=partitioners)
    loaded = Runtime.get().load_program(program.to_executorch().buffer)
    return loaded.load_method("forward").execute([x])


print("torch", torch.__version__, "executorch 1.5.1")
largest = {}
for size in (1e3, 1e7, 1e8, 1.7e9, 1e12):
    x = size * torch.linspace(1, 1.04, 40)
    exact = torch.sin(x.double()), torch.cos(x.double())
    for name, partitioners in (("portable", []), ("XNNPACK", [XnnpackPartitioner()])):
        got = run(x, partitioners)
        error = max(float((a - b).abs().max()) for a, b in zip(got, exact))
        largest[name, size] = max(float(value.abs().max()) for value in got)
        print(f"{name}, numbers near {size:g}: largest result {largest[name, size]:g}, largest error {error:.2g}")
assert all(value <= 1 for (name, _), value in largest.items() if name == "portable"), "the behaviour has changed"
assert largest["XNNPACK", 1e7] < 1.001 and largest["XNNPACK", 1.7e9] > 100, "the behaviour has changed"
PY
"$python" "$folder/run.py"
