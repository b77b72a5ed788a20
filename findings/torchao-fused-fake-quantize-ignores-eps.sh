#!/bin/sh
# torchao's FusedMovingAvgObsFakeQuantize rounds small signals to zero in training, whatever eps it has.
#
# Expected: `eps` is the smallest scale of a fake quantizer, and the fused class is only a faster FakeQuantize with a
# moving average: the same scale in training, and the scale that convert_pt2e later writes into the model.
# What happens (torch 2.13.0, torchao 0.18.0): for signals of about 1e-6 and eps=1e-12 the fused one trains with the
# scale 6.1e-05, a floor within its kernel, so that its output is zero and no gradient tells. calculate_qparams, which
# conversion uses, gives 7.8e-09 at the same moment. FakeQuantize with the same observer uses this scale throughout. So
# a network whose inner signals are small (after weights that a batch norm was folded into) trains without this layer,
# and is converted with it.
# What to do: use FakeQuantize for layers with values below 0.008, which is 127 of these steps; or scale such layers up.
# edgecore: its recipes train small signals with steps of their magnitude (`tests/compile/test_small_signals.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 torchao==0.18.0 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import warnings

import torch
import torchao
from torchao.quantization.pt2e import MovingAverageMinMaxObserver
from torchao.quantization.pt2e.fake_quantize import FakeQuantize, FusedMovingAvgObsFakeQuantize

warnings.simplefilter("ignore")
print("torch", torch.__version__, "torchao", torchao.__version__)
signal = torch.linspace(-1e-6, 1e-6, 101)
seen = {}
for kind in (FusedMovingAvgObsFakeQuantize, FakeQuantize):
    limits = {"quant_min": -128, "quant_max": 127, "dtype": torch.int8, "eps": 1e-12}
    quantizer = kind(observer=MovingAverageMinMaxObserver, **limits)
    result = quantizer(signal)
    converted, _ = quantizer.calculate_qparams()
    seen[kind] = float(quantizer.scale), float(converted), float(result.abs().max())
    print(f"{kind.__name__}: scale in training %.3g, scale of conversion %.3g, largest output %.3g" % seen[kind])
fused, plain = seen.values()
assert 6e-5 < fused[0] < 6.2e-5 and fused[1] < 1e-7 and fused[2] == 0, "the behaviour has changed"
assert plain[0] < 1e-7 and plain[2] > 9e-7, "the behaviour has changed"
PY
"$python" "$folder/run.py"
