#!/bin/sh
# coremltools lets a row of attention whose mask hides every key attend to all of them, and differently by target.
#
# Expected: scaled_dot_product_attention with a boolean mask of padding gives zeros for a row without a visible key, as
# PyTorch does, or NaN; and the deployment target changes nothing about it.
# What happens (coremltools 9.0, torch 2.13.0): up to iOS17 the mask becomes -30000 * (1 - mask), added to the scores. A
# row in which all keys are hidden has the same number added everywhere, which softmax removes: it attends to the hidden
# keys as if there was no mask. From iOS18 on the booleans go to Core ML's own operator. In float16 scores of such a row
# have a step of 16.
# What to do: multiply the result by mask.any(-1, keepdim=True), or let each query see itself.
# edgecore: gives such rows zeros (`plugins/edgecore-coreml/tests/conversion/test_masks.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 coremltools==9.0 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import coremltools as ct
import numpy as np
import torch
from coremltools_program import convert

print("coremltools", ct.__version__, "torch", torch.__version__)


def attention(query, mask):
    return torch.nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)


query, mask = torch.rand(1, 1, 3, 4), torch.tensor([[True, False, False], [False] * 3, [True] * 3])
before = convert(attention, query, mask)
after = convert(attention, query, mask, target=ct.target.iOS18)
factor = next(op.x.val for op in before if op.op_type == "mul" and op.x.val is not None and op.x.val < 0)
kinds = [[op.op_type for op in program] for program in (before, after)]
print("iOS17:", kinds[0], "factor", factor)
print("iOS18:", kinds[1])
assert factor == -30000 and "scaled_dot_product_attention" in kinds[1], "the behaviour has changed"
scores = (query @ query.mT / 2)[0, 0].numpy() + factor * (1 - mask.numpy().astype(np.float32))  # as with iOS17
weights = np.exp(scores - scores.max(1, keepdims=True))
weights /= weights.sum(1, keepdims=True)
print("weights by the program of iOS17:", weights.round(3).tolist())
print("result of PyTorch in the closed row:", attention(query, mask)[0, 0, 1].tolist())
assert weights[1].min() > 0.2 and weights[0].tolist() == [1, 0, 0]
assert attention(query, mask)[0, 0, 1].abs().max() == 0
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
