#!/bin/sh
# coremltools converts a quantization to 4 bits in int8, -8 to 7, to one to all of int8.
#
# Expected: quantize_per_tensor with quant_min=-8 and quant_max=7, as PT2E writes it for activations of 4 bits, converts
# to a clamp and a quantize, or the conversion fails, since Core ML's quantize has no limits other than those of its
# type.
# What happens (coremltools 9.0, torch 2.13.0): the limits are dropped. The program has quantize to int8 and dequantize,
# without a clamp, so 3.0 at a scale of 0.1 stays 3.0, where PyTorch gives 0.7. A network trained with 4-bit
# activations, or with a range of -127 to 127, computes something else. Nothing is said.
# What to do: write the limits as x.clamp(low * scale, high * scale) before the quantization; use all integers of int8
# or uint8.
# edgecore: leaves quantizations with other limits to other kernels
# (`plugins/edgecore-coreml/tests/test_operators.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 coremltools==9.0 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import coremltools as ct
import torch
from coremltools_program import convert

print("coremltools", ct.__version__, "torch", torch.__version__)
import torch.ao.quantization.fx._decomposed  # registers the operators

quantized = torch.ops.quantized_decomposed


def limited(low, high):
    def function(x):
        codes = quantized.quantize_per_tensor(x, 0.1, 0, low, high, torch.int8)
        return quantized.dequantize_per_tensor(codes, 0.1, 0, low, high, torch.int8)

    return function


x = torch.tensor([3.0, -0.25, -3.0])
programs = []
for low, high in ((-128, 127), (-8, 7)):
    operators = convert(limited(low, high), x)
    programs.append([op.op_type for op in operators])
    values = [round(float(value), 3) for value in limited(low, high)(x)]
    print(f"{low} to {high}: {programs[-1]}; PyTorch gives {values}")
assert programs[0] == programs[1] == ["quantize", "dequantize"], "the behaviour has changed"
assert float(limited(-8, 7)(x)[0]) < 0.71
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
