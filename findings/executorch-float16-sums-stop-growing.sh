#!/bin/sh
# executorch adds up convolutions, average pools and cumulative sums of float16 in float16, where sums stop at 2048.
#
# Expected: sums of float16 and bfloat16 are kept in float32 and rounded once at the end, as eager PyTorch does on the
# CPU, or at least with an error that grows slowly.
# What happens (torch 2.13.0, executorch 1.5.1, portable kernels): each step is rounded. In float16 a sum of ones stays
# at 2048, in bfloat16 at 256, since 1 is then less than half a step. A convolution of ones with a 64x64 kernel gives
# 2048 instead of 4096, the average of 64x64 ones 0.5, the cumulative sum ends at 2048. layer_norm of 4096 values
# between 1 and 2 is off by more than 2. Linear layers, mean and softmax are right.
# What to do: keep models for the portable kernels in float32, or insert .float() before these layers.
# edgecore: its kernels add in float32 (`tests/compile/test_values_of_findings.py`).
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
    def forward(self, x, kernel):
        image = x.view(1, 1, 64, 64)
        last = x.cumsum(-1)[:, -1]
        return F.conv2d(image, kernel), F.avg_pool2d(image, 64), last, x.mean(-1), x @ x.t(), F.layer_norm(x, (4096,))


def run(x):
    """Return what the portable kernels give, and what eager PyTorch gives."""
    inputs = x, torch.ones(1, 1, 64, 64, dtype=x.dtype)
    buffer = to_edge(torch.export.export(Model(), inputs)).to_executorch().buffer
    return Runtime.get().load_program(buffer).load_method("forward").execute(list(inputs)), Model()(*inputs)


print("torch", torch.__version__, "executorch 1.5.1")
for dtype, end in ((torch.float32, 4096), (torch.float16, 2048), (torch.bfloat16, 256)):
    got, eager = run(torch.ones(1, 4096, dtype=dtype))
    numbers = [float(value) for value in got[:5]]
    print(f"{dtype} ones: convolution, average, cumulative sum, mean, product:", numbers)
    assert [float(value) for value in eager[:5]] == [4096, 1, 4096, 1, 4096], "the behaviour has changed"
    assert numbers == [end, end / 4096, end, 1, 4096], "the behaviour has changed"
    x = torch.rand(1, 4096, generator=torch.Generator().manual_seed(0)) + 1
    got, eager = run(x.to(dtype))
    error = float((got[5].float() - eager[5].float()).abs().max())
    print(f"{dtype} values of 1 to 2: largest error of layer norm {error:.3g}")
    assert (error < 1e-3) == (dtype == torch.float32), "the behaviour has changed"
PY
"$python" "$folder/run.py"
