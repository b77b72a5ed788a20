#!/bin/sh
# coremltools converts torch.reciprocal(x), and c / x for a number c, to c / (x + 0.0001), in float32 models too.
#
# Expected: 1 / x is converted to a division, or to an operator that computes 1 / x as precisely as float32 can. If a
# small number keeps zeros away, it is as small as for rsqrt and log (1e-12 and 1e-45).
# What happens (coremltools 9.0, torch 2.13.0): both forms become the MIL operator `inverse` with epsilon 1e-4, which
# Core ML's specification adds to x. So 1 / 0.001 is 909 instead of 1000, 1 / -0.0001 is infinite, and the reciprocal of
# 1e-6 is 9,901 instead of a million. A quotient of two tensors is a real division. The conversion says nothing.
# What to do: write a quotient of two tensors, torch.ones_like(x) / x, and look for `inverse` in the converted program.
# edgecore: replaces the reciprocal by a division before coremltools sees it
# (`plugins/edgecore-coreml/tests/test_operators.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 coremltools==9.0 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import warnings

import coremltools as ct
import torch

warnings.simplefilter("ignore")


def operators(function):
    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    exported = torch.export.export(Model(), (torch.rand(4),)).run_decompositions({})
    model = ct.convert(exported, minimum_deployment_target=ct.target.iOS17, compute_precision=ct.precision.FLOAT32)
    rows = [op for op in model._mil_program.functions["main"].operations if op.op_type != "const"]
    return [(op.op_type, float(op.epsilon.val) if "epsilon" in op.inputs else None) for op in rows]


forms = {
    "reciprocal(x)": torch.reciprocal,
    "1 / x": lambda x: 1 / x,
    "2 / x": lambda x: 2 / x,
    "ones_like(x) / x": lambda x: torch.ones_like(x) / x,
    "rsqrt(x)": torch.rsqrt,
}
got = {name: operators(function) for name, function in forms.items()}
print("coremltools", ct.__version__, "torch", torch.__version__)
for name, rows in got.items():
    print(f"{name}: {rows}")
for name in ("reciprocal(x)", "1 / x", "2 / x"):
    operator, epsilon = got[name][0]
    assert operator == "inverse" and abs(epsilon - 1e-4) < 1e-9, "the behaviour has changed"
assert got["ones_like(x) / x"][-1] == ("real_div", None), "the behaviour has changed"
PY
"$python" "$folder/run.py"
