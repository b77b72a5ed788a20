#!/bin/sh
# GGUF's Q8_0 rounds weights of 0.000001 to zero, where Q4_0 keeps them to 10 %.
#
# Expected: 8 bits are more exact than 4 bits, as each block of 32 weights has a scale of its own; the unit of the
# weights does not matter.
# What happens (gguf 0.19.0, numpy 2.4.6): the scale is a float16, and Q8_0 divides the largest weight by 127, Q4_0 by
# 8. A block with a largest weight of 3.8e-6 or less has a scale of 0 in Q8_0, all its weights become 0. Before that the
# scale loses digits: errors of 12 % for weights near 1e-5, and 1.2 % near 1e-4, instead of 0.4 %. In Q4_0 the same
# happens 16 times later. bfloat16 keeps all of them. LoRA matrices, routers and embeddings of rare tokens have such
# blocks.
# What to do: scale small matrices up and their other factor (or alpha) down before you convert, or store them as BF16;
# compare each tensor with its values after gguf.dequantize.
# edgecore: reads the numbers that llama.cpp computes from a block (`plugins/edgecore-llm/tests/checkpoints/test_gguf.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" gguf==0.19.0 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
from importlib.metadata import version

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

print("gguf", version("gguf"), "numpy", np.__version__)
weight = np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)
errors = {}
for size in (1.0, 1e-3, 1e-4, 1e-5, 1e-6):
    x = weight * np.float32(size)
    for kind in (Type.Q8_0, Type.Q4_0, Type.BF16):
        back = dequantize(quantize(x, kind), kind)
        errors[kind, size] = float(np.linalg.norm(back - x) / np.linalg.norm(x))
    text = ", ".join(f"{kind.name} {errors[kind, size]:.4f}" for kind in (Type.Q8_0, Type.Q4_0, Type.BF16))
    print(f"weights near {size:g}: relative error (2-norm) {text}")
assert errors[Type.Q8_0, 1.0] < 0.01 < 0.05 < errors[Type.Q4_0, 1.0], "the behaviour has changed"
assert errors[Type.Q8_0, 1e-5] > 4 * errors[Type.Q8_0, 1.0], "the behaviour has changed"
assert errors[Type.Q8_0, 1e-6] > 0.9 and errors[Type.Q4_0, 1e-6] < 0.2, "the behaviour has changed"
assert errors[Type.BF16, 1e-6] < 0.01, "the behaviour has changed"
PY
"$python" "$folder/run.py"
