#!/bin/sh
# executorch's XNNPACKQuantizer turns signals below 0.0001 into zeros, as no scale is smaller than 1/4096.
#
# Expected: calibration chooses scales from the observed range, whatever its unit: a network whose inputs are multiplied
# by 0.0001 is quantized as well as the original, with scales that are 10,000 times smaller.
# What happens (torch 2.13.0, executorch 1.5.1): all observers have eps = 2^-12, the smallest scale they return. A range
# of 0.001 so gets 8 codes instead of 256, and the error of the network grows from 1 % to 30 %. For a range of 0.0001
# all codes are 0, and the output does not depend on the input. Neither prepare_pt2e nor convert_pt2e warns, and the
# weights, whose ranges have the same floor, lose rows below 1e-4 in the same way.
# What to do: scale inputs in physical units (volts, metres) to about 1 before the network; look for scales of exactly
# 0.000244140625 after convert_pt2e.
# edgecore: its recipes have no such floor (`tests/compile/test_small_signals.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 executorch==1.5.1)
cat > "$folder/run.py" <<'PY'
import warnings

import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

warnings.simplefilter("ignore")


def run(factor):
    """Return the error of the quantized network relative to its largest output, and its scales of activations."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 64, bias=False), torch.nn.ReLU(), torch.nn.Linear(64, 4, bias=False)
    model, x = torch.nn.Sequential(*layers).eval(), torch.randn(32, 64) * factor
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(model, (x,)).module(), quantizer)
    prepared(x)
    quantized = convert_pt2e(prepared)
    nodes = [node for node in quantized.graph.nodes if "quantize_per_tensor" in str(node.target)]
    with torch.no_grad():
        want, got = model(x), quantized(x)
    return float((got - want).abs().max() / want.abs().max()), sorted({node.args[1] for node in nodes}), got


print("torch", torch.__version__, "executorch 1.5.1")
errors = {}
for factor in (1.0, 1e-3, 1e-4):
    errors[factor], scales, got = run(factor)
    print(f"inputs times {factor:g}: relative error {errors[factor]:.3f}, scales {scales}")
assert errors[1.0] < 0.03 < 0.2 < errors[1e-3] < 0.6, "the behaviour has changed"
assert scales == [2**-12] and not got.any(), "the behaviour has changed"
PY
"$python" "$folder/run.py"
