#!/bin/sh
# PyTorch's GELU of infinity is NaN in float32, and infinity in a tensor of one element, in float16 and in float64.
#
# Expected: the exact GELU, x * Phi(x), of infinity is infinity in each dtype, and of 3e38 is 3e38.
# What happens (torch 2.13.0, CPU, x86-64 with AVX512): float32 and bfloat16 tensors of two elements or more go to
# oneDNN, whose AVX512 kernel gives NaN for infinity, and infinity for 3e38. A tensor of one element, float16, float64,
# approximate="tanh" and processors with AVX2 alone (or ONEDNN_MAX_CPU_ISA=AVX2) take other kernels, which give infinity.
# What to do: compare with float64, or in `torch.backends.mkldnn.flags(enabled=False)`, where inputs may be infinite.
# edgecore: its pages of special values compare with the eager PyTorch of the same processor, so the row `gelu` of a page
# depends on the processor (`plugins/edgecore-openvino/docs/special-values.md`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0)
cat > "$folder/run.py" <<'PY'
from pathlib import Path

import torch

if "avx512f" not in Path("/proc/cpuinfo").read_text():
    print("not on this processor: seen with AVX512, whose kernels others do not run")
    raise SystemExit
gelu, inf = torch.nn.functional.gelu, torch.inf
print("torch", torch.__version__)
print("exact GELU of infinity, two elements:", {str(dtype): gelu(torch.full((2,), inf, dtype=dtype))[0].item()
      for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64)})
print("one element:", gelu(torch.tensor([inf])).item(), "; of 3e38, two elements:", gelu(torch.full((2,), 3e38))[0].item())
with torch.backends.mkldnn.flags(enabled=False):
    plain, large = gelu(torch.full((2,), inf)), gelu(torch.full((2,), 3e38))
print("without oneDNN:", plain[0].item(), large[0].item())
changed = "the behaviour has changed"
assert gelu(torch.full((2,), inf)).isnan().all() and gelu(torch.full((2,), inf, dtype=torch.bfloat16)).isnan().all(), changed
assert gelu(torch.tensor([inf])).isinf().all() and gelu(torch.full((2,), inf, dtype=torch.float16)).isinf().all(), changed
assert gelu(torch.full((2,), inf), approximate="tanh").isinf().all() and plain.isinf().all(), changed
assert gelu(torch.full((2,), 3e38)).isinf().all() and large.isfinite().all(), changed
PY
"$python" "$folder/run.py"
