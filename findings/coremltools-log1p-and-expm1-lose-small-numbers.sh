#!/bin/sh
# coremltools converts log1p(x) to log(x + 1) and expm1(x) to exp(x) - 1.
#
# Expected: log1p and expm1 exist because these forms lose small numbers; a converter keeps the precision (by x - x * x
# / 2 near 0, say), or refuses the operators, as it refuses logaddexp.
# What happens (coremltools 9.0, torch 2.13.0): log1p becomes the operator log with epsilon 1.0, expm1 becomes exp and
# sub. coremltools' own evaluation of both for 1e-8 is 0, and for 1e-7 it is off by 19%. In float16, the default
# precision, 1 + x is 1 for every x below 0.00049.
# What to do: do not convert models that rely on small results of log1p and expm1, or write a series for small |x|.
# edgecore: delegates neither to Core ML (`plugins/edgecore-coreml/tests/test_operators.py`).
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
small = torch.tensor([1e-8, 1e-7, 1e-3])
x = torch.rand(3)
print("log1p:", [(op.op_type, float(op.epsilon.val)) for op in convert(torch.log1p, x)])
print("expm1:", [op.op_type for op in convert(torch.expm1, x)])
for name, function in (("log1p", torch.log1p), ("expm1", torch.expm1)):
    # coremltools evaluates operators of constants itself; `x * 1` keeps the model from being a constant
    (product,) = convert(lambda a, function=function: a * function(small), x)
    folded = next(value.val for value in (product.y, product.x) if value.val is not None)
    wrong = abs(folded / function(small).numpy() - 1)
    print(f"{name} of {small.tolist()}: {folded.tolist()}, relative errors {wrong.tolist()}")
    assert folded[0] == 0 and 0.1 < wrong[1] < 0.3 and wrong[2] < 1e-3, "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
