#!/bin/sh
# executorch's XNNPACK delegate gives NaN for the square root of infinity and for 1 / sqrt(0).
#
# Expected: as in IEEE arithmetic, PyTorch and executorch's portable kernels, sqrt(inf) is inf, rsqrt(0) is inf and
# exp(NaN) is NaN, since processors have instructions for roots that do this.
# What happens (torch 2.13.0, executorch 1.5.1, x86-64 with AVX512): the kernels refine an estimate of the root, in
# which 0 times infinity occurs: sqrt(inf) and rsqrt(0) are NaN, so is rsqrt of denormal numbers. exp(NaN) is 0. A row
# of zeros that is normalized by rsqrt(sum of squares) becomes NaN.
# What to do: add an epsilon of at least 1e-37 under the root.
# edgecore: its XNNPACK has corrected roots (`tests/compile/test_values_of_findings.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 executorch==1.5.1)
cat > "$folder/run.py" <<'PY'
import warnings
from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime

warnings.simplefilter("ignore")
if "avx512f" not in Path("/proc/cpuinfo").read_text():
    print("not on this processor: seen with AVX512, whose kernels others do not run")
    raise SystemExit(77)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sqrt(x), torch.rsqrt(x), torch.exp(x)


def run(x, partitioners):
    program = to_edge_transform_and_lower(torch.export.export(Model(), (x,)), partitioner=partitioners)
    loaded = Runtime.get().load_program(program.to_executorch().buffer)
    return [value.tolist() for value in loaded.load_method("forward").execute([x])]


x = torch.tensor([torch.inf, 0.0, 4.0, torch.nan])
print("torch", torch.__version__, "executorch 1.5.1, of", x.tolist())
portable, delegated = run(x, []), run(x, [XnnpackPartitioner()])
for name, ours, theirs in zip(("sqrt", "rsqrt", "exp"), portable, delegated):
    print(f"{name}: portable {ours}, XNNPACK {theirs}")
for got, want in zip(portable, Model()(x)):
    torch.testing.assert_close(torch.tensor(got), want, equal_nan=True)
roots = torch.tensor([[torch.nan, 0, 2, torch.nan], [0, torch.nan, 0.5, torch.nan]])
torch.testing.assert_close(torch.tensor(delegated[:2]), roots, equal_nan=True, msg="the behaviour has changed")
assert delegated[2][3] == 0, "the behaviour has changed"
PY
"$python" "$folder/run.py"
