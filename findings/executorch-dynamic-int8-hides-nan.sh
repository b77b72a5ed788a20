#!/bin/sh
# executorch's XNNPACK delegate gives plausible numbers for a row with a NaN in dynamically quantized linear layers.
#
# Expected: a NaN in the input of a linear layer makes its whole row NaN, as in float32 and in the quantized PyTorch
# model: the range of the row, and so its scale, is NaN.
# What happens (torch 2.13.0, executorch 1.5.1, XNNPACK on x86-64): minimum and maximum of the row skip the NaN,
# wherever it stands, and the conversion to int8 turns it into an ordinary code. The outputs are finite and near those
# without it. Only a row of nothing but NaN stays NaN. A row with an infinity gives infinities where the quantized
# PyTorch model gives NaN.
# What to do: look for NaN in the inputs and before each linear layer; a check of the outputs finds nothing.
# edgecore: its XNNPACK delegate does the same, and its page of special values says so; other rows stay right
# (`plugins/edgecore-xnnpack/tests/test_quantizer.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 executorch==1.5.1)
cat > "$folder/run.py" <<'PY'
import warnings

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

warnings.simplefilter("ignore")
torch.manual_seed(0)
x = torch.randn(4, 64)
config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)
prepared = prepare_pt2e(
    torch.export.export(torch.nn.Linear(64, 4).eval(), (x,)).module(), XNNPACKQuantizer().set_global(config)
)
prepared(x)
quantized = convert_pt2e(prepared)
lowered = to_edge_transform_and_lower(torch.export.export(quantized, (x,)), partitioner=[XnnpackPartitioner()])
program = Runtime.get().load_program(lowered.to_executorch().buffer)
method = program.load_method("forward")
print("torch", torch.__version__, "executorch 1.5.1")
plain = method.execute([x])[0].clone()
print("without NaN:", plain[3].tolist())
for position in (0, 1, 31, 63):
    x_nan = x.clone()
    x_nan[3, position] = torch.nan
    got = method.execute([x_nan])[0].clone()
    with torch.no_grad():
        eager = quantized(x_nan)
    print(f"NaN at {position}: XNNPACK {got[3].tolist()}, quantized PyTorch {eager[3].tolist()}")
    assert eager[3].isnan().all(), "the behaviour has changed"
    assert got[3].isfinite().all() and torch.equal(got[:3], plain[:3]), "the behaviour has changed"
PY
"$python" "$folder/run.py"
