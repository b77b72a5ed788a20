#!/bin/sh
# executorch's layer norm and group norm of values with a large mean are NaN, or wrong by several times.
#
# Expected: normalizing x = 100 +- 0.003 in float32 loses digits, as x itself has only 5 of them for the deviations, but
# gives about what eager PyTorch gives, since (x - mean) is exact to the last bit of x.
# What happens (torch 2.13.0, executorch 1.5.1, portable kernels): the variance is computed as mean(x^2) - mean(x)^2,
# two numbers near 10000 that differ by 1e-5, less than float32 resolves. The difference is 0 or negative: rows of layer
# norm and images of instance norm become NaN, others are 7 to 10 times too small or too large. Values of 1000 +- 1,
# usual for raw sensors, are off by 7 to 12 %. `torch.var` of the same values is right.
# What to do: subtract a typical value (the offset of the sensor) before the first norm, or write the norm with var and
# mean; XNNPACK does not take layer norm, so lowering to it changes nothing.
# edgecore: its kernels subtract the mean before they square (`tests/compile/test_values_of_findings.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 executorch==1.5.1)
cat > "$folder/run.py" <<'PY'
import warnings

import torch
import torch.nn.functional as F
from executorch.exir import to_edge
from executorch.runtime import Runtime

warnings.simplefilter("ignore")


class Model(torch.nn.Module):
    def forward(self, x):
        return F.layer_norm(x, (16,)), F.group_norm(x.view(2, 4, 16), 1), x.var(-1)


def run(mean, deviation):
    """Return rows with NaN, the error of layer norm relative to the largest value, those of group norm, that of var."""
    x = mean + deviation * torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    buffer = to_edge(torch.export.export(Model(), (x,))).to_executorch().buffer
    got = Runtime.get().load_program(buffer).load_method("forward").execute([x])
    errors = [float((a - b).abs().nan_to_num(0).max() / b.abs().max()) for a, b in zip(got, Model()(x))]
    assert all(value.isfinite().all() for value in Model()(x)), "eager PyTorch is not finite either"
    return int(got[0].isnan().any(-1).sum()), *errors


print("torch", torch.__version__, "executorch 1.5.1")
seen = {case: run(*case) for case in ((0.0, 1.0), (1000.0, 1.0), (100.0, 0.003))}
for (mean, deviation), (rows, layer, group, variance) in seen.items():
    print(f"{mean:g} +- {deviation:g}: {rows} of 8 rows NaN; relative errors: layer norm {layer:.2g},", end=" ")
    print(f"group norm {group:.2g}, var {variance:.2g}")
assert seen[0.0, 1.0][0] == 0 and max(seen[0.0, 1.0]) < 1e-4, "the behaviour has changed"
assert seen[1000.0, 1.0][1] > 0.02 and seen[100.0, 0.003][0] > 0, "the behaviour has changed"
assert all(row[3] < 1e-2 for row in seen.values()), "the behaviour has changed"
PY
"$python" "$folder/run.py"
