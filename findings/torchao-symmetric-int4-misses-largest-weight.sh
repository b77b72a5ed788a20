#!/bin/sh
# torchao's symmetric int4 rounds the largest weight of every group, also weights that lie on a grid of int4 already.
#
# Expected: symmetric quantization to 4 bits maps the largest absolute weight of a group to 7 or to -8, so that weights
# that are integers from -7 to 7 times a scale (after quantization-aware training, or from another quantized file) come
# back unchanged.
# What happens (torch 2.13.0, torchao 0.18.0): the default MappingType.SYMMETRIC takes 7.5 as the largest integer: the
# scale is max / 7.5. The weight 7 becomes 6.53 and -7 becomes -7.47, 7 % off in both directions; with 8 bits it is max
# / 127.5, so 0.4 %. Only weights within the group are exact by luck. Quantizing twice does not give the same as once.
# What to do: use MappingType.SYMMETRIC_NO_CLIPPING_ERR, whose scale is max / 7 for a positive maximum and max / 8 for a
# negative one; keep the integers and scales of weights that are quantized already.
# edgecore: int4-weights keeps weights that lie on a grid (`tests/compile/test_values_of_findings.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 torchao==0.18.0 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import warnings

import torch
import torchao
from torchao.quantization import IntxWeightOnlyConfig, PerGroup, quantize_
from torchao.quantization.quant_primitives import MappingType

warnings.simplefilter("ignore")


def rounded(weight, mapping):
    """Return the weights after `quantize_` with 4 bits and groups of 32."""
    model = torch.nn.Sequential(torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False))
    model[0].weight.data = weight.clone()
    quantize_(model, IntxWeightOnlyConfig(torch.int4, PerGroup(32), mapping))
    return model[0].weight.dequantize()


print("torch", torch.__version__, "torchao", torchao.__version__)
generator = torch.Generator().manual_seed(0)
grid = torch.randint(-6, 7, (64, 32), generator=generator).float()
grid[:32, 0], grid[32:, 0] = 7, -7
seen = {}
for mapping in (MappingType.SYMMETRIC, MappingType.SYMMETRIC_NO_CLIPPING_ERR):
    once = rounded(grid, mapping)
    again = rounded(once, mapping)
    seen[mapping] = float(once[0, 0]), float(once[32, 0])
    off = float((again - once).abs().max())
    print(f"{mapping.name}: 7 becomes {seen[mapping][0]:.4f}, -7 becomes {seen[mapping][1]:.4f};", end=" ")
    print(f"quantizing once more changes weights by up to {off:.3f}")
    assert (off > 0.1) == (mapping == MappingType.SYMMETRIC), "the behaviour has changed"
assert seen[MappingType.SYMMETRIC][0] < 6.6 and seen[MappingType.SYMMETRIC][1] < -7.4, "the behaviour has changed"
assert seen[MappingType.SYMMETRIC_NO_CLIPPING_ERR] == (7.0, -7.0), "the behaviour has changed"
PY
"$python" "$folder/run.py"
